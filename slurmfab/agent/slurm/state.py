"""slurmctld's state, copied when StateSaveLocation moves to another directory."""

from __future__ import annotations

import os
from typing import ClassVar, Iterator, Optional, Tuple

from slurmfab.agent.core.reading import read_text
from slurmfab.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.agent.services.service import is_active

COPY_SECONDS = 900.0
"""Time limit for the copy: the scripts of some ten thousand jobs, to a slow file server."""


class SlurmState(Resource):
    """A state directory that holds everything from slurmctld's previous one, which is left unchanged.

    With an empty directory slurmctld would lose every job and start with job id 1 again (slurm.conf(5),
    StateSaveLocation).

    Args:
        path: the new directory; it exists and belongs to the slurm user.
        before: the directory that the slurm.conf in use names.
    """

    kind: ClassVar[str] = "slurm-state"
    deadline: ClassVar[float] = 1200.0
    path: str
    before: str

    def name(self) -> str:
        """The new directory."""
        return self.path

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Everything that is in the previous directory."""
        return {"state": "as in %s" % self.before}

    def actual(self, context: Context) -> State:
        """How many files differ, judged by size and time of change, which the copy keeps."""
        path, before = context.path(self.path), context.path(self.before)
        differing = [name for name in files_below(before) if size_and_time(path, name) != size_and_time(before, name)]
        if not differing:
            return self.wanted(context)
        return {"state": "%d files are missing or older" % len(differing)}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Copy the files as the owner of the new directory, since a file server may deny root any access.

        Raises:
            ResourceFailed: slurmctld runs, or the new directory belongs to another cluster.
        """
        path, before = context.path(self.path), context.path(self.before)
        ours, theirs = (read_text(os.path.join(place, "clustername")).strip() for place in (before, path))
        if theirs and theirs != ours:
            text = "%s holds the state of the cluster %s; set state_directory to an empty directory"
            raise ResourceFailed(text % (self.path, theirs))
        if is_active(context, "slurmctld"):
            raise ResourceFailed("the state cannot be copied while slurmctld runs. Stop it: systemctl stop slurmctld")
        status = os.stat(path)
        copy = ["cp", "--archive", "--", os.path.join(before, "."), path]
        context.must(copy, seconds=COPY_SECONDS, account=(status.st_uid, status.st_gid))


def files_below(directory: str) -> Iterator[str]:
    """Paths of all files below a directory, relative to it; none if the directory does not exist."""
    for folder, _, names in os.walk(directory):
        yield from (os.path.relpath(os.path.join(folder, name), directory) for name in names)


def size_and_time(directory: str, name: str) -> Optional[Tuple[int, int]]:
    """A file's size and time of change in whole seconds; `None` if it does not exist."""
    try:
        status = os.stat(os.path.join(directory, name))
    except OSError:
        return None
    return status.st_size, int(status.st_mtime)
