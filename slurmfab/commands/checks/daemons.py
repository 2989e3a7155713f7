"""The daemons of a host: units, ports, start times and munge files, found by one command that several checks share.

The same command finds what Slurm needs of the operating system (`slurmfab.commands.checks.system`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slurmfab.base.paths import MUNGE_KEY, SLURM_DIRECTORY
from slurmfab.cluster.slurm.platform import DEBIAN, PLATFORMS
from slurmfab.commands.checks import system as systems
from slurmfab.commands.checks.hosts import CheckedHost, line_of
from slurmfab.commands.checks.hosts import last_words as last_output
from slurmfab.commands.checks.wanted import FILES
from slurmfab.on_hosts.agent.services.daemon_log import causes
from slurmfab.on_hosts.agent.services.process import STOPPED
from slurmfab.on_hosts.agent.services.unit_changes import QUESTION as QUESTION_ABOUT
from slurmfab.on_hosts.agent.services.unit_changes import sentences

WATCHED = {
    "munge": (MUNGE_KEY,),
    DEBIAN.database.unit: tuple(dict.fromkeys(one.database_settings for one in PLATFORMS.values())),
    "slurmdbd": (f"{SLURM_DIRECTORY}/slurmdbd.conf",),
    "slurmctld": (f"{SLURM_DIRECTORY}/slurm.conf", f"{SLURM_DIRECTORY}/gres.conf"),
    "slurmd": tuple(f"{SLURM_DIRECTORY}/{name}" for name in FILES),
}
"""The files that each daemon reads when it starts."""

GAP = "----"
QUESTION = (
    f"units=$(systemctl show --property=Id,LoadState,ActiveState,Result,UnitFileState,MainPID {' '.join(WATCHED)}); "
    f'echo "$units"; echo {GAP}; cat /proc/uptime; date +%s.%N; getconf CLK_TCK; '
    'for pid in $(echo "$units" | sed -n s/^MainPID=//p); do cat /proc/$pid/stat 2>/dev/null; done; '
    f"echo {GAP}; stat --dereference --format='%.9Z %n' "
    f"{' '.join(sorted({path for paths in WATCHED.values() for path in paths}))} "
    f"2>/dev/null; echo {GAP}; stat --dereference --format='%U %G %a' {MUNGE_KEY} 2>/dev/null; "
    f"echo {GAP}; if test -S {systems.SOCKET}; then echo there; fi; "
    f"echo {GAP}; awk '$4 == \"0A\" {{ print $2 }}' /proc/net/tcp /proc/net/tcp6 2>/dev/null;"
)
"""A shell command whose output has six parts, separated by `GAP`: the units; the time since boot, the clock, the ticks
per second and the stat lines of the daemons in /proc; the change times of their files; user, group and mode of the
munge key; whether munged's socket exists; the listening sockets (state 0A in /proc/net/tcp, proc(5)). The clock comes
after the time since boot, so that no daemon seems to have started before it did."""

NEXT = "===="
"""Separates the daemons from the system in the output of both questions."""

LAST_WORDS = (
    'started=$(date --date="$(systemctl show --property=ExecMainStartTimestamp --value {unit})" +[%Y-%m-%dT%H:%M:%S); '
    "log=$(sed --quiet 's/^[[:space:]]*{key}[[:space:]]*=[[:space:]]*//Ip' {conf} 2>/dev/null | tail --lines=1); "
    "begun=$(systemctl show --property=InactiveExitTimestamp --value {unit}); "
    "{{ journalctl _SYSTEMD_INVOCATION_ID=$(systemctl show --property=InvocationID --value {unit}) "
    '+ _SYSTEMD_UNIT={unit}.service ${{begun:+"--since=$begun"}} --lines=100 --output=cat --no-pager --quiet; '
    'tail --bytes=65536 "${{log:-{default}}}" 2>/dev/null | awk -v started="$started" \'$1 >= started\'; '
    "}} | tail --lines=200; :"
)
"""Prints what a daemon wrote itself since its start: to the journal until it knew its log, and there.

The journal is asked by the unit as well, because journald notes no invocation where a daemon has ended before journald
looks at its message.
"""

LOGS = {
    "slurmctld": (f"{SLURM_DIRECTORY}/slurm.conf", "SlurmctldLogFile", "/var/log/slurm/slurmctld.log"),
    "slurmd": (f"{SLURM_DIRECTORY}/slurm.conf", "SlurmdLogFile", "/var/log/slurmd/slurmd.log"),
    "slurmdbd": (f"{SLURM_DIRECTORY}/slurmdbd.conf", "LogFile", "/var/log/slurm/slurmdbd.log"),
    "munge": ("/dev/null", "LogFile", "/var/log/munge/munged.log"),
}
"""The file and the key that name each daemon's log, and the log without them."""

RUNNING = ("active", "reloading")
"""The states of a running unit."""

AT_BOOT = ("enabled", "enabled-runtime", "alias", "static", "indirect", "generated")
"""The states for which `systemctl is-enabled` ends with 0 (systemctl(1))."""


@dataclass(frozen=True)
class Unit:
    """A daemon's systemd unit."""

    load: str = "not-found"  # LoadState, such as `loaded` or `not-found`
    active: str = "inactive"  # ActiveState, such as `active`, `inactive` or `failed`
    result: str = "success"  # Result of its last run, such as `success` or `exit-code`
    boot: str = ""  # UnitFileState, such as `enabled` or `disabled`
    pid: int = 0  # MainPID; 0 for none

    @property
    def is_running(self) -> bool:
        """Whether the unit is running."""
        return self.active in RUNNING

    @property
    def is_enabled(self) -> bool:
        """Whether the unit starts at boot."""
        return self.boot in AT_BOOT


