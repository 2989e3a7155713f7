"""slurmctld's state, brought along when it moves to another directory."""

from __future__ import annotations

import os
from typing import ClassVar, Iterator, Optional, Tuple

from slurmfab.agent.reading import read_text
from slurmfab.agent.resource import Context, Resource, ResourceFailed, State
from slurmfab.agent.service import is_active

COPY_SECONDS = 900.0
"""How long the copy may take: the scripts of some ten thousand jobs, to a slow file server."""


class SlurmState(Resource):
    """A state directory that holds all that slurmctld has had in another one, which stays as it is.

    An empty new directory would lose every job and start with job number 1 again (slurm.conf(5), StateSaveLocation).

    Args:
        path: the new directory; it is there, and belongs to the slurm user.
        before: the directory that the slurm.conf in force names.
    """

    kind: ClassVar[str] = "slurm-state"
    path: str
    before: str

    def name(self) -> str:
        """The new directory."""
        return self.path

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Everything that is in the old one."""
        return {"state": "as in %s" % self.before}

    def actual(self, context: Context) -> State:
        """How it compares; a file counts as the same by its size and its time of change, which copies keep."""
        path, before = context.path(self.path), context.path(self.before)
        differing = [name for name in files_below(before) if seen(path, name) != seen(before, name)]
        if not differing:
            return self.wanted(context)
        return {"state": "%d files are missing or older" % len(differing)}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Copy, as the user who owns the new directory, since a file server may grant root nothing.

        Raises:
            ResourceFailed: slurmctld runs, or the new directory is another cluster's.
        """
        path, before = context.path(self.path), context.path(self.before)
        ours, theirs = (read_text(os.path.join(place, "clustername")).strip() for place in (before, path))
        if theirs and theirs != ours:
            words = "%s holds the state of the cluster %s; name an empty directory as state_directory"
            raise ResourceFailed(words % (self.path, theirs))
        if is_active(context, "slurmctld"):
            raise ResourceFailed("slurmctld runs, and its state cannot be moved meanwhile: systemctl stop slurmctld")
        status = os.stat(path)
        copy = ["cp", "--archive", "--", os.path.join(before, "."), path]
        context.must(copy, seconds=COPY_SECONDS, account=(status.st_uid, status.st_gid))


def files_below(directory: str) -> Iterator[str]:
    """The files below a directory, by their paths within it; none where there is no directory."""
    for folder, _, names in os.walk(directory):
        yield from (os.path.relpath(os.path.join(folder, name), directory) for name in names)


def seen(directory: str, name: str) -> Optional[Tuple[int, int]]:
    """A file's size and time of change in seconds, `None` where it is missing."""
    try:
        status = os.stat(os.path.join(directory, name))
    except OSError:
        return None
    return status.st_size, int(status.st_mtime)
