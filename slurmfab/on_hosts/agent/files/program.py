"""A program of slurmfab that stays on a host: source files below a directory of its own."""

from __future__ import annotations

import os
import stat
from typing import ClassVar, Iterable, Tuple

from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.resource import Context, Resource, State
from slurmfab.on_hosts.agent.core.safe_paths import Folder, make_itself, make_or_enter, open_itself, open_parent


class Program(Resource):
    """A directory with these files alone, owned by root and readable by all; without files, no such directory."""

    kind: ClassVar[str] = "program"
    named_by: ClassVar[str] = "path"
    UNSHOWN = ("files",)
    path: str  # absolute path of the directory; other files in it are removed
    files: Tuple[Tuple[str, str], ...]  # path below the directory and text of each file

    def labelled(self, context: Context) -> Tuple[str, ...]:  # noqa: ARG002
        """The directory and its files."""
        return (self.path, *("%s/%s" % (self.path, name) for name, _ in self.files))

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """The digest of all files."""
        return {"program": digest((name, text.encode()) for name, text in self.files) if self.files else None}

    def actual(self, context: Context) -> State:
        """The digest of the files on the host."""
        folder = open_itself(context.path(self.path))
        if folder is None:
            return {"program": None}
        with folder:
            return {"program": digest([(path, content_of(inner, name)) for path, inner, name in folder.walk()])}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Write the files, and remove others. Raises ResourceFailed if the directory is a symbolic link."""
        path, wanted = context.path(self.path), dict(self.files)
        if not wanted:
            folder, name = open_parent(path)
            with folder:
                folder.remove(name)
            return
        directory = make_itself(path)
        with directory:
            for below, inner, name in directory.walk():
                if below not in wanted:
                    inner.unlink(name)
            for below, text in wanted.items():
                put_below(directory, below, text.encode())


def content_of(folder: Folder, name: str) -> bytes:
    """The content of a file in a directory; empty for a link or a device, which is none of the program's files."""
    status = folder.find(name)
    found = folder.read(name) if status is not None and stat.S_ISREG(status.st_mode) else None
    return found[1] if found else b""


def put_below(folder: Folder, path: str, content: bytes) -> None:
    """Write a file, unless it is so, at a path below a directory; missing directories are made."""
    first, _, rest = path.partition("/")
    if rest:
        with make_or_enter(folder, first) as inner:
            put_below(inner, rest, content)
        return
    status = folder.find(first)
    if status is None or replace.has_other_names(folder, status) or content_of(folder, first) != content:
        replace.put_in(folder, first, content, (os.geteuid(), os.getegid(), 0o644))


def digest(files: Iterable[Tuple[str, bytes]]) -> str:
    """Twelve hexadecimal digits that identify a set of files. `files`: path and content of each file."""
    import hashlib  # slow to import, and most hosts have no program

    total = hashlib.sha256()
    for name, content in sorted(files):
        total.update(b"%s\0%d\0%s" % (name.encode(), len(content), content))
    return total.hexdigest()[:12]
