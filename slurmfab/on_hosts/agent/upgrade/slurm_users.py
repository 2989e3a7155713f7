"""Processes that use files of Slurm's packages, and whether these were replaced under them (proc(5), maps).

Jobs are left out: they go on with what they began with. So are processes with another root file system, as in
containers, whose files have the same names.
"""

from __future__ import annotations

import os
import re
from typing import Container, Dict, Iterator, List, NamedTuple

from slurmfab.on_hosts.agent.core import processes
from slurmfab.on_hosts.agent.core.reading import names, read_text
from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.identities.users_and_groups import user_name
from slurmfab.on_hosts.agent.services import systemctl
from slurmfab.on_hosts.agent.services.replaced_files import DELETED, STEP, unit_of

_MAPPING = re.compile(r"^[0-9a-f]+-[0-9a-f]+ ..x\S* \S+ (\S+) (\d+) +(/.*)$", re.M)
"""Device, inode and path of a mapping with code."""

_SLURMS = re.compile(r"/(?:usr/(?!local/))?(?:s?bin|lib\w*)(?:/.*slurm|/sackd$)")
"""A file that looks like one of Slurm's, where packages have programs and libraries: its package may be gone."""

_JOB = re.compile(r"/job_\d+(?:/|$)|slurmstepd\.scope", re.M)  # a control group of a job's step, with cgroup v1 or v2
OWN = ("slurmctld", "slurmd", "slurmdbd")  # the daemons that an upgrade renews in an order of their own

MOST = 200
SHOWN = r"[^A-Za-z0-9@._+:~-]"


class SlurmUser(NamedTuple):
    """A process that uses files of Slurm's."""

    pid: int
    unit: str  # without its ending; empty for a process of no service of the system's
    program: str  # the name of the process
    user: str
    is_old: bool  # whether a file was replaced since


def read(context: Context, files: Container[str]) -> List[SlurmUser]:
    """Processes that use files of Slurm's packages, services first, those left alone by a main one."""
    found = list(users(context, files))
    main = main_processes(context, sorted({one.unit for one in found} - {""}))
    told = [one if main.get(one.unit, one.pid) == one.pid else one._replace(unit="") for one in found]
    return sorted(told, key=lambda one: (not one.unit, one.unit, one.pid))[:MOST]


def main_processes(context: Context, units: List[str]) -> Dict[str, int]:
    """The main process of each unit whose other processes outlive it, as sessions and jobs do (systemd.kill(5))."""
    if not units:
        return {}
    command = systemctl.show_command(units, ("MainPID", "KillMode"))
    shown = systemctl.parse_show(units, context.run(command).stdout.decode(errors="replace"))
    alone = {unit: one for unit, one in shown.items() if one.get("KillMode") in ("process", "none")}
    return {unit: int(one.get("MainPID", "0") or 0) for unit, one in alone.items()}


def users(context: Context, files: Container[str]) -> Iterator[SlurmUser]:
    """Yield the processes."""
    folder = context.path("/proc")
    root = root_of(context.path("/"))
    for name in names(folder):
        place = "%s/%s" % (folder, name)
        maps = read_text(place + "/maps") if name.isdecimal() else ""
        # All of Slurm's programs use its library, so that most processes are told apart by one look.
        used = list(mapped(maps, files)) if "slurm" in maps else []
        if not used or root_of(place + "/root") not in (root, None):
            continue
        program, cgroups = read_text(place + "/comm"), read_text(place + "/cgroup")
        if program != STEP and not _JOB.search(cgroups):
            shown = re.sub(SHOWN, "_", program)[:32]
            user = user_name(context, processes.real_uid(place))
            yield SlurmUser(int(name), unit_of(name, cgroups), shown, user, any(used))


def mapped(maps: str, files: Container[str]) -> Iterator[bool]:
    """Yield for each of Slurm's files that a process maps (by its file `maps`) whether it was replaced."""
    for device, inode, path in _MAPPING.findall(maps):
        if path.endswith(DELETED):
            if path[: -len(DELETED)] in files or _SLURMS.match(path[: -len(DELETED)]):
                yield True
        elif path in files:
            yield is_another(path, device, int(inode))


def is_another(path: str, device: str, inode: int) -> bool:
    """Whether a path leads to another file than a mapping of this device (`08:01`) and inode."""
    try:
        status = os.stat(path)
    except OSError:
        return False
    there = "%02x:%02x" % (os.major(status.st_dev), os.minor(status.st_dev))
    # Mappings of an overlay may name the file system below it.
    return there == device and status.st_ino != inode


def root_of(path: str) -> object:
    """What identifies a root directory; `None` if that is unknown."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def is_old(context: Context, unit: str, pid: int) -> bool:
    """Whether a unit's process uses replaced files; of Slurm's daemons the main one alone, without jobs."""
    if unit in OWN:
        return any(mapped(read_text(context.path("/proc/%d/maps" % pid)), ()))
    return any(one.is_old for one in read(context, ()) if one.unit == unit)
