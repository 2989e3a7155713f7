"""Updates of this host's packages, of whichever package manager it has."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from slurmfab.on_hosts.agent.core.resource import Context


def read(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:
    """What an update would do here; `manager` of the request says who is asked, who knows the rest of it."""
    if request.get("manager") == "dnf":
        from slurmfab.on_hosts.agent.dnf import dnf_updates

        return dnf_updates.read(request, context)
    from slurmfab.on_hosts.agent.packages import updates

    return updates.read(request, context)
