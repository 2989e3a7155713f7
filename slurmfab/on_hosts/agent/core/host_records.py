"""What a host remembers of slurmfab's work, for a later run: objects as JSON, in files that root alone can read."""

from __future__ import annotations

import json
from typing import Any, Dict, Mapping

from slurmfab.on_hosts.agent.core import json_objects, replace
from slurmfab.on_hosts.agent.core.resource import Context


def read(context: Context, path: str) -> Dict[str, Any]:
    """The record at this path; an empty one where there is none, or a damaged one."""
    return json_objects.parse(replace.read(context.path(path)) or b"{}") or {}


def write(context: Context, path: str, record: Mapping[str, Any]) -> None:
    """Replace, in root's directory, the record (JSON) at a path; an empty one removes it."""
    if not record:
        replace.unlink(context.path(path))
        return
    replace.put(context.path(path), json.dumps(record, sort_keys=True).encode(), 0, 0, 0o600, make=True)
