"""The daemons of a host: what testinfra does not tell of them, and what they wrote themselves."""

from __future__ import annotations

import pytest

from slurmfab.base.paths import JWT_KEY, MUNGE_KEY, SLURM_DIRECTORY
from slurmfab.cluster.slurm.platform import DEBIAN, PLATFORMS
from slurmfab.commands.checks.hosts import CheckedHost, line_of
from slurmfab.commands.checks.wanted import FILES
from slurmfab.on_hosts.agent.services.daemon_log import QUESTION as QUESTION_ABOUT
from slurmfab.on_hosts.agent.services.daemon_log import advice, causes, sentences
from slurmfab.on_hosts.agent.services.process import STOPPED

WATCHED = {
    "munge": (MUNGE_KEY,),
    DEBIAN.database.unit: tuple(dict.fromkeys(one.database_settings for one in PLATFORMS.values())),
    "slurmdbd": (f"{SLURM_DIRECTORY}/slurmdbd.conf", JWT_KEY),
    "slurmctld": (f"{SLURM_DIRECTORY}/slurm.conf", f"{SLURM_DIRECTORY}/gres.conf", JWT_KEY),
    "slurmd": tuple(f"{SLURM_DIRECTORY}/{name}" for name in FILES),
}
"""The files that each daemon reads when it starts."""

TIMES = (
    "cat /proc/uptime; date +%s.%N; getconf CLK_TCK; stat --dereference --format='%.9Z %n' -- {files} 2>/dev/null; :"
)
"""Prints the time since boot, the clock, the ticks per second, and the change times of files. The clock comes after the
time since boot, so that no daemon seems to have started before it did."""

LAST_WORDS = (
    'started=$(date --date="$(systemctl show --property=ExecMainStartTimestamp --value {unit})" +[%Y-%m-%dT%H:%M:%S); '
    "log=$(sed --quiet 's/^[[:space:]]*{key}[[:space:]]*=[[:space:]]*//Ip' {conf} 2>/dev/null | tail --lines=1); "
    "begun=$(systemctl show --property=InactiveExitTimestamp --value {unit}); "
    "{{ journalctl _SYSTEMD_INVOCATION_ID=$(systemctl show --property=InvocationID --value {unit}) "
    '+ _SYSTEMD_UNIT={unit}.service ${{begun:+"--since=$begun"}} --lines=100 --output=cat --no-pager --quiet; '
    'tail --bytes=65536 "${{log:-{default}}}" 2>/dev/null | '
    "awk -v started=\"$started\" '/^\\[/ {{ is_new = $1 >= started }} is_new'; "
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

AT_BOOT = ("enabled", "enabled-runtime", "alias", "static", "indirect", "generated")
"""The states for which `systemctl is-enabled` ends with 0 (systemctl(1))."""

TICK = 0.02
"""Largest error in seconds of a process's start time (/proc counts in 10 ms) and a file's change time (timer ticks)."""


def starts_at_boot(host: CheckedHost, unit: str) -> bool:
    """Whether systemd starts a unit at boot."""
    # testinfra's `is_enabled` takes a masked unit of Debian for one that starts, by its links for SysV.
    return host.service(unit).systemd_properties.get("UnitFileState") in AT_BOOT


def timer_of(host: CheckedHost, unit: str) -> tuple[str, str]:
    """The state of a unit's timer, such as `active`, and the result of the unit's last run, such as `success`."""
    timer, service = (host.service(f"{unit}.{kind}").systemd_properties for kind in ("timer", "service"))
    return timer["ActiveState"], service["Result"]


def listening_ports(host: CheckedHost) -> set[int]:
    """The TCP ports with a listening process, whatever the address."""
    return {int(one.rpartition(":")[2]) for one in host.socket.get_listening_sockets() if one.startswith("tcp://")}


def pid(host: CheckedHost, unit: str) -> int:
    """The process of a daemon; 0 for none."""
    return int(host.service(unit).systemd_properties["MainPID"])


def stat(host: CheckedHost, unit: str) -> list[str]:
    """The line of a daemon's process in /proc from its state on, which is field 3 (proc(5)); empty if it has none."""
    # The command's name before it may contain spaces.
    file = host.file(f"/proc/{pid(host, unit)}/stat")
    return str(file.content_string).rpartition(")")[2].split() if file.exists else []


def is_frozen(host: CheckedHost, unit: str) -> bool:
    """Whether a signal has stopped a daemon, so that whoever asks it waits in vain."""
    return stat(host, unit)[:1] == [STOPPED]


def start_of(host: CheckedHost, unit: str) -> float | None:
    """The start time of a daemon, in seconds since 1970; `None` if it does not run."""
    age = age_of(host, unit)
    return None if age is None else float(host.as_found.ask(TIMES.format(files="/")).splitlines()[1]) - age


def age_of(host: CheckedHost, unit: str) -> float | None:
    """How long a daemon had run, in seconds, when the host was first asked for times; `None` if it does not run."""
    uptime, _, hertz = host.as_found.ask(TIMES.format(files="/")).splitlines()[:3]
    fields = stat(host, unit)
    return float(uptime.split()[0]) - int(fields[19]) / int(hertz) if fields else None


def newer_files(host: CheckedHost, unit: str) -> list[str]:
    """The files of a daemon that changed after its start; skips the check if the daemon does not run."""
    start = start_of(host, unit)
    if start is None:
        pytest.skip(f"{unit} does not run on {host.name}.")
    _, clock, _, *lines = host.as_found.ask(TIMES.format(files=" ".join(WATCHED[unit]))).splitlines()
    changes = (line.split(" ", 1) for line in lines)
    # A change time in the future means that the clock was set back, so it proves nothing.
    return [path for when, path in changes if start + TICK < float(when) <= float(clock) + 1]


def last_errors(host: CheckedHost, unit: str) -> list[str]:
    """The last errors that a daemon wrote itself since its start; empty if there are none."""
    conf, key, default = LOGS.get(unit, ("/dev/null", "LogFile", "/dev/null"))
    script = LAST_WORDS.format(unit=unit, conf=conf, key=key, default=default)
    return causes(host.run(script).stdout.splitlines())


def last_words(host: CheckedHost, unit: str) -> str:
    """A daemon's last errors since its start, or its journal's last line, and the site's changes of its unit."""
    errors = last_errors(host, unit)
    changes = sentences(host.run(line_of((*QUESTION_ABOUT, unit))).stdout, lambda path: host.run("cat %s", path).stdout)
    if errors:
        return f"its last errors: {' | '.join([*errors, *advice(errors), *changes])}".rstrip(".")
    last_line = host.run("journalctl --unit=%s --lines=1 --output=cat --no-pager --quiet", unit).stdout.strip()
    said = [f"last log line: {last_line}"] if last_line else []
    return " | ".join([*said, *changes]).rstrip(".")
