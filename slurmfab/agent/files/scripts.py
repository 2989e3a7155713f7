"""A directory that holds only scripts of slurmfab, such as those that slurmd runs before each job."""

from __future__ import annotations

import os
import stat
from typing import ClassVar, Dict, Tuple

from slurmfab.agent.core import replace
from slurmfab.agent.core.reading import names
from slurmfab.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.agent.identities.users_and_groups import access_of, gid_of, uid_of

ACCESS = "root:root 0755"
DIRECTORY = "the directory"
OTHER = "something else"
"""The content that reports show for a symbolic link, a directory or a device."""


class Scripts(Resource):
    """A directory with these scripts alone, owned by root and readable by all; without scripts, no such directory.

    Each script is replaced in one step, so a script that runs meanwhile continues unchanged.

    Args:
        path: absolute path of the directory; other files in it are removed.
        files: name and text of each script.
    """

    kind: ClassVar[str] = "scripts"
    UNSHOWN = ("files",)
    path: str
    files: Tuple[Tuple[str, str], ...]

    def name(self) -> str:
        """The directory."""
        return self.path

    def touches(self, differing: frozenset[str]) -> tuple[str, ...]:
        """The scripts that differ, including those to remove."""
        scripts = sorted({name.removesuffix(" access") for name in differing} - {DIRECTORY})
        return tuple("%s/%s" % (self.path, name) for name in scripts)

    def wanted(self, context: Context) -> State:
        """Text and access of each script, and of the directory; `None` for other files in it."""
        state: Dict[str, object] = dict.fromkeys(names(context.path(self.path)))
        state.update(self.files)
        state.update({name + " access": ACCESS for name, _ in self.files})
        return {**state, DIRECTORY: ACCESS if self.files else None}

    def actual(self, context: Context) -> State:
        """The same of the files on the host.

        Raises:
            ResourceFailed: something that is not a directory has its path.
        """
        directory = self.directory(context)
        state: Dict[str, object] = {name + " access": ACCESS for name, _ in self.files}
        for name in names(directory):
            path = os.path.join(directory, name)
            status = os.lstat(path)
            if not stat.S_ISREG(status.st_mode):
                state[name] = OTHER
                continue
            state[name] = (replace.read(path) or b"").decode("utf-8", "surrogateescape")
            state[name + " access"] = access(context, status)
        is_there = os.path.lexists(directory)
        state[DIRECTORY] = access(context, os.lstat(directory)) if is_there else None
        return state

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Write the scripts, and remove all other files.

        Raises:
            ResourceFailed: something that is not a directory has its path.
        """
        directory = self.directory(context)
        wanted = dict(self.files)
        for name in set(names(directory)) - set(wanted):
            remove(os.path.join(directory, name))
        if not wanted:
            import shutil  # slow to import, and seldom needed

            shutil.rmtree(directory, ignore_errors=True)
            return
        os.makedirs(directory, 0o755, exist_ok=True)
        uid, gid = uid_of(context, "root"), gid_of(context, "root")
        replace.make_directory(directory, uid, gid, 0o755)
        for name, text in wanted.items():
            path = os.path.join(directory, name)
            if name in differing:
                if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
                    remove(path)
                replace.put(path, text.encode("utf-8", "surrogateescape"), uid, gid, 0o755)
            elif name + " access" in differing:
                replace.change_access(path, uid, gid, 0o755)

    def directory(self, context: Context) -> str:
        """The directory's path on the host; what a link leads to is somebody else's, and neither read nor changed.

        Raises:
            ResourceFailed: something that is not a directory has its path.
        """
        path = context.path(self.path)
        if os.path.lexists(path) and (os.path.islink(path) or not os.path.isdir(path)):
            raise ResourceFailed("%s is not a directory; move it away if a directory may take its place" % self.path)
        return path


def access(context: Context, status: os.stat_result) -> str:
    """Owner, group and permission bits of a file, such as `root:root 0755`."""
    return "%(owner)s:%(group)s %(mode)s" % access_of(context, status, "root", "root")


def remove(path: str) -> None:
    """Remove a file, a directory with its content, or a symbolic link but not its target."""
    if os.path.isdir(path) and not os.path.islink(path):
        import shutil

        shutil.rmtree(path)
    else:
        os.unlink(path)
