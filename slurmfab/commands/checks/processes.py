"""How the daemons of a host were started: by which units and drop-ins, with which program, files, user and limits."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slurmfab.base.paths import SLURM_DIRECTORY
from slurmfab.cluster.slurm.platform import DEBIAN, SOURCE
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.on_hosts.agent.core.host_paths import OUR_DROP_INS
from slurmfab.on_hosts.agent.slurm.fetched_files import FETCHED_LINK

SLURMS = ("slurmctld", "slurmdbd", "slurmd")
PROGRAMS = {"munge": "/usr/sbin/munged", **{unit: DEBIAN.program(unit) for unit in SLURMS}}
"""The program of each unit, the same path in all packages; alternatives are followed. Other ones are in SOURCE."""

USERS = {"munge": "munge", "slurmd": "root"}
"""The users of daemons; those of the others are `slurm_user` of the cluster file."""
PACKAGED = ("/usr/lib/systemd/system/", "/lib/systemd/system/")

DELETED = " (deleted)"

CONF = f"{SLURM_DIRECTORY}/slurm.conf"
FETCHED = (f"{FETCHED_LINK}/slurm.conf", "/conf-cache/slurm.conf")
"""How the path ends that a configless slurmd itself puts into SLURM_CONF before it starts anew for a reconfigure."""

NO_LIMIT = "infinity"

OPEN_FILES = re.compile(r"^(?:LimitNOFILE=|Max open files +)(\d+)", re.MULTILINE)
"""How many files a daemon may open, in the file of its unit and in /proc/PID/limits (the soft limit)."""


@dataclass(frozen=True)
class Process:
    """A daemon as it runs."""

    host: CheckedHost
    unit: str  # name of its unit
    wanted_user: str

    @property
    def properties(self) -> Mapping[str, str]:
        """What systemd says of its unit."""
        found: Mapping[str, str] = self.host.service(self.unit).systemd_properties
        return found

    @property
    def pid(self) -> str:
        """Its process; `0` for none."""
        return self.properties["MainPID"]

    @property
    def program(self) -> str:
        """The program that runs, ending in ` (deleted)` if it is on the disk no more."""
        return str(self.host.file(f"/proc/{self.pid}/exe").linked_to)

    @property
    def is_replaced(self) -> bool:
        """Whether its program was replaced since it started."""
        return self.program.endswith(DELETED)

    @property
    def foreign(self) -> tuple[str, ...]:
        """The files of its unit that are neither the package's nor slurmfab's."""
        unit = self.properties.get("FragmentPath", "")
        drop_ins = self.properties.get("DropInPaths", "").split()
        others = [one for one in drop_ins if not one.rpartition("/")[2].startswith(OUR_DROP_INS)]
        return (*([unit] if unit and not unit.startswith(PACKAGED) else []), *others)

    @property
    def packaged(self) -> str:
        """The package's file of its unit."""
        return f"/lib/systemd/system/{self.unit}.service"

    @property
    def unit_text(self) -> str:
        """The text of that file; empty if it is not there."""
        file = self.host.file(self.packaged)
        return str(file.content_string) if file.exists else ""

    def usual_path(self, path: str) -> str:
        """The path, or that of slurm.conf's usual place if it leads to the same file."""
        same = path and self.host.file(path).linked_to == self.host.file(CONF).linked_to
        return CONF if same else path

    @property
    def wrong(self) -> tuple[str, ...]:
        """What is not as the package's unit, and slurmfab's drop-ins, have it."""
        place = f"/proc/{self.pid}"
        usual = self.host.file(PROGRAMS[self.unit])
        is_packaged = self.unit not in SLURMS or usual.exists
        program = (usual if is_packaged else self.host.file(SOURCE.program(self.unit))).linked_to
        running = self.program.removesuffix(DELETED)
        named = self.usual_path(named_file(self.host.file(f"{place}/cmdline").content_string.split("\0")))
        user, files = self.host.file(place).user, open_files(self.host, f"{place}/limits")
        allowed = open_files(self.host, self.packaged)
        # systemd gives nobody more than it has itself, as in a container.
        least = min(allowed, open_files(self.host, "/proc/1/limits"))
        memory, tasks = (self.properties.get(name, NO_LIMIT) for name in ("MemoryMax", "TasksMax"))
        variable = slurm_conf_in(self.host.file(f"{place}/environ").content_string.split("\0"))
        return tuple(
            text
            for is_wrong, text in (
                (running != program, f"runs {running} and not {program}"),
                (named not in ("", CONF) and self.unit != "slurmdbd", f"reads {named} and not {CONF}"),
                (user != self.wanted_user, f"runs as {user} and not as {self.wanted_user}"),
                (
                    allowed != math.inf and files < least,
                    f"may open {files} files, where its package's unit allows {allowed}",
                ),
                (
                    variable not in ("", CONF) and not variable.endswith(FETCHED) and self.unit != "munge",
                    f"has SLURM_CONF={variable} in its environment and reads that, not {CONF}",
                ),
                (memory.isdecimal(), f"may use {memory} bytes of memory (MemoryMax), and is killed beyond that"),
                (
                    f"TasksMax={NO_LIMIT}" in self.unit_text and tasks.isdecimal(),
                    f"may have {tasks} threads, where its package's unit allows any number",
                ),
            )
            if is_wrong
        )

    @property
    def ends(self) -> int:
        """How often systemd has started it again because it ended by itself."""
        count = self.properties.get("NRestarts", "")
        return int(count) if count.isdecimal() else 0


def open_files(host: CheckedHost, path: str) -> float:
    """The number of files that a daemon may open, from a file that tells it; infinity if it tells none."""
    file = host.file(path)
    found = OPEN_FILES.findall(file.content_string) if file.exists else []
    return int(found[-1]) if found else math.inf


def named_file(words: Sequence[str]) -> str:
    """The file that option -f of a command line names; empty for none.

    >>> named_file(["slurmd", "-D", "-f", "/opt/slurm.conf"]), named_file(["slurmd", "-f/opt/slurm.conf"])
    ('/opt/slurm.conf', '/opt/slurm.conf')
    """
    found = [word[2:] or after for word, after in zip(words, (*words[1:], ""), strict=True) if word.startswith("-f")]
    return next(filter(None, reversed(found)), "")


def slurm_conf_in(environment: Sequence[str]) -> str:
    """The file that SLURM_CONF names in a process's environment; empty for none.

    >>> slurm_conf_in(["HOME=/root", "SLURM_CONF=/opt/slurm.conf", ""])
    '/opt/slurm.conf'
    """
    name = "SLURM_CONF="
    return next((one.removeprefix(name) for one in reversed(environment) if one.startswith(name)), "")


def processes(host: CheckedHost, units: tuple[str, ...], slurm_user: str = "slurm") -> tuple[Process, ...]:
    """The daemons of a host that run."""
    named = (Process(host, unit, USERS.get(unit, slurm_user)) for unit in units)
    return tuple(one for one in named if one.pid != "0")
