"""A part of a backup streamed to the deployer: pieces while it is read, then its description.

{"op": "save", "part": "state", "directory": ...}  -> {"piece": "<base64>"} again and again, {"saved": {...}}
"""

from __future__ import annotations

import base64
from typing import Any, Callable, Dict, Mapping

from slurmfab.on_hosts.agent.backup.database import save_database
from slurmfab.on_hosts.agent.backup.pieces import Sink
from slurmfab.on_hosts.agent.backup.state import save_files, save_state
from slurmfab.on_hosts.agent.core.lifeline import Answers
from slurmfab.on_hosts.agent.core.resource import Context

SAVERS: Dict[str, Callable[[Mapping[str, Any], Context, Sink], Dict[str, Any]]] = {
    "state": save_state,
    "files": save_files,
    "database": save_database,
}
"""The function that saves each part."""


def stream(request: Mapping[str, Any], context: Context, answers: Answers) -> None:
    """Send a part, as fast as the deployer reads; ResourceFailed or OSError of the part, Disconnected."""

    def send(piece: bytes) -> None:
        answers.check()
        answers.send(piece=base64.b64encode(piece).decode("ascii"))

    answers.send(saved=SAVERS[request["part"]](request, context, send))
