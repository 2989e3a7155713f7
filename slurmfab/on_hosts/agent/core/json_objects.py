"""JSON that a host has kept: an object, or nothing where somebody or a full disk has damaged it."""

from __future__ import annotations

import json
from typing import Any, Dict, Optional


def parse(data: bytes) -> Optional[Dict[str, Any]]:
    """The object in a line or a file; `None` if there is none, or if it is nested too deeply."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
