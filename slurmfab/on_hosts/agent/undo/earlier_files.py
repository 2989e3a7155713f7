"""Files that a run has replaced, put back as they were before it when a daemon does not start with the new ones."""

from __future__ import annotations

from typing import ClassVar, Dict, Tuple

from slurmfab.on_hosts.agent.core.resource import Context, Resource, State, compare
from slurmfab.on_hosts.agent.undo.restored_file import Restored
from slurmfab.on_hosts.agent.undo.undo_store import entries

BEFORE = "as before this run"


class EarlierFiles(Resource):
    """Those of these files that a run has changed on this host, with the state that they had before the run."""

    kind: ClassVar[str] = "earlier-files"
    named_by: ClassVar[str] = "run"
    paths: Tuple[str, ...]  # absolute paths, in the order in which they are put back
    run: str
    secret: bool = False  # whether the files may hold secrets; the copies never leave the host in any case

    def wanted(self, context: Context) -> State:
        """Each file that the run has changed, as before."""
        return dict.fromkeys(self.restored(context), BEFORE)

    def actual(self, context: Context) -> State:
        """Which of them differ."""
        restored = self.restored(context)
        return {path: "changed" if compare(one, context) else BEFORE for path, one in restored.items()}

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Put back each file that differs; ResourceFailed if a copy is missing, OSError if it cannot be written."""
        for path, one in self.restored(context).items():
            if path in differing:
                one.converge(context, frozenset(change.name for change in compare(one, context)))

    def restored(self, context: Context) -> Dict[str, Restored]:
        """How each file that the run has changed is put back, by path."""
        changed = {entry.get("path") for entry in entries(context, self.run)}
        return {path: Restored(path, self.run, secret=self.secret) for path in self.paths if path in changed}