@dataclass(frozen=True)
class Daemons:
    """The daemons of a host and their files."""

    units: Mapping[str, Unit]  # by name, such as `slurmd`
    clock: float = 0.0  # the host's time, in seconds since 1970
    # start times of the daemons' processes, in seconds since 1970, by PID
    starts: Mapping[int, float] = field(default_factory=dict)
    frozen: frozenset[int] = frozenset()  # PIDs of the daemons that a signal has stopped
    # change times of the daemons' files that exist, in seconds since 1970, by path
    changes: Mapping[str, float] = field(default_factory=dict)
    ports: frozenset[int] = frozenset()  # the TCP ports with a listening process
    munge_key: tuple[str, str, int] | None = None  # user, group and mode of the munge key; `None` if there is none
    has_munge_socket: bool = False

    def unit(self, name: str) -> Unit:
        """A daemon's unit; `not-found` if systemd does not know it."""
        return self.units.get(name, Unit())

    def is_frozen(self, name: str) -> bool:
        """Whether a signal has stopped a daemon, so that whoever asks it waits in vain."""
        return self.unit(name).pid in self.frozen

    def start(self, name: str) -> float | None:
        """The start time of a daemon, in seconds since 1970; `None` if it does not run."""
        return self.starts.get(self.unit(name).pid)


def daemons(host: CheckedHost) -> Daemons:
    """The daemons of a host, as cached by the first check that asked.

    Raises:
        AssertionError: the command fails on the host.
    """
    return parse(answer(host)[0])


def system(host: CheckedHost) -> systems.System:
    """What Slurm needs of a host's operating system, as cached by the first check that asked.

    Raises:
        AssertionError: the command fails on the host.
    """
    return systems.parse(answer(host)[1])


def answer(host: CheckedHost) -> tuple[str, str]:
    """The output of both questions, which are asked by one command, and once."""
    done = host.as_found.run(f"{QUESTION} echo {NEXT}; {systems.QUESTION}")
    assert done.rc == 0, f"its daemons cannot be looked at: {last_output(done)}. Repair: log in and look"
    ours, _, theirs = str(done.stdout).partition(NEXT)
    return ours, theirs


def parse(text: str) -> Daemons:
    """The daemons in the output of `QUESTION`."""
    shown, times, changed, key, socket, listening = (part.strip() for part in text.split(GAP))
    uptime, clock, hertz, *processes = times.splitlines()
    return Daemons(
        units=dict(unit(block) for block in shown.split("\n\n") if block),
        clock=float(clock),
        starts=dict(started(line, float(clock) - float(uptime.split()[0]), int(hertz)) for line in processes),
        frozen=frozenset(int(line.split(maxsplit=1)[0]) for line in processes if state_of(line) == STOPPED),
        changes={path: float(when) for when, path in (line.split(" ", 1) for line in changed.splitlines())},
        ports=frozenset(int(place.rpartition(":")[2], 16) for place in listening.split()),
        munge_key=access(key) if key else None,
        has_munge_socket=bool(socket),
    )


def unit(block: str) -> tuple[str, Unit]:
    """The name, without `.service`, and the state of a unit, from its block in the output of `systemctl show`."""
    shown = dict(line.split("=", 1) for line in block.splitlines())
    found = Unit(
        shown["LoadState"], shown["ActiveState"], shown["Result"], shown["UnitFileState"], int(shown["MainPID"])
    )
    return shown["Id"].removesuffix(".service"), found


def started(line: str, boot: float, hertz: int) -> tuple[int, float]:
    """The PID and the start time of a process, in seconds since 1970.

    Field 22 of the line is the start in ticks since boot (proc(5)); the command's name before it may contain spaces.

    Args:
        boot: time of the boot, in seconds since 1970.
        hertz: ticks per second.
    """
    return int(line.split(maxsplit=1)[0]), boot + int(line.rpartition(")")[2].split()[19]) / hertz


def state_of(line: str) -> str:
    """The state of a process, such as `S`, from /proc/PID/stat."""
    return line.rpartition(")")[2].split()[0]


def access(text: str) -> tuple[str, str, int]:
    """User, group and mode from the output of stat, as in `munge munge 400`."""
    user, group, mode = text.split()
    return user, group, int(mode, 8)


def last_errors(host: CheckedHost, unit: str) -> list[str]:
    """The last errors that a daemon wrote itself since its start; empty if there are none."""
    conf, key, default = LOGS.get(unit, ("/dev/null", "LogFile", "/dev/null"))
    script = LAST_WORDS.format(unit=unit, conf=conf, key=key, default=default)
    return causes(host.run(script).stdout.splitlines())


def last_words(host: CheckedHost, unit: str) -> str:
    """The last errors that a daemon wrote since its start, with what the site has changed of its unit; or nothing.

    A daemon that wrote no error is told by the last line of its journal.
    """
    errors = last_errors(host, unit)
    changes = sentences(host.run(line_of((*QUESTION_ABOUT, unit))).stdout, lambda path: host.run("cat %s", path).stdout)
    if errors:
        return f"its last errors: {' | '.join([*errors, *changes])}".rstrip(".")
    last_line = host.run("journalctl --unit=%s --lines=1 --output=cat --no-pager --quiet", unit).stdout.strip()
    said = [f"last log line: {last_line}"] if last_line else []
    return " | ".join([*said, *changes]).rstrip(".")
