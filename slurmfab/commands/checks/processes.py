"""How the daemons of a host were started: by which units and drop-ins, with which program, files, user and limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slurmfab.base.paths import SLURM_DIRECTORY
from slurmfab.cluster.slurm.platform import DEBIAN
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.on_hosts.agent.core.host_paths import OUR_DROP_INS
from slurmfab.on_hosts.agent.slurm.fetched_files import FETCHED_LINK

PROGRAMS = {
    "munge": "/usr/sbin/munged",
    **{unit: DEBIAN.program(unit) for unit in ("slurmctld", "slurmdbd", "slurmd")},
}
"""The program of each unit, the same path in all packages; alternatives are followed."""

USERS = {"munge": "munge", "slurmd": "root"}
"""The users of daemons; those of the others are `slurm_user` of the cluster file."""
PACKAGED = ("/usr/lib/systemd/system/", "/lib/systemd/system/")

CONF = f"{SLURM_DIRECTORY}/slurm.conf"
FETCHED = (f"{FETCHED_LINK}/slurm.conf", "/conf-cache/slurm.conf")
"""How the path ends that a configless slurmd itself puts into SLURM_CONF before it starts anew for a reconfigure."""

NO_LIMIT = "infinity"

QUESTION = """
for unit in {units}; do
    systemctl show --property=Id,MainPID,FragmentPath,DropInPaths,NRestarts,MemoryMax,TasksMax "$unit"
    pid=$(systemctl show --property=MainPID --value "$unit")
    case $unit in munge) program=/usr/sbin/munged ;; *) program=/usr/sbin/$unit ;; esac
    echo "program=$(readlink -f "$program")"
    echo "exe=$(readlink "/proc/$pid/exe" 2>/dev/null)"
    words=$(tr '\\0' '\\n' <"/proc/$pid/cmdline" 2>/dev/null)
    named=$(echo "$words" | sed -n '/^-f$/{{n;p}}; s/^-f//p' | grep . | tail -n 1)
    [ "$(readlink -f "$named")" != "$(readlink -f {conf})" ] || named={conf}
    echo "named=$named"
    echo "user=$(stat --format=%U "/proc/$pid" 2>/dev/null)"
    echo "files=$(awk '/^Max open files/ {{ print $5 }}' "/proc/$pid/limits" 2>/dev/null)"
    echo "most=$(awk '/^Max open files/ {{ print $5 }}' /proc/1/limits 2>/dev/null)"
    echo "least=$(sed -n 's/^LimitNOFILE=//p' /lib/systemd/system/"$unit".service 2>/dev/null | tail -n 1)"
    echo "threads=$(sed -n 's/^TasksMax=//p' /lib/systemd/system/"$unit".service 2>/dev/null | tail -n 1)"
    echo "variable=$(tr '\\0' '\\n' <"/proc/$pid/environ" 2>/dev/null | sed -n 's/^SLURM_CONF=//p' | tail -n 1)"
    echo
done
"""
"""Prints a paragraph of `NAME=VALUE` for each unit."""


@dataclass(frozen=True)
class Process:
    """A daemon as it runs."""

    unit: str  # name of its unit
    shown: Mapping[str, str]  # what the host says of it, by name
    wanted_user: str

    @property
    def runs(self) -> bool:
        """Whether it has a process."""
        return bool(self.shown.get("exe"))

    @property
    def foreign(self) -> tuple[str, ...]:
        """The files of its unit that are neither the package's nor slurmfab's."""
        unit = self.shown.get("FragmentPath", "")
        drop_ins = self.shown.get("DropInPaths", "").split()
        others = [one for one in drop_ins if not one.rpartition("/")[2].startswith(OUR_DROP_INS)]
        return (*([unit] if unit and not unit.startswith(PACKAGED) else []), *others)

    @property
    def wrong(self) -> tuple[str, ...]:
        """What is not as the package's unit, and slurmfab's drop-ins, have it."""
        program, files = self.shown["program"], self.shown["files"]
        # systemd gives nobody more than it has itself, as in a container.
        least = min((int(one) for one in (self.shown["least"], self.shown["most"]) if one.isdigit()), default=0)
        memory, tasks, variable = (self.shown[name] for name in ("MemoryMax", "TasksMax", "variable"))
        running, user, named = self.shown["exe"].removesuffix(" (deleted)"), self.shown["user"], self.shown["named"]
        return tuple(
            text
            for is_wrong, text in (
                (running != program, f"runs {running} and not {program}"),
                (named not in ("", CONF) and self.unit != "slurmdbd", f"reads {named} and not {CONF}"),
                (user != self.wanted_user, f"runs as {user} and not as {self.wanted_user}"),
                (
                    self.shown["least"].isdigit() and files.isdigit() and int(files) < least,
                    f"may open {files} files, where its package's unit allows {self.shown['least']}",
                ),
                (
                    variable not in ("", CONF) and not variable.endswith(FETCHED) and self.unit != "munge",
                    f"has SLURM_CONF={variable} in its environment and reads that, not {CONF}",
                ),
                (memory.isdigit(), f"may use {memory} bytes of memory (MemoryMax), and is killed beyond that"),
                (
                    self.shown["threads"] == NO_LIMIT and tasks.isdigit(),
                    f"may have {tasks} threads, where its package's unit allows any number",
                ),
            )
            if is_wrong
        )

    @property
    def ends(self) -> int:
        """How often systemd has started it again because it ended by itself."""
        count = self.shown.get("NRestarts", "")
        return int(count) if count.isdigit() else 0


def processes(host: CheckedHost, units: tuple[str, ...], slurm_user: str) -> tuple[Process, ...]:
    """The daemons of a host that run, as cached by the first check that asked.

    Raises:
        AssertionError: the command fails on the host.
    """
    text = host.as_found.ask(QUESTION.format(units=" ".join(units), conf=CONF))
    paragraphs = [dict(line.split("=", 1) for line in block.splitlines()) for block in text.split("\n\n") if block]
    named = ((one["Id"].removesuffix(".service"), one) for one in paragraphs)
    found = (Process(unit, one, USERS.get(unit, slurm_user)) for unit, one in named)
    return tuple(one for one in found if one.runs)
