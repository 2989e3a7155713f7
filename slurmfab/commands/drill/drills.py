"""The drills: what each does, how it is taken back, what should notice it, and within which time. Pure.

A new drill is one row of `DRILLS`. Its scripts run as root on the host of the fault (`agent.nodes.timed_fault`):
`begin` refuses with the reason, and `end` also takes back what an interrupted `begin` did.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from typing import NamedTuple

from slurmfab.base.paths import SLURM_SPOOL
from slurmfab.cluster.inventory import ports
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.mounts import Mount
from slurmfab.cluster.inventory.slurm_settings import setting
from slurmfab.cluster.inventory.storage import mounts_of
from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.programs.health.host_checks import required_bytes

FAILOVER = "failover"
ON_NODE, ON_CONTROLLER = "a compute node", "the controller"

SLURMD_TIMEOUT, SLURMCTLD_TIMEOUT, RESUME_TIMEOUT = 300, 120, 900  # seconds, as the template of slurm.conf has them
SPARE = 60  # seconds that a drill waits longer than Slurm's settings say
RESTART = 60  # seconds within which systemd starts a daemon again, and slurmctld reads its state
ROUNDS = 3  # so many intervals of the health check: a file server is late twice, a node is well twice
MOST_FILLED = 16 << 30  # bytes of a file system with other things that a drill fills at most
TOO_LATE = 660  # seconds: munge refuses credentials of more than 300 s (munged(8), --ttl)

PORTS_OF = {"nfs": "2049", "nfs4": "2049", "glusterfs": "24007-24008, 49152-60999", "fuse.sshfs": "22"}
"""The TCP ports of file servers, by the type of a mount."""

_SERVER = re.compile(r"(?:[^@:]*@)?(\[[^\]]*\]|[^:,]+)")


class Script(NamedTuple):
    """What is done on a host, and how it is taken back; two texts for `sh`."""

    begin: str
    end: str = ""


class Drill(NamedTuple):
    """A fault on purpose."""

    name: str
    what: str  # what happens, for people
    where: str  # `ON_NODE` or `ON_CONTROLLER`
    script: Callable[[Inventory, str], Script]  # by the host of the fault
    noticed: Callable[[Cluster], float]  # seconds within which Slurm has to know of it
    back: Callable[[Cluster], float]  # seconds within which all has to be well after its end
    alerts: tuple[str, ...]  # the alert rules about it
    advice: str  # what to set where it is noticed late or not at all
    why_not: Callable[[Inventory, str], str] = lambda _known, _host: ""  # why the cluster file or lock excludes it
    unless: str = ""  # on which hosts it is refused, which only they can tell


def seconds_in(cluster: Cluster, key: str, default: int) -> int:
    """A time of slurm.conf in seconds."""
    value = setting(cluster.slurm_conf, key)
    return int(value) if value.isdecimal() else default


def by_ping(cluster: Cluster) -> float:
    """Until slurmctld sets a silent node DOWN, or knows of its return."""
    return seconds_in(cluster, "SlurmdTimeout", SLURMD_TIMEOUT) + SPARE


def by_health(cluster: Cluster) -> float:
    """Until the health check has run often enough; without one, a moment."""
    interval = cluster.health.interval if cluster.health else seconds_in(cluster, "HealthCheckInterval", 0)
    return ROUNDS * interval + SPARE


def by_boot(cluster: Cluster) -> float:
    """Until a machine has booted."""
    own = cluster.power.resume_timeout if cluster.power else RESUME_TIMEOUT
    return seconds_in(cluster, "ResumeTimeout", own) + SPARE


def by_backup(cluster: Cluster) -> float:
    """Until the other controller has taken over."""
    return seconds_in(cluster, "SlurmctldTimeout", SLURMCTLD_TIMEOUT) + SPARE


START = "systemctl start slurmctld || { systemctl reset-failed slurmctld; systemctl start slurmctld; }\n"
"""systemd refuses a start after too many within StartLimitIntervalSec."""

KILL = """\
pid=$(systemctl show --property=MainPID --value slurmctld)
test "$pid" -gt 0 || refuse 'slurmctld does not run'
systemctl show --property=NRestarts --value slurmctld >ends
setpriv --reuid="$(stat -c %u "/proc/$pid")" --regid="$(stat -c %g "/proc/$pid")" --clear-groups \\
    prlimit --pid "$pid" --core=0
kill -ABRT "$pid"
"""
"""By SIGABRT slurmctld saves its state before it crashes. By SIGKILL it would forget what has happened since it last
saved it: it would start a job once more that has just started, drain the node for that, and requeue the job.
"""
TAKE_NOTE = """\
if test "$(cat ends)" = 0 && test "$(systemctl show --property=NRestarts --value slurmctld)" = 1; then
    systemctl reset-failed slurmctld
