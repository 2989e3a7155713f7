"""The agent's modules as Python has compiled them, kept on a host from one run to the next, as Python does with files.

Compiling is the dearest part of a run with nothing to change. What is kept are pyc files with a hash of their source
(PEP 552): the sources come with every run and decide, so what is kept of another version is just compiled anew. They
lie below /run, which is memory and empty after a boot, in a directory that root alone can look into or change: whoever
can change code there has root's rights already. Where that cannot be had, every run compiles.
"""

from __future__ import annotations

import marshal
import os
import sys
from importlib.util import MAGIC_NUMBER, source_hash
from types import CodeType
from typing import Optional

DIRECTORY = "/run/slurmfab-agent"
CHECKED = (3).to_bytes(4, "little")
"""The flags of a pyc file that counts only if it has the hash of the source."""


class Compiled:
    """Compiled modules, from what is kept if that is of the same source, and kept for the next run if it is not.

    Args:
        directory: where; empty for nowhere.
    """

    def __init__(self, directory: str = DIRECTORY) -> None:
        self.folder: Optional[int] = None
        try:
            self.folder = opened(directory) if directory else None
        except OSError:
            return

    def code(self, source: str, path: str) -> CodeType:
        """A compiled module.

        Args:
            source: its text.
            path: what tracebacks call it; the last part of that is the name under which it is kept.
        """
        data = source.encode()
        head = MAGIC_NUMBER + CHECKED + source_hash(data)
        name = "%s.%s.pyc" % (os.path.basename(path)[: -len(".py")], sys.implementation.cache_tag)
        kept = self.read(name)
        if kept.startswith(head):
            try:
                found: CodeType = marshal.loads(kept[len(head) :])  # noqa: S302 - our own, see above
                return found
            except (EOFError, TypeError, ValueError):
                pass  # damaged, so it is compiled and kept anew
        code: CodeType = compile(data, path, "exec", dont_inherit=True)
        self.keep(name, head + marshal.dumps(code))
        return code

    def read(self, name: str) -> bytes:
        """What is kept under a name; empty when nothing is."""
        try:
            with open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=self.here()), "rb") as file:
                return file.read()
        except OSError:
            return b""

    def keep(self, name: str, data: bytes) -> None:
        """Keep something in one step, so that another run at the same moment finds all of it; or give up."""
        try:
            folder, beside = self.here(), ".%s.%d" % (name, os.getpid())
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600, dir_fd=folder)
            try:
                with open(descriptor, "wb") as file:
                    file.write(data)
                os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                os.unlink(beside, dir_fd=folder)
        except OSError:
            return

    def here(self) -> int:
        """The directory's descriptor.

        Raises:
            FileNotFoundError: nothing is kept on this host.
        """
        if self.folder is None:
            raise FileNotFoundError
        return self.folder


def opened(path: str) -> int:
    """A descriptor of a directory, which is made if it is missing.

    Raises:
        OSError: it cannot be made, is no directory, or others can look into it or change it.
    """
    if not os.path.lexists(path):
        os.mkdir(path, 0o700)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    status = os.fstat(descriptor)
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        os.close(descriptor)
        raise PermissionError("%s is not ours alone" % path)
    return descriptor
