"""An empty file that one host makes and another looks for, which proves that both see the same directory."""

from __future__ import annotations

import os
import time
from typing import ClassVar, Tuple

from slurmfab.on_hosts.agent.core.resource import Context, Resource, State
from slurmfab.on_hosts.agent.core.safe_paths import UnsafePath, open_folder

THERE, GONE = "there", "gone"


class LeftFile(Resource):
    """A file in a directory, or the nearest one above, handled by its owner: servers deny root (root_squash)."""

    kind: ClassVar[str] = "left-file"
    directory: str  # absolute path
    file: str  # name of the file
    there: bool = True  # whether the file has to exist; otherwise it has to be absent
    seconds: float = 0.0  # how long to wait for that state, because another host's file may appear with a delay

    def name(self) -> str:
        """The path of the file, if the directory exists."""
        return os.path.join(self.directory, self.file)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """`there` or `gone`."""
        return {"file": THERE if self.there else GONE}

    def actual(self, context: Context) -> State:
        """Whether the file is there; checks for up to `seconds` until the state is the wanted one."""
        path, owner = self.place(context)
        deadline = time.monotonic() + self.seconds
        while True:
            is_there = context.run(["test", "-e", path], account=owner).returncode == 0
            if is_there == self.there or time.monotonic() >= deadline:
                return {"file": THERE if is_there else GONE}
            time.sleep(0.2)

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Make or remove the file. Raises ResourceFailed if the directory's owner is not allowed to."""
        path, owner = self.place(context)
        context.must([*(("touch",) if self.there else ("rm", "--force")), "--", path], account=owner)

    def place(self, context: Context) -> Tuple[str, Tuple[int, int]]:
        """The path of the file in the directory that exists, and UID and GID of the directory's owner."""
        directory = self.directory
        while True:
            try:
                folder = open_folder(context.path(directory))
            except (FileNotFoundError, NotADirectoryError):
                directory = os.path.dirname(directory)
            else:
                break
        with folder:
            if not folder.status.st_uid and folder.intruder:
                # Root itself would work below a directory that another user can exchange.
                raise UnsafePath("%s belongs to root, and %s can replace it" % (folder.path, folder.intruder))
            return os.path.join(folder.path, self.file), (folder.status.st_uid, folder.status.st_gid)
