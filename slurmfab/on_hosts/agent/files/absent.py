"""A file that has to be absent."""

from __future__ import annotations

import stat
from typing import ClassVar

from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.core.safe_paths import open_parent


class Absent(Resource):
    """No file, symbolic link or device at this path; a directory there is a failure."""

    kind: ClassVar[str] = "absent"
    named_by: ClassVar[str] = "path"
    wanted_state: ClassVar[State] = {"file": None}
    path: str  # absolute path
    secret: bool = False  # whether no report may show the content that the file had

    def touches(self, differing: frozenset[str]) -> tuple[str, ...]:  # noqa: ARG002
        """The file."""
        return (self.path,)

    def holds_secret(self, path: str) -> bool:  # noqa: ARG002
        """Whether the file was declared a secret."""
        return self.secret

    def actual(self, context: Context) -> State:
        """Whether the file, or a copy of a secret beside it, exists; ResourceFailed if it is a directory."""
        path = context.path(self.path)
        try:
            folder, name = open_parent(path)
        except (FileNotFoundError, NotADirectoryError):
            return {"file": None}
        with folder:
            status = folder.find(name)
            if status is not None and stat.S_ISDIR(status.st_mode):
                raise ResourceFailed("%s is a directory; only files are removed" % path)
            left = replace.leftovers_in(folder, name) if self.secret else []
            return {"file": "present" if status is not None or left else None}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Remove the file; for a secret also the copies that interrupted runs left beside it."""
        folder, name = open_parent(context.path(self.path))
        with folder:
            if self.secret:
                replace.clear(folder, name)
            folder.unlink(name)
