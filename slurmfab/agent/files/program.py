"""A program of slurmfab that stays on a host: source files below a directory of its own."""

from __future__ import annotations

import os
from typing import ClassVar, Iterable, Tuple

from slurmfab.agent.core import replace
from slurmfab.agent.core.reading import read_bytes
from slurmfab.agent.core.resource import Context, Resource, ResourceFailed, State


class Program(Resource):
    """A directory with these files alone, owned by root and readable by all; without files, no such directory.

    Args:
        path: absolute path of the directory; other files in it are removed.
        files: path below the directory and text of each file.
    """

    kind: ClassVar[str] = "program"
    UNSHOWN = ("files",)
    path: str
    files: Tuple[Tuple[str, str], ...]

    def name(self) -> str:
        """The directory."""
        return self.path

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """The digest of all files."""
        return {"program": digest((name, text.encode()) for name, text in self.files) if self.files else None}

    def actual(self, context: Context) -> State:
        """The digest of the files on the host."""
        directory = context.path(self.path)
        if not os.path.isdir(directory):
            return {"program": None}
        found = [(name, read_bytes(os.path.join(directory, name))) for name in names_below(directory)]
        return {"program": digest(found)}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Write the files, and remove others.

        Raises:
            ResourceFailed: the directory is a symbolic link.
        """
        directory = context.path(self.path)
        if os.path.islink(directory):
            raise ResourceFailed("%s is a symbolic link; remove it" % self.path)
        wanted = dict(self.files)
        for name in names_below(directory):
            if name not in wanted:
                os.unlink(os.path.join(directory, name))
        if not wanted:
            import shutil  # slow to import, and seldom needed

            shutil.rmtree(directory, ignore_errors=True)
        for name, text in wanted.items():
            target = os.path.join(directory, name)
            os.makedirs(os.path.dirname(target), 0o755, exist_ok=True)
            if not os.path.exists(target) or read_bytes(target) != text.encode():
                replace.put(target, text.encode(), os.geteuid(), os.getegid(), 0o644)


def names_below(directory: str) -> list[str]:
    """The paths of the files below a directory, relative to it and sorted."""
    return sorted(
        os.path.relpath(os.path.join(folder, name), directory)
        for folder, _, names in os.walk(directory)
        for name in names
    )


def digest(files: Iterable[Tuple[str, bytes]]) -> str:
    """Twelve hexadecimal digits that identify a set of files.

    Args:
        files: path and content of each file.
    """
    import hashlib  # slow to import, and most hosts have no program

    total = hashlib.sha256()
    for name, content in sorted(files):
        total.update(b"%s\0%d\0%s" % (name.encode(), len(content), content))
    return total.hexdigest()[:12]
