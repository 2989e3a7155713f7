"""The limits of QOS and accounts beyond which a job waits for ever, or is refused."""

from __future__ import annotations

from typing import Dict, Iterable, Iterator, List, Mapping, Tuple

from slurmfab.on_hosts.programs.user_tools.amounts import UNTYPED, mebibytes_of, number_of, tres_of
from slurmfab.on_hosts.programs.user_tools.cluster import Cluster
from slurmfab.on_hosts.programs.user_tools.findings import Finding, error
from slurmfab.on_hosts.programs.user_tools.limits import Association
from slurmfab.on_hosts.programs.user_tools.partitions import Partition
from slurmfab.on_hosts.programs.user_tools.wanted import GPUS, MEMORY, SIZE, Wanted, memory_text, total

DEFAULT_QOS = "normal"
HELD_TO = {
    "MaxTRES": "a job %s",
    "MaxTRESPerNode": "a job %s on each node",
    "MaxTRESPU": "all jobs of one user together %s",
    "MaxTRESPA": "all jobs of one account together %s",
    "GrpTRES": "all its jobs together %s",
}
"""By limit of sacctmgr(1), whom it allows how much."""

WORDS = {"cpu": "CPUs", "mem": "of memory", "node": "nodes", "gres/gpu": "GPUs"}

LINES: Mapping[str, Tuple[str, ...]] = {"node": ("nodes",), "mem": MEMORY, "cpu": SIZE[::-1]}
"""By trackable resource, the options that ask for it."""


def check(wanted: Wanted, cluster: Cluster, partition: Partition) -> Iterator[Finding]:
    """Yield the limits beyond which a job waits for ever, or is refused."""
    if "limits" not in cluster.enforced:
        return
    asked = trackable(wanted)
    on_node = {"cpu": wanted.node_cpus, "mem": wanted.node_memory or 0, "gres/gpu": total(wanted.node_gpus)}
    for limit, span in HELD_TO.items():
        for holder, resource, amount in counting(holders(wanted, cluster, partition, limit)):
            allowed = mebibytes_of(amount) if resource == "mem" else number_of(amount)
            needed = (on_node if limit == "MaxTRESPerNode" else asked).get(resource, 0)
            if allowed is not None and needed > allowed:
                text = "%s allows %s (%s %s=%s)" % (
                    holder,
                    span % amount_text(resource, amount),
                    limit,
                    resource,
                    amount,
                )
                shown = memory_text(needed) if resource == "mem" else str(needed)
                text += "; with %s this job would wait for ever, or is refused" % shown
                yield error(wanted.line(*LINES.get(resource, GPUS)), "limit", text)


def holders(wanted: Wanted, cluster: Cluster, partition: Partition, limit: str) -> Iterator[Tuple[str, str]]:
    """Yield whose named limit counts: QOS before associations, the partition's first unless OverPartQOS."""
    by_name = {one.name: one for one in cluster.qos}
    mine = associations(wanted, cluster)
    default = mine[0].default_qos if len(mine) == 1 else ""
    of_job = by_name.get(wanted.value("qos") or default or DEFAULT_QOS)
    order = [by_name.get(partition.qos), of_job]
    if of_job and "OverPartQOS" in of_job.flags:
        order.reverse()
    for one in order:
        if one and limit in one.limits:
            yield "QOS " + one.name, one.limits[limit]
    # With several accounts, any of which the job may take, none of them forbids it.
    for association in mine if len(mine) == 1 else ():
        if limit in association.limits:
            yield "account " + association.account, association.limits[limit]
        if limit == "GrpTRES":
            for name, amounts in cluster.account_limits.get(association.account, ()):
                yield "account " + name, amounts


def associations(wanted: Wanted, cluster: Cluster) -> List[Association]:
    """The user's associations that the job may run in."""
    asked = wanted.value("account")
    return [one for one in cluster.associations if asked in ("", one.account)]


def counting(held: Iterable[Tuple[str, str]]) -> Iterator[Tuple[str, str, str]]:
    """Yield holder, resource and amount: the first of each, but of accounts above one another all."""
    first: Dict[str, str] = {}
    for holder, amounts in held:
        for resource, amount in tres_of(amounts).items():
            earlier = first.setdefault(resource, holder)
            if earlier == holder or (earlier.startswith("account ") and holder.startswith("account ")):
                yield holder, resource, amount


def amount_text(resource: str, amount: str) -> str:
    """An amount of a trackable resource in words.

    >>> amount_text("gres/gpu", "2"), amount_text("mem", "10G")
    ('2 GPUs', '10G of memory')
    """
    return "%s %s" % (amount, WORDS.get(resource) or "of " + resource)


def trackable(wanted: Wanted) -> Dict[str, int]:
    """What a job asks for of each trackable resource."""
    found = {"cpu": wanted.cpus, "mem": wanted.memory or 0, "node": wanted.nodes, "gres/gpu": total(wanted.gpus)}
    for kind, count in wanted.gpus.items():
        if kind != UNTYPED:
            found["gres/gpu:" + kind] = count
    return found
