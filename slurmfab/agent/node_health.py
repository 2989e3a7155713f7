"""What a compute node's own health check finds now, where it has one; nothing is done about it."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Mapping

from slurmfab.agent.resource import Context, ResourceFailed

PROGRAM = "/usr/local/lib/slurmfab/health-check"
SECONDS = 60.0


def read(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:  # noqa: ARG001 - as of all readings
    """All that is wrong with the node.

    Returns:
        `causes`: sentences without a full stop; none where there is no health check.
    """
    program = context.path(PROGRAM)
    if not os.access(program, os.X_OK):
        return {"causes": []}
    try:
        found = json.loads(context.must([program, "look"], seconds=SECONDS))
        return {"causes": [found["causes"][key] for key in sorted(found["causes"])]}
    except (ResourceFailed, ValueError, KeyError) as error:
        return {"causes": ["its health check fails: %s" % error]}