fi
"""
"""The end that the drill has brought about is known. An end of before, or a second one, stays a finding of checks."""

NFT = "command -v nft >/dev/null || refuse 'nft is not installed; to have it: packages: {compute: [nftables]}'\n"
TABLE = "inet slurmfab_drill"
OPEN = f"nft 'add table {TABLE}; delete table {TABLE}'\n"  # also where there is no such table
SHUT = f"""\
{NFT}nft -f - <<'END'
add table {TABLE}
delete table {TABLE}
table {TABLE} {{
    chain in {{ type filter hook input priority -310; tcp dport %(slurmd)s drop; tcp sport %(slurmctld)s drop; }}
    chain out {{ type filter hook output priority -310; tcp sport %(slurmd)s drop; tcp dport %(slurmctld)s drop; }}
}}
END
"""
SHUT_SERVER = f"""\
{NFT}found=$(getent ahosts %(server)s | cut -d' ' -f1 | sort -u)
test -n "$found" || refuse %(server)s' has no address here'
mountpoint -q %(path)s || refuse %(path)s' is not mounted'
{{
    echo 'add table {TABLE}; delete table {TABLE}; add table {TABLE}'
    echo 'add chain {TABLE} out {{ type filter hook output priority -310; }}'
    for one in $found; do
        case $one in *:*) family=ip6 ;; *) family=ip ;; esac
        echo "add rule {TABLE} out $family daddr $one tcp dport {{ %(ports)s }} drop"
    done
}} | nft -f -
"""
RESET = "(sleep 1; exec systemctl reboot --force --force) >/dev/null 2>&1 &\n"
HIDE = """\
test -c %(file)s || refuse %(file)s' is no device'
test ! -e %(away)s || refuse %(away)s' is there'
mv -n %(file)s %(away)s
"""
SHOW = "test ! -e %(away)s || mv -f %(away)s %(file)s\n"
FILL = """\
place=$(%(config)s | sed -n 's/^SlurmdSpoolDir *= *//p' | sed 's/%%[nh]/%(node)s/g')
test -d "$place" || refuse 'its SlurmdSpoolDir is not there'
printf '%%s\\n' "$place" >spool
set -- $(df --block-size=1 --output=avail,size,fstype "$place" | tail -n 1)
bytes=$(($1 - %(keep)s))
test "$bytes" -gt 0 || refuse "$place is full already"
if ! mountpoint -q "$place"; then
    ! systemd-detect-virt --quiet --container || refuse "$place is on the file system of a container"
    test "$bytes" -lt %(most)d || refuse "$place is on a file system with other things, and too large to fill"
