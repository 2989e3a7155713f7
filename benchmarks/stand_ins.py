"""Stand-ins for programs that need systemd or a running Slurm, for lightweight hosts, where neither is started."""

from __future__ import annotations

from pathlib import Path

MARK = "Stand-in of slurmfab's benchmarks: nothing runs here."

LISTENING = """\
import os, socket
listener = socket.create_server(("", 0))
listener.set_inheritable(True)
pid = os.fork()
if pid:
    print(pid)
else:
    os.closerange(0, 3)
    os.execvp("sleep", ["sleep", "infinity"])
"""
"""Python text: prints the process ID of a process that listens on a TCP port and sleeps."""

SYSTEMCTL = f"""#!/bin/sh
# {MARK} A unit that was started is a process that sleeps, and listens as Slurm's daemons do; munged is real.
state=/run/stand-in
mkdir -p "$state"
verb= units=
while [ $# -gt 0 ]; do
    case $1 in
        -p) shift ;;
        -*) ;;
        *) if [ -z "$verb" ]; then verb=$1; else units="$units ${{1%.service}}"; fi ;;
    esac
    shift
done
end() {{
    read -r old 2>/dev/null <"$state/$1" && kill "$old"
    rm -f "$state/$1"
    # A munged that still ends has the lock of the next one.
    for _ in $(seq 100); do [ -n "$old" ] && [ -d "/proc/$old" ] || break; sleep 0.05; done
}}
begin() {{
    case $1 in
        munge)
            install -d -o munge -g munge /run/munge
            setpriv --reuid=munge --regid=munge --clear-groups /usr/sbin/munged --foreground --num-threads=2 \\
                </dev/null >/dev/null 2>&1 &
            echo $! >"$state/$1" ;;
        slurmctld | slurmd) python3 -ISc '{LISTENING}' </dev/null >"$state/$1" ;;
        *) sleep infinity </dev/null >/dev/null 2>&1 & echo $! >"$state/$1" ;;
    esac
}}
show() {{
    load=not-found active=inactive file= pid=0
    case $1 in *.*) path=$1 ;; *) path=$1.service ;; esac
    if [ -e "/usr/lib/systemd/system/$path" ] || [ -e "/etc/systemd/system/$path" ]; then
        load=loaded file=disabled
        [ -e "/var/lib/stand-in/$1" ] && file=enabled
        if read -r pid 2>/dev/null <"$state/$1" && [ -d "/proc/$pid" ]; then active=active; else pid=0; fi
    fi
    echo "LoadState=$load"; echo "ActiveState=$active"; echo "UnitFileState=$file"; echo "MainPID=$pid"
    set -- "/etc/systemd/system/$path.d"/*.conf
    [ -e "$1" ] || set --
    echo "DropInPaths=$*"; echo NeedDaemonReload=no; echo ConditionResult=yes; echo Result=success; echo
}}
for unit in $units; do
    case $verb in
        show) show "$unit" ;;
        start) [ -e "$state/$unit" ] || begin "$unit" ;;
        restart | try-restart) end "$unit"; begin "$unit" ;;
        stop) end "$unit" ;;
        enable) mkdir -p /var/lib/stand-in && : >"/var/lib/stand-in/$unit" ;;
        disable) rm -f "/var/lib/stand-in/$unit"; end "$unit" ;;
    esac
done
exit 0
"""

NODES = """sed -n 's/^NodeName=\\([^ ]*\\).*/\\1/p' /etc/slurm/slurm.conf | while read -r nodes; do
    /usr/bin/scontrol show hostnames "$nodes"
done"""
"""Text for sh: prints the names in slurm.conf."""

SINFO = f"""#!/bin/sh
# {MARK} Every node of slurm.conf is said to be idle; the mark behind each field is that of the question.
for word in "$@"; do case $word in --format=%N*) mark=${{word#--format=%N}}; mark=${{mark%%%*}} ;; esac; done
{NODES} | sed "s/$/${{mark}}idle${{mark}}none${{mark}}root${{mark}}/"
"""

SCONTROL = f"""#!/bin/sh
# {MARK} The daemons are said to answer; what needs none of them is the real program's.
case "$*" in
    ping) echo "Slurmctld(primary) at stand-in is UP" ;;
    *"show node"*) {NODES} | sed "s/.*/NodeName=& State=IDLE/" ;;
    "show host"* | *-V*) exec /usr/bin/scontrol "$@" ;;
esac
"""

SQUEUE = f"""#!/bin/sh
# {MARK} There are no jobs.
"""

PROGRAMS = {
    "usr/bin/systemctl": SYSTEMCTL,
    "usr/bin/sinfo": SINFO,
    "usr/bin/squeue": SQUEUE,
    "usr/local/bin/scontrol": SCONTROL,
}
"""By the path that they have on a host."""


def install(root: Path) -> None:
    """Put the stand-ins into a root file system; what had their names is replaced, not written into."""
    for name, text in PROGRAMS.items():
        path = root / name
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
