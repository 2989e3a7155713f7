"""Packages of bundles on this host, of whichever package manager it has.

{"op": "collect", "manager": "apt", "names": [...], "slurm": [...], "version": "26.05.*"}
-> {"file": "NAME.deb"}, {"piece": "<base64>"} ... for each file, {"collected": {"index": ...}}

{"op": "bundle", "do": "begin", "manager": "apt", "bundle": ..., "index": ..., "names": [...]}
-> {"bundle": {"lacking": [...]}}, and further steps (`bundle_staging`, `lent_files`)
"""

from __future__ import annotations

from typing import Any, Dict, Mapping

from slurmfab.on_hosts.agent.core.lifeline import Answers
from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.packages import bundle_making, bundle_staging


def stream(request: Mapping[str, Any], context: Context, answers: Answers) -> None:
    """Download `names` with all dependencies, send them, and remove them here.

    `request`: `slurm`: those of Slurm's own, in this `version`, and for dnf from the source of `repo` and `key`, if
    any. Raises ResourceFailed of the package manager, or Disconnected.
    """
    if "part" in request:
        from slurmfab.on_hosts.agent.packages import lent_files

        lent_files.stream(request, context, answers)
        return
    with bundle_making.temporary_directory(context) as place:
        if request["manager"] == "dnf":
            from slurmfab.on_hosts.agent.dnf import dnf_bundle

            folder, index = dnf_bundle.collected(context, request, place)
        else:
            folder, index = bundle_making.collected(context, request, place)
        bundle_making.send_all(folder, index, answers)


def stage(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:
    """Do one step; as `bundle_staging.stage`."""
    if request["do"] == "begin" and request["manager"] == "dnf":
        from slurmfab.on_hosts.agent.dnf import dnf_bundle

        needed = dnf_bundle.begin(context, request["bundle"], request["index"], request["names"])
        return {"lacking": bundle_staging.missing(context, request["bundle"], needed)}
    if request["do"] in ("begin-lists", "needed"):
        from slurmfab.on_hosts.agent.packages import lent_files

        if request["do"] == "needed":
            return {"lacking": lent_files.needed(context, request)}
        return {"lacking": lent_files.begin(context, request["bundle"], request["files"])}
    return bundle_staging.stage(request, context)
