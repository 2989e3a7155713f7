"""A file that must not be there."""

from __future__ import annotations

import os
from typing import ClassVar

from slurmfab.agent import replace
from slurmfab.agent.resource import Context, Resource, ResourceFailed, State


class Absent(Resource):
    """No file, link or device of this name; directories are left alone.

    Args:
        path: absolute.
        secret: whether no report may show what was in it.
    """

    kind: ClassVar[str] = "absent"
    path: str
    secret: bool = False

    def name(self) -> str:
        """The path."""
        return self.path

    def touches(self, differing: frozenset[str]) -> tuple[str, ...]:  # noqa: ARG002
        """The file that goes."""
        return (self.path,)

    def holds_secret(self, path: str) -> bool:  # noqa: ARG002
        """As it is said."""
        return self.secret

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Nothing there."""
        return {"file": None}

    def actual(self, context: Context) -> State:
        """Whether there is one.

        Raises:
            ResourceFailed: a directory is there.
        """
        path = context.path(self.path)
        if os.path.isdir(path) and not os.path.islink(path):
            raise ResourceFailed("%s is a directory; only files are removed" % path)
        left = replace.leftovers(path) if self.secret else []
        return {"file": "present" if os.path.lexists(path) or left else None}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Remove it; and copies of a secret beside it, which a run that was killed has left."""
        path = context.path(self.path)
        if self.secret:
            replace.remove_leftovers(*os.path.split(path))
        if os.path.lexists(path):
            os.unlink(path)
