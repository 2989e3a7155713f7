"""JSON that a host has kept: an object, or nothing where somebody or a full disk has damaged it."""

from __future__ import annotations

import json
from typing import Any, Dict, Optional

from slurmfab.on_hosts.agent.core.reading import read_bytes


def parse(data: bytes) -> Optional[Dict[str, Any]]:
    """The object in a line or a file; `None` if there is none, or if it is nested too deeply."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def read(path: str) -> Dict[str, Any]:
    """The object in a file; empty if the file is missing or damaged."""
    return parse(read_bytes(path)) or {}
