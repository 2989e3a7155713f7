"""A host's daemons as they were found, by one question that several checks read: units, ports, ages, munge files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slurmfab.checks.hosts import CheckedHost, last_words
from slurmfab.checks.wanted import CONFIGURATION, FILES, MUNGE_KEY, MUNGE_SOCKET

WATCHED = {
    "munge": (MUNGE_KEY,),
    "mariadb": ("/etc/mysql/mariadb.conf.d/60-slurmfab.cnf",),
    "slurmdbd": (f"{CONFIGURATION}/slurmdbd.conf",),
    "slurmctld": (f"{CONFIGURATION}/slurm.conf", f"{CONFIGURATION}/gres.conf"),
    "slurmd": tuple(f"{CONFIGURATION}/{name}" for name in FILES),
}
"""The files that a daemon reads when it starts."""

GAP = "----"
QUESTION = (
    f"units=$(systemctl show --property=Id,LoadState,ActiveState,Result,UnitFileState,MainPID {' '.join(WATCHED)}); "
    f'echo "$units"; echo {GAP}; date +%s.%N; cat /proc/uptime; getconf CLK_TCK; '
    'for pid in $(echo "$units" | sed -n s/^MainPID=//p); do cat /proc/$pid/stat 2>/dev/null; done; '
    f"echo {GAP}; stat --format='%.9Z %n' {' '.join(sorted({path for paths in WATCHED.values() for path in paths}))} "
    f"2>/dev/null; echo {GAP}; stat --dereference --format='%U %G %a' {MUNGE_KEY} 2>/dev/null; "
    f"echo {GAP}; if test -S {MUNGE_SOCKET}; then echo there; fi; "
    f"echo {GAP}; awk '$4 == \"0A\" {{ print $2 }}' /proc/net/tcp /proc/net/tcp6 2>/dev/null; :"
)
"""Prints, with gaps in between: the units; the clock, the time since boot, ticks per second and the daemons' lines in
/proc; when their files changed; whose the munge key is; whether munged's socket is there; the sockets that listen, by
their state in /proc/net/tcp (proc(5))."""

RUNNING = ("active", "reloading")
AT_BOOT = ("enabled", "enabled-runtime", "alias", "static", "indirect", "generated")
"""The states for which `systemctl is-enabled` ends with 0 (systemctl(1))."""


@dataclass(frozen=True)
class Unit:
    """A daemon's systemd unit.

    Args:
        load: such as `loaded` or `not-found`.
        active: such as `active`, `inactive` or `failed`.
        result: of its last run, such as `success` or `exit-code`.
        boot: what happens at boot, such as `enabled` or `disabled`.
        pid: of its process; 0 for none.
    """

    load: str = "not-found"
    active: str = "inactive"
    result: str = "success"
    boot: str = ""
    pid: int = 0

    @property
    def is_running(self) -> bool:
        """Whether systemd has it running."""
        return self.active in RUNNING

    @property
    def is_enabled(self) -> bool:
        """Whether it will start at the next boot."""
        return self.boot in AT_BOOT


@dataclass(frozen=True)
class Daemons:
    """What was found on a host.

    Args:
        units: by name, such as `slurmd`.
        clock: the host's, in seconds since 1970.
        starts: when processes started, in the same seconds, by their number.
        changes: when files that daemons read changed, in the same seconds, by path; of those that exist.
        ports: the TCP ports that something listens on.
        munge_key: user, group and mode of the munge key; `None` where there is none.
        has_munge_socket: whether munged's socket is there.
    """

    units: Mapping[str, Unit]
    clock: float = 0.0
    starts: Mapping[int, float] = field(default_factory=dict)
    changes: Mapping[str, float] = field(default_factory=dict)
    ports: frozenset[int] = frozenset()
    munge_key: tuple[str, str, int] | None = None
    has_munge_socket: bool = False

    def unit(self, name: str) -> Unit:
        """A daemon's unit; one that systemd does not know is `not-found`."""
        return self.units.get(name, Unit())

    def start(self, name: str) -> float | None:
        """When a daemon's process started; `None` where it has none."""
        return self.starts.get(self.unit(name).pid)


def daemons(host: CheckedHost) -> Daemons:
    """What was found on a host when a check first asked.

    Raises:
        AssertionError: the question cannot be answered there.
    """
    done = host.as_found.run(QUESTION)
    assert done.rc == 0, f"its daemons cannot be looked at: {last_words(done)}. Repair: log in and look"
    return parse(done.stdout)


def parse(text: str) -> Daemons:
    """The answer to the question."""
    shown, times, changed, key, socket, listening = (part.strip() for part in text.split(GAP))
    clock, uptime, hertz, *processes = times.splitlines()
    return Daemons(
        units=dict(unit(block) for block in shown.split("\n\n") if block),
        clock=float(clock),
        starts=dict(started(line, float(clock) - float(uptime.split()[0]), int(hertz)) for line in processes),
        changes={path: float(when) for when, path in (line.split(" ", 1) for line in changed.splitlines())},
        ports=frozenset(int(place.rpartition(":")[2], 16) for place in listening.split()),
        munge_key=access(key) if key else None,
        has_munge_socket=bool(socket),
    )


def unit(block: str) -> tuple[str, Unit]:
    """One unit of `systemctl show`, by its name without `.service`."""
    shown = dict(line.split("=", 1) for line in block.splitlines())
    found = Unit(
        shown["LoadState"], shown["ActiveState"], shown["Result"], shown["UnitFileState"], int(shown["MainPID"])
    )
    return shown["Id"].removesuffix(".service"), found


def started(line: str, boot: float, hertz: int) -> tuple[int, float]:
    """A process's number, and when it started, by its line in /proc.

    The 22nd field of proc(5)'s stat is the start in ticks since boot; the command's name in front may hold spaces.
    """
    return int(line.split(maxsplit=1)[0]), boot + int(line.rpartition(")")[2].split()[19]) / hertz


def access(words: str) -> tuple[str, str, int]:
    """User, group and mode."""
    user, group, mode = words.split()
    return user, group, int(mode, 8)
