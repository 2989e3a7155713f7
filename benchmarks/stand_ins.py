"""Stand-ins for programs that need systemd or a running Slurm, for lightweight hosts, where neither is started."""

from __future__ import annotations

from pathlib import Path

MARK = "Stand-in of slurmfab's benchmarks: nothing runs here."

SYSTEMCTL = f"""#!/bin/sh
# {MARK} A unit that was started is a process that sleeps; munged is real.
state=/run/stand-in
mkdir -p "$state"
verb= units=
while [ $# -gt 0 ]; do
    case $1 in
        -p) shift ;;
        -*) ;;
        *) if [ -z "$verb" ]; then verb=$1; else units="$units $1"; fi ;;
    esac
    shift
done
end() {{ read -r old 2>/dev/null <"$state/$1" && kill "$old"; rm -f "$state/$1"; }}
begin() {{
    set -- "$1" sleep infinity
    if [ "$1" = munge ]; then
        install -d -o munge -g munge /run/munge
        set -- "$1" setpriv --reuid=munge --regid=munge --clear-groups /usr/sbin/munged --foreground --num-threads=2
    fi
    unit=$1; shift
    "$@" </dev/null >/dev/null 2>&1 &
    echo $! >"$state/$unit"
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
    echo NeedDaemonReload=no; echo ConditionResult=yes; echo Result=success; echo
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

SINFO = f"""#!/bin/sh
# {MARK} Every node of slurm.conf is said to be idle.
sed -n 's/^NodeName=\\([^ ]*\\).*/\\1/p' /etc/slurm/slurm.conf | while read -r nodes; do
    scontrol show hostnames "$nodes"
done | sed 's/$/|idle|none/'
"""

PROGRAMS = {"usr/bin/systemctl": SYSTEMCTL, "usr/bin/sinfo": SINFO}
"""By the path that they have on a host."""


def install(root: Path) -> None:
    """Put the stand-ins into a root file system; what had their names is replaced, not written into."""
    for name, text in PROGRAMS.items():
        path = root / name
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