fi
memory=$(($(sed -n 's/^MemAvailable: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo) * 512))
case $3 in tmpfs | ramfs) test "$bytes" -lt "$memory" || refuse "$place is memory, and too large" ;; esac
exec 9>"$place/.slurmfab-drill"
fallocate --length "$bytes" "$place/.slurmfab-drill"
rm "$place/.slurmfab-drill"
"""
"""The file has no name any more, so that its space is free as soon as its process ends, or the host."""

EMPTY = 'test ! -e spool || rm -f "$(cat spool)/.slurmfab-drill"\n'
SET_CLOCK = """\
import sys, time
began = time.clock_gettime(time.CLOCK_BOOTTIME)
if len(sys.argv) > 1:
    open("clock", "w").write(repr(time.time() - began))
    time.clock_settime(time.CLOCK_REALTIME, time.time() + float(sys.argv[1]))
else:
    time.clock_settime(time.CLOCK_REALTIME, float(open("clock").read()) + began)
"""
"""Sets the clock by the time since the boot, which no time server changes meanwhile."""

AHEAD = f"""\
! systemd-detect-virt --quiet --container || refuse 'a container has the clock of its host, and of others'
python3 -I -S -c {shlex.quote(SET_CLOCK)} {TOO_LATE}
"""
BACK = f"test ! -s clock || python3 -I -S -c {shlex.quote(SET_CLOCK)}\n"


def link(known: Inventory, node: str) -> Script:
    """Slurm's own ports are shut on a node, and no others."""
    cluster = known.cluster
    listening = (*ports.of_host(cluster, cluster.controller), *ports.of_host(cluster, node))
    return Script(SHUT % {one.daemon: "-".join({f"{one.first}": 0, f"{one.last}": 0}) for one in listening}, OPEN)


def file_server(known: Inventory, node: str) -> Script:
    """The ports of a file server are shut, for one node."""
    mount = served_mount(known.cluster, node)
    assert mount is not None, "`without_server` refuses that"
    words = {"server": shlex.quote(server_of(mount.source)), "path": shlex.quote(mount.path)}
    return Script(SHUT_SERVER % {**words, "ports": PORTS_OF[mount.type]}, OPEN)


def server_of(source: str) -> str:
    """The file server in the source of a mount, the first of several.

    >>> server_of("nfs1:/export"), server_of("ann@[fd99::1]:/srv"), server_of("g1,g2:/homes")
    ('nfs1', 'fd99::1', 'g1')
    """
    match = _SERVER.match(source)
    return match[1].strip("[]") if match else source


def served_mount(cluster: Cluster, node: str) -> Mount | None:
    """The first mount of a node whose server can be shut out; `None` for none."""
    return next((one for one in mounts_of(cluster, node) if one.type in PORTS_OF), None)


def without_server(known: Inventory, node: str) -> str:
    """Why no file server can hang for a node."""
    return "" if served_mount(known.cluster, node) else f"has no mount of type {', '.join(PORTS_OF)}"


def gpu(known: Inventory, node: str) -> Script:
    """The device file of a node's last GPU has another name."""
    file = known.lock.hosts[node].gpus[-1].file
    words = {"file": shlex.quote(file), "away": shlex.quote(f"{file}.slurmfab-drill")}
    return Script(HIDE % words, SHOW % words)


def without_gpus(known: Inventory, node: str) -> str:
    """Why no GPU of a node can go."""
    has_gpus = node in known.lock.hosts and known.lock.hosts[node].gpus
    return "" if has_gpus else "has no GPU in the lock"


def spool(known: Inventory, node: str) -> Script:
    """slurmd's spool directory has half of the space left that the health check wants."""
    least = (known.cluster.health.disk if known.cluster.health else {}).get(SLURM_SPOOL, "2%")
    keep = f"$2 * {float(least[:-1]) * 5:.0f} / 1000" if least.endswith("%") else f"{required_bytes(least, 0) / 2:.0f}"
    config = shlex.join(commands.SHOW_CONFIG)
    return Script(FILL % {"config": config, "node": node, "keep": keep, "most": MOST_FILLED}, EMPTY)


def without_backup(known: Inventory, _host: str) -> str:
    """Why no controller can take over."""
    return "" if len(known.cluster.controllers) > 1 else "the cluster file names one controller"


SOONER = "slurm_conf: {SlurmdTimeout: 60} has a silent node DOWN sooner"
WITH_HEALTH = "health: true in the cluster file, and a shorter interval, as in health: {interval: 60}"
DRAINED = ("SlurmNodeDrained",)

DRILLS: Mapping[str, Drill] = {
    drill.name: drill
    for drill in (
        Drill(
            "slurmctld", "slurmctld crashes, with its state saved; systemd has to start it again", ON_CONTROLLER,
            lambda *_: Script(KILL, START + TAKE_NOTE), lambda _: RESTART, lambda _: RESTART, ("SlurmctldDown",),
            "restart_daemons: true in the cluster file, which is the default",
        ),
        Drill(
            FAILOVER, "slurmctld of the primary controller is stopped until the other one has taken over",
            ON_CONTROLLER, lambda *_: Script("systemctl stop slurmctld\n", START), by_backup, by_backup,
            ("SlurmctldNotThere",), "slurm_conf: {SlurmctldTimeout: 60} lets the other one take over sooner",
            without_backup,
        ),
        Drill(
            "power", "a node reboots without a word to Slurm, as when its power fails", ON_NODE,
            lambda *_: Script(RESET), by_ping, by_boot, ("HostDown", "SlurmNodeDown"), SOONER,
        ),
        Drill(
            "link", "packets of slurmd and slurmctld are dropped on a node; SSH goes on", ON_NODE,
            link, by_ping, by_ping, ("SlurmNodeDown",), SOONER,
        ),
        Drill(
            "clock", f"the clock of a node is {TOO_LATE} s fast, so that munge refuses its credentials", ON_NODE,
            lambda *_: Script(AHEAD, BACK), by_ping, by_ping, ("HostClockWrong", "SlurmNodeDown"), SOONER,
            unless="a container",
        ),
        Drill(
            "spool", "slurmd's spool directory has half of the room left that the health check wants", ON_NODE,
            spool, by_health, by_health, ("DiskFull", *DRAINED), WITH_HEALTH,
            unless="a container whose spool directory is no file system of its own",
        ),
        Drill(
            "gpu", "the device file of a GPU is gone; the GPU itself is not touched", ON_NODE,
            gpu, by_health, by_health, DRAINED, WITH_HEALTH, without_gpus,
        ),
        Drill(
            "file-server", "a file server does not answer a node", ON_NODE,
            file_server, by_health, by_health, DRAINED, WITH_HEALTH, without_server,
        ),
    )
}  # fmt: skip
"""All drills, by name, in the order in which they are listed."""
