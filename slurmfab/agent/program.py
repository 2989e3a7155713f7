"""A program of ours that stays on a host: some files of source text below a directory of its own."""

from __future__ import annotations

import os
from typing import ClassVar, Tuple

from slurmfab.agent import replace
from slurmfab.agent.reading import read_bytes
from slurmfab.agent.resource import Context, Resource, ResourceFailed, State


class Program(Resource):
    """A directory with these files, root's and for all to read; without any files, no such directory.

    Args:
        path: absolute; nobody else keeps anything there.
        files: paths within it, and their texts.
    """

    kind: ClassVar[str] = "program"
    UNSHOWN = ("files",)
    path: str
    files: Tuple[Tuple[str, str], ...]

    def name(self) -> str:
        """The directory."""
        return self.path

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """The digest of all of it."""
        return {"program": digest((name, text.encode()) for name, text in self.files) if self.files else None}

    def actual(self, context: Context) -> State:
        """The digest of what is there."""
        directory = context.path(self.path)
        if not os.path.isdir(directory):
            return {"program": None}
        there = [(name, read_bytes(os.path.join(directory, name))) for name in names_below(directory)]
        return {"program": digest(there)}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Write the files, and remove others."""
        directory = context.path(self.path)
        if os.path.islink(directory):
            raise ResourceFailed("%s is a symbolic link; remove it" % self.path)
        wanted = dict(self.files)
        for name in names_below(directory):
            if name not in wanted:
                os.unlink(os.path.join(directory, name))
        if not wanted:
            import shutil  # noqa: PLC0415 - slow to import, and seldom needed

            shutil.rmtree(directory, ignore_errors=True)
        for name, text in wanted.items():
            target = os.path.join(directory, name)
            os.makedirs(os.path.dirname(target), 0o755, exist_ok=True)
            if not os.path.exists(target) or read_bytes(target) != text.encode():
                replace.put(target, text.encode(), os.geteuid(), os.getegid(), 0o644)


def names_below(directory: str) -> list[str]:
    """The files below a directory, by their paths within it, sorted."""
    return sorted(
        os.path.relpath(os.path.join(folder, name), directory)
        for folder, _, names in os.walk(directory)
        for name in names
    )


def digest(files: object) -> str:
    """Twelve digits that tell files apart, by names and contents."""
    import hashlib  # noqa: PLC0415 - slow to import, and most hosts have no program

    total = hashlib.sha256()
    for name, content in sorted(files):  # type: ignore[call-overload]
        total.update(b"%s\0%d\0%s" % (name.encode(), len(content), content))
    return total.hexdigest()[:12]
