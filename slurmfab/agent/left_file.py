"""An empty file that one host leaves and another looks for: whether both see the same directory, tried out for real."""

from __future__ import annotations

import os
import time
from typing import ClassVar, Tuple

from slurmfab.agent.resource import Context, Resource, State

THERE, GONE = "there", "gone"


class LeftFile(Resource):
    """A file in a directory, or in the nearest one above it that exists.

    It is made, looked for and removed as the user who owns that directory, since a file server may grant root nothing.

    Args:
        directory: absolute.
        file: its name.
        there: whether it is to be there; otherwise it is to be gone.
        seconds: how long reading waits for it to be as wanted, since another host's file may take a moment to show up.
    """

    kind: ClassVar[str] = "left-file"
    directory: str
    file: str
    there: bool = True
    seconds: float = 0.0

    def name(self) -> str:
        """The path that it has when the directory exists."""
        return os.path.join(self.directory, self.file)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """There, or gone."""
        return {"file": THERE if self.there else GONE}

    def actual(self, context: Context) -> State:
        """What it is, at once when that is right, and after the patience otherwise."""
        path, owner = self.place(context)
        deadline = time.monotonic() + self.seconds
        while True:
            is_there = context.run(["test", "-e", path], account=owner).returncode == 0
            if is_there == self.there or time.monotonic() >= deadline:
                return {"file": THERE if is_there else GONE}
            time.sleep(0.2)

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Make it, or remove it.

        Raises:
            ResourceFailed: the directory's owner may not.
        """
        path, owner = self.place(context)
        context.must([*(("touch",) if self.there else ("rm", "--force")), "--", path], account=owner)

    def place(self, context: Context) -> Tuple[str, Tuple[int, int]]:
        """The path, and UID and GID of who owns the directory that exists."""
        directory = self.directory
        while not os.path.isdir(context.path(directory)):
            directory = os.path.dirname(directory)
        status = os.stat(context.path(directory))
        return context.path(os.path.join(directory, self.file)), (status.st_uid, status.st_gid)
