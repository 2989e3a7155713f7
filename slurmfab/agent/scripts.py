"""A directory of scripts that are ours alone, such as those that slurmd runs before each job."""

from __future__ import annotations

import os
import stat
from typing import ClassVar, Dict, List, Tuple

from slurmfab.agent import replace
from slurmfab.agent.accounts import gid_of, group_name, uid_of, user_name
from slurmfab.agent.reading import names
from slurmfab.agent.resource import Context, Resource, ResourceFailed, State

ACCESS = "root:root 0755"
DIRECTORY = "the directory"
OTHER = "something else"
"""How what is no regular file is told of."""


class Scripts(Resource):
    """A directory with these scripts and nothing else in it, root's, for all to read; without any, no such directory.

    Each script is replaced whole, so one that runs meanwhile goes on as it was.

    Args:
        path: absolute; nobody else keeps anything there.
        files: names and texts.
    """

    kind: ClassVar[str] = "scripts"
    UNSHOWN = ("files",)
    path: str
    files: Tuple[Tuple[str, str], ...]

    def name(self) -> str:
        """The directory."""
        return self.path

    def touches(self, differing: frozenset[str]) -> tuple[str, ...]:
        """The scripts that differ, those that go included."""
        scripts = sorted({name.removesuffix(" access") for name in differing} - {DIRECTORY})
        return tuple("%s/%s" % (self.path, name) for name in scripts)

    def wanted(self, context: Context) -> State:
        """The texts, who may use them, and nothing of what else is there."""
        state: Dict[str, object] = dict.fromkeys(self.there(context))
        state.update(self.files)
        state.update({name + " access": ACCESS for name, _ in self.files})
        return {**state, DIRECTORY: ACCESS if self.files else None}

    def actual(self, context: Context) -> State:
        """The same as it is."""
        directory = context.path(self.path)
        state: Dict[str, object] = {name + " access": ACCESS for name, _ in self.files}
        for name in self.there(context):
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

    def there(self, context: Context) -> List[str]:
        """The names of all that is in the directory."""
        return sorted(names(context.path(self.path)))

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Write the scripts, and remove all else.

        Raises:
            ResourceFailed: the directory is none.
        """
        directory = context.path(self.path)
        if os.path.lexists(directory) and (os.path.islink(directory) or not os.path.isdir(directory)):
            raise ResourceFailed("%s is no directory; move it away if a directory may take its place" % self.path)
        wanted = dict(self.files)
        for name in set(self.there(context)) - set(wanted):
            remove(os.path.join(directory, name))
        if not wanted:
            import shutil  # noqa: PLC0415 - slow to import, and seldom needed

            shutil.rmtree(directory, ignore_errors=True)
            return
        os.makedirs(directory, 0o755, exist_ok=True)
        uid, gid = uid_of(context, "root"), gid_of(context, "root")
        replace.change_access(directory, uid, gid, 0o755, is_directory=True)
        for name, text in wanted.items():
            path = os.path.join(directory, name)
            if name in differing:
                if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
                    remove(path)
                replace.put(path, text.encode("utf-8", "surrogateescape"), uid, gid, 0o755)
            elif name + " access" in differing:
                replace.change_access(path, uid, gid, 0o755)


def access(context: Context, status: os.stat_result) -> str:
    """Owner, group and permission bits of a file."""
    owner, group = user_name(context, status.st_uid, "root"), group_name(context, status.st_gid, "root")
    return "%s:%s %04o" % (owner, group, stat.S_IMODE(status.st_mode))


def remove(path: str) -> None:
    """Remove whatever has this name, and nothing that a link points to."""
    if os.path.isdir(path) and not os.path.islink(path):
        import shutil  # noqa: PLC0415 - see above

        shutil.rmtree(path)
    else:
        os.unlink(path)
