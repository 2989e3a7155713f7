"""A copy of slurmctld's state inside its directory, made before a newer slurmctld converts the state."""

from __future__ import annotations

import os
import shutil
from typing import ClassVar

from slurmfab.on_hosts.agent.backup.state import JOB_LIST, as_owner, files_below
from slurmfab.on_hosts.agent.core.replace import sync
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.services.service import is_active
from slurmfab.on_hosts.agent.slurm.state import size_and_time
from slurmfab.on_hosts.agent.slurm.state_versions import HEADER_BYTES, written_by

PREFIX = ".before-upgrade-to-"  # prefix of the directory with the copy; slurmctld ignores it, and backups leave it out

PART = ".slurmfab-copy"
MARGIN = 64 << 20  # bytes that have to stay free on the disk


class StateCopy(Resource):
    """The state, kept beside it, as it was before slurmctld of a new series read it."""

    kind: ClassVar[str] = "state-copy"
    wanted_state: ClassVar[State] = {"copy": "complete"}
    deadline: ClassVar[float] = 3600.0
    directory: str
    series: str  # the new series, such as `26.05`

    def name(self) -> str:
        """The directory with the copy."""
        return "%s/%s%s" % (self.directory, PREFIX, self.series)

    def actual(self, context: Context) -> State:
        """Whether there is a copy, and the state is the new series' or the same."""
        directory = context.path(self.directory)
        wrote = series_of(directory)
        if wrote in ("", self.series):
            return {"copy": "complete"}  # there is nothing to save, or it is too late
        return {"copy": "complete" if same(directory, context.path(self.name())) else None}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Copy the state as its owner, then name the copy; ResourceFailed if slurmctld runs, or without room."""
        if is_active(context, "slurmctld"):
            raise ResourceFailed("the state cannot be copied while slurmctld runs. Stop it: systemctl stop slurmctld")
        directory, target = context.path(self.directory), context.path(self.name())
        part = os.path.join(directory, PART)
        with as_owner(directory):
            require_room(directory)
            shutil.rmtree(part, ignore_errors=True)
            for name in files_below(directory):
                place = os.path.join(part, name)
                os.makedirs(os.path.dirname(place), 0o700, exist_ok=True)
                shutil.copy2(os.path.join(directory, name), place, follow_symlinks=False)
            os.sync()
            shutil.rmtree(target, ignore_errors=True)
            os.rename(part, target)
            sync(directory)


def series_of(directory: str) -> str:
    """The series of the slurmctld that wrote a state; empty if there is none, or it is unknown."""
    try:
        with as_owner(directory), open(os.path.join(directory, JOB_LIST), "rb") as file:
            return written_by(file.read(HEADER_BYTES))
    except (OSError, ResourceFailed):
        return ""


def same(directory: str, copy: str) -> bool:
    """Whether a copy has the files of a state, with their sizes and times."""
    try:
        with as_owner(directory):
            found = [
                tuple(size_and_time(place, name, follow_links=False) for place in (directory, copy))
                for name in files_below(directory)
            ]
    except (OSError, ResourceFailed):
        return False
    return bool(found) and all(one == other for one, other in found)


def require_room(directory: str) -> None:
    """Make sure that a copy of the state fits beside it. Raises ResourceFailed if it does not; with the numbers."""
    needed = sum(os.lstat(os.path.join(directory, name)).st_size for name in files_below(directory)) + MARGIN
    space = os.statvfs(directory)
    free = space.f_bavail * space.f_frsize
    if free < needed:
        text = "the disk of %s has no room for a copy of the state: %d MiB are free, %d MiB are needed"
        raise ResourceFailed(text % (directory, free >> 20, needed >> 20))
