"""A part of a backup on its way to the deployer: pieces as they are read, and then what is to be said of them.

{"op": "save", "part": "state", "directory": ...}  -> {"piece": "<base64>"} again and again, {"saved": {...}}
"""

from __future__ import annotations

import base64
from typing import Any, Callable, Dict, Mapping

from slurmfab.agent.backup_database import save_database
from slurmfab.agent.backup_pieces import Sink
from slurmfab.agent.backup_state import save_files, save_state
from slurmfab.agent.lifeline import Answers
from slurmfab.agent.resource import Context

PARTS: Dict[str, Callable[[Mapping[str, Any], Context, Sink], Dict[str, Any]]] = {
    "state": save_state,
    "files": save_files,
    "database": save_database,
}
"""What can be saved, and what saves it."""


def stream(request: Mapping[str, Any], context: Context, answers: Answers) -> None:
    """Send a part; the line waits for whoever reads it, so nothing piles up.

    Raises:
        ResourceFailed, OSError: it cannot be read.
        Gone: the deployer went away meanwhile.
    """

    def send(piece: bytes) -> None:
        answers.check()
        answers.send(piece=base64.b64encode(piece).decode("ascii"))

    answers.send(saved=PARTS[request["part"]](request, context, send))
