"""What comes of resources on a host."""

from __future__ import annotations

import json

from slurmfab.on_hosts.agent.core.resource import FAILED, Context, Resource, apply, as_request
from slurmfab.on_hosts.agent.kinds import build


def as_sent(resource: Resource) -> Resource:
    """A resource as a host makes it of a request that came over the wire."""
    return build(json.loads(json.dumps(as_request(resource))))


def told_of(resource: Resource, context: Context) -> tuple[str, str]:
    """Status and message of a resource that is applied as it came over the wire."""
    found = apply(as_sent(resource), context)
    return found.status, found.message


def failure(resource: Resource, context: Context) -> str:
    """The message of a resource, which must fail."""
    found = apply(resource, context)
    assert found.status == FAILED, found
    return found.message
