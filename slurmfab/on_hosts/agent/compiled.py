"""A cache of the agent's compiled modules on a host, like Python's __pycache__.

Compiling takes the most time of a run that changes nothing. The cache holds pyc files with a hash of their source
(PEP 552). The sources come with every run, so a pyc file of another version is replaced. The cache is below /run, which
is in memory and empty after a boot, in a directory that only root can read or change: a program that can change code
there is root already. Without such a directory every run compiles.
"""

from __future__ import annotations

import marshal
import os
import sys
from importlib.util import MAGIC_NUMBER, source_hash
from types import CodeType
from typing import Optional

DIRECTORY = "/run/slurmfab-agent"
CHECKED = (3).to_bytes(4, "little")  # the flags of a pyc file that is valid only for a source with the hash in it


class Compiled:
    """Compiled modules, from the cache's directory, or compiled now and added to it; empty for no cache."""

    def __init__(self, directory: str = DIRECTORY) -> None:
        self.folder: Optional[int] = None
        try:
            self.folder = opened(directory) if directory else None
        except OSError:
            return

    def code(self, source: str, path: str) -> CodeType:
        """The code of a module; `path` is its file in tracebacks and, with dots for slashes, its name in the cache."""
        data = source.encode()
        head = MAGIC_NUMBER + CHECKED + source_hash(data)
        name = "%s.%s.pyc" % (path[: -len(".py")].replace("/", "."), sys.implementation.cache_tag)
        cached = self.read(name)
        if cached.startswith(head):
            try:
                found: CodeType = marshal.loads(cached[len(head) :])  # noqa: S302 - only root can write it, see above
                return found
            except (EOFError, TypeError, ValueError):
                pass  # damaged, so it is compiled again
        code: CodeType = compile(data, path, "exec", dont_inherit=True)
        self.write(name, head + marshal.dumps(code))
        return code

    def read(self, name: str) -> bytes:
        """The content of a file in the cache; empty when there is none."""
        try:
            with open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=self.descriptor()), "rb") as file:
                return file.read()
        except OSError:
            return b""

    def write(self, name: str, data: bytes) -> None:
        """Write a file of the cache in one step, because several runs may use the cache; ignore failures."""
        try:
            folder, beside = self.descriptor(), ".%s.%d" % (name, os.getpid())
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600, dir_fd=folder)
            try:
                with open(descriptor, "wb") as file:
                    file.write(data)
                os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                os.unlink(beside, dir_fd=folder)
        except OSError:
            return

    def descriptor(self) -> int:
        """The open directory of the cache. Raises FileNotFoundError if there is no cache."""
        if self.folder is None:
            raise FileNotFoundError
        return self.folder


def opened(path: str) -> int:
    """Open, perhaps make, a directory; OSError if that fails, or others can read or change it."""
    if not os.path.lexists(path):
        os.mkdir(path, 0o700)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    status = os.fstat(descriptor)
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        os.close(descriptor)
        raise PermissionError("other users can use %s" % path)
    return descriptor
