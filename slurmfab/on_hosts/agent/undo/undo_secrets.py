"""Removal of the secrets in the undo store, for a host that leaves its cluster."""

from __future__ import annotations

import os
from typing import ClassVar, List

from slurmfab.on_hosts.agent.core.resource import Context, Resource, State
from slurmfab.on_hosts.agent.undo import undo_store


class NoKeptSecrets(Resource):
    """An undo store without copies of secrets; all other copies stay, and the store notes what was removed."""

    kind: ClassVar[str] = "no-kept-secrets"
    only_name: ClassVar[str] = undo_store.DIRECTORY
    wanted_state: ClassVar[State] = {"copies": None}

    def actual(self, context: Context) -> State:
        """The number of copies of secrets."""
        return {"copies": len(self.copies(context)) or None}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Remove the copies, and note that the runs so far cannot be undone any more, which needs the secrets."""
        undo_store.note_dropped(context, undo_store.runs(context)[-1])
        for path in self.copies(context):
            os.unlink(path)

    def copies(self, context: Context) -> List[str]:
        """The paths of the copies."""
        base = context.path(undo_store.DIRECTORY)
        return [
            os.path.join(base, run, entry["blob"])
            for run in undo_store.runs(context)
            for entry in undo_store.entries(context, run)
            if entry.get("secret") and os.path.exists(os.path.join(base, run, entry["blob"]))
        ]
