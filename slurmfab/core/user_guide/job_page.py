"""The page on which users write a submit script: a form with the cluster's limits, without a server."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from slurmfab.base.json_output import Key, as_json, shows
from slurmfab.base.markup import Markup, fill, joined, policy
from slurmfab.core.user_guide.limits import caps
from slurmfab.core.user_guide.offer import Offer, OfferedPartition, Shape, caps_of_accounts
from slurmfab.on_hosts.agent.client.amounts import clock

STYLES = ("colours.css", "job.css")
SCRIPTS = ("job-script.js", "job-limits.js", "job.js")
"""Files that become the page's one style sheet and its one script, in this order."""

WAYS = {"podman": "Podman (sdocker)", "oci": "Slurm's own", "enroot": "enroot", "apptainer": "Apptainer"}
"""Ways of running containers that a script can name, with their titles."""

USUAL_MINUTES, USUAL_MEMORY = 60, 4096  # what the form begins with, where the cluster allows it


def _counted(shapes: Iterable[tuple[Shape, int]]) -> list[dict[str, Any]]:
    return [
        {"count": count, "cpus": one.cpus, "memory": one.memory, "gpus": dict(one.gpus), "scratch": one.scratch}
        for one, count in shapes
    ]


shows(
    "name", Key("isOpen", "is_open"), Key("isExclusive", "is_exclusive"), "count", Key("maxMinutes", "max_minutes"),
    Key("defaultMemory", "default_memory"), Key("minNodes", "min_nodes"), Key("maxNodes", "max_nodes"), "accounts",
    Key("deniedAccounts", "denied_accounts"), "groups", Key("allowedQos", "allowed_qos"),
    Key("deniedQos", "denied_qos"), "caps",
    Key("shapes", form=_counted),
)(OfferedPartition)  # fmt: skip


def page(found: Offer) -> str:
    """The page as one HTML file."""
    cluster = found.cluster
    style, script = joined(STYLES), joined(SCRIPTS)
    first = found.default or next(iter(found.partitions), None)
    minutes = min(USUAL_MINUTES, first.max_minutes or USUAL_MINUTES) if first else USUAL_MINUTES
    use = cluster.container_ways
    return str(
        fill(
            "job.html.j2",
            name=cluster.name,
            policy=policy(style, script),
            # These are files of this package, which do not hold their own end tag.
            style=Markup(style),
            script=Markup(script),
            offer=data(found),
            partitions=found.partitions,
            accounts=found.accounts,
            qos=found.qos,
            has_gpus=bool(found.gpus),
            has_scratch=any(shape.scratch for one in found.partitions for shape, _ in one.shapes),
            modules=cluster.modules is not None,
            containers=[(way, WAYS[way]) for way in use if way in WAYS],
            time=clock(60 * minutes),
            memory=usual_memory(first),
            login=(cluster.login or cluster.controllers)[0],
        )
    )


def usual_memory(partition: OfferedPartition | None) -> str:
    """The memory that the form begins with: less than usual where all nodes of the partition are small."""
    most = max((shape.memory for shape, _ in partition.shapes), default=0) if partition else 0
    return "4G" if not most or most >= USUAL_MEMORY else f"{most // 2}M"


def data(found: Offer) -> Markup:
    """What the form has to know, as JSON that ends no element of HTML."""
    limits = {one.name: one.settings for one in found.cluster.qos}
    accounts = caps_of_accounts(found.cluster.accounts)
    value = {
        "partitions": as_json(found.partitions),
        "accounts": {name: as_json(accounts[name]) for name in found.accounts},
        "qos": {name: as_json(tuple(caps(limits.get(name, {}), f"QOS {name}", is_qos=True))) for name in found.qos},
    }
    return Markup(json.dumps(value, separators=(",", ":")).replace("<", "\\u003c"))
