"""The present findings of a compute node's health check, where the node has one; nothing is changed."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Mapping

from slurmfab.on_hosts.agent.core.host_paths import HEALTH_CHECK
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed

HEALTH_CHECK_TIMEOUT = 60.0


def read(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:  # noqa: ARG001 - as of all readings
    """The health check's findings in its reading mode as `causes`, sentences without full stop; or empty."""
    program = context.path(HEALTH_CHECK)
    if not os.access(program, os.X_OK):
        return {"causes": []}
    try:
        found = json.loads(context.must([program, "look"], seconds=HEALTH_CHECK_TIMEOUT))
        return {"causes": [found["causes"][key] for key in sorted(found["causes"])]}
    except (ResourceFailed, ValueError, KeyError) as error:
        return {"causes": ["its health check fails: %s" % error]}
