"""slurmctld's state, copied when StateSaveLocation moves to another directory."""

from __future__ import annotations

import os
from typing import ClassVar, Iterator, Optional, Tuple

from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.core.safe_paths import UnsafePath, open_folder
from slurmfab.on_hosts.agent.services.service import is_active

COPY_SECONDS = 900.0  # time limit for the copy: the scripts of some ten thousand jobs, to a slow file server


class SlurmState(Resource):
    """A state directory with everything of the previous one, left unchanged: slurmctld loses no job."""

    kind: ClassVar[str] = "slurm-state"
    named_by: ClassVar[str] = "path"
    deadline: ClassVar[float] = 1200.0
    path: str  # the new directory; it exists and belongs to the slurm user
    before: str  # the directory that the slurm.conf in use names

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Everything that is in the previous directory."""
        return {"state": "as in %s" % self.before}

    def actual(self, context: Context) -> State:
        """How many files differ, judged by size and time of change, which the copy keeps."""
        path, before = self.places(context)
        differing = [name for name in files_below(before) if size_and_time(path, name) != size_and_time(before, name)]
        if not differing:
            return self.wanted(context)
        return {"state": "%d files are missing or older" % len(differing)}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Copy as the new directory's owner, as servers deny root; ResourceFailed if busy, or another cluster's."""
        path, before = self.places(context)
        ours, theirs = (cluster_name(place) for place in (before, path))
        if theirs and theirs != ours:
            text = "%s holds the state of the cluster %s; set state_directory to an empty directory"
            raise ResourceFailed(text % (self.path, theirs))
        if is_active(context, "slurmctld"):
            raise ResourceFailed("the state cannot be copied while slurmctld runs. Stop it: systemctl stop slurmctld")
        with open_folder(path) as folder:
            status = folder.status
            if folder.intruder and not status.st_uid:
                raise UnsafePath("%s belongs to root, and %s can replace it; see what it is" % (path, folder.intruder))
        copy = ["cp", "--archive", "--", os.path.join(before, "."), path]
        context.must(copy, seconds=COPY_SECONDS, account=(status.st_uid, status.st_gid))

    def places(self, context: Context) -> Tuple[str, str]:
        """Both directories without links, where they exist; UnsafePath if a link is not root's."""
        found = []
        for path in (context.path(self.path), context.path(self.before)):
            try:
                with open_folder(path) as folder:
                    found.append(folder.path)
            except (FileNotFoundError, NotADirectoryError):
                found.append(path)
        return found[0], found[1]


def cluster_name(directory: str) -> str:
    """The cluster whose state a directory holds, with its ID; empty if there is none."""
    content = replace.read(os.path.join(directory, "clustername"))
    return (content or b"").decode(errors="replace").strip()


def files_below(directory: str) -> Iterator[str]:
    """Paths of all files below a directory, relative to it; none if the directory does not exist."""
    for folder, _, names in os.walk(directory):
        yield from (os.path.relpath(os.path.join(folder, name), directory) for name in names)


def size_and_time(directory: str, name: str, *, follow_links: bool = True) -> Optional[Tuple[int, int]]:
    """A file's size and time of change in whole seconds; `None` if it does not exist."""
    try:
        status = os.stat(os.path.join(directory, name), follow_symlinks=follow_links)
    except OSError:
        return None
    return status.st_size, int(status.st_mtime)
