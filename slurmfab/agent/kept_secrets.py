"""Kept copies of secrets, for a host that leaves its cluster."""

from __future__ import annotations

import os
from typing import ClassVar, List

from slurmfab.agent import kept
from slurmfab.agent.resource import Context, Resource, State


class NoKeptSecrets(Resource):
    """None of them left, from whatever run; all else that is kept stays, and what is gone is known to be gone."""

    kind: ClassVar[str] = "no-kept-secrets"

    def name(self) -> str:
        """Where they lie."""
        return kept.KEPT

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """None."""
        return {"copies": None}

    def actual(self, context: Context) -> State:
        """How many there are."""
        return {"copies": len(self.copies(context)) or None}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Remove them, and note that nobody can go back behind that any more: a cluster needs its secrets."""
        kept.note_dropped(context, kept.runs(context)[-1])
        for path in self.copies(context):
            os.unlink(path)

    def copies(self, context: Context) -> List[str]:
        """Their paths."""
        base = context.path(kept.KEPT)
        return [
            os.path.join(base, run, entry["blob"])
            for run in kept.runs(context)
            for entry in kept.entries(context, run)
            if entry.get("secret") and os.path.exists(os.path.join(base, run, entry["blob"]))
        ]
