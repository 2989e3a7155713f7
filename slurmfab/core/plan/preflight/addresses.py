"""Whether the hosts of a cluster can connect to each other by the addresses that the cluster file gives them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from slurmfab.base.errors import InputError, refuse
from slurmfab.base.hostlist import fold
from slurmfab.base.ip_addresses import IPV4, IPV6
from slurmfab.base.objections import Objection, objected
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.core.impact.slurm_diff import ADDRESS, NODE_LINE
from slurmfab.core.plan.plan_input import PlanInput

NAMES = {IPV4: "IPv4", IPV6: "IPv6"}

FETCHES_BY_IPV6 = SlurmVersion(24, 11)
"""The first series of Slurm in which slurmd, which has no slurm.conf yet, fetches one over IPv6."""


def refuse_unreachable(plan_input: PlanInput) -> None:
    """Refuse addresses by which some hosts cannot connect to others.

    Slurm would start, and most jobs would run; only job steps between the wrong hosts fail. Raises InputError if two
    hosts have no family of addresses in common, or configless nodes cannot reach a controller.
    """
    heard = plan_input.heard(plan_input.members)
    members = [(name, plan_input.families(name), plan_input.own_families(name)) for name in heard]
    for family in (IPV4, IPV6):
        reached = [name for name, by, _ in members if by == {family}]
        others = [name for name, _, own in members if own and family not in own]
        if reached and others and {*reached} != {*others}:
            # A host says which addresses it has, and by which it is reached if the cluster file gives none.
            word = min((reached, others), key=len)
            objected([Objection((*word,), _apart(plan_input, family, reached, others))])
    _refuse_fetching_by_ipv6(plan_input)


def refuse_lost(plan_input: PlanInput, silent: Collection[str]) -> None:
    """Refuse, by InputError, new addresses of silent nodes: all others would look for these there alone."""
    lost = [
        f"{node}: it does not answer at {plan_input.address(node)}, which the cluster file now gives as its address. "
        f"The other hosts reach it at {plan_input.conf_before.nodes[node].of(node, ADDRESS) or node}, and would look "
        "for it at the new one alone. Correct addresses, or deploy when it answers there."
        for one in plan_input.differences
        if one.kind == NODE_LINE and one.key == "NodeAddr"
        for node in one.nodes
        if node in silent
    ]
    refuse(lost)


def _apart(plan_input: PlanInput, family: int, reached: Sequence[str], others: Sequence[str]) -> str:
    """The refusal of hosts without an address of the family by which others are reached."""
    address = plan_input.address(reached[0])
    own = next((one for one in plan_input.host(others[0]).addresses), "")
    return (
        f"{fold(reached)}: reached by {NAMES[family]} ({address}{', …' if len(reached) > 1 else ''}); {fold(others)}: "
        f"no {NAMES[family]} address of its own ({own}{', …' if len(others) > 1 else ''}). Slurm's daemons and job "
        "steps connect directly from each host to each other, in every version, so a job on these hosts would fail. "
        "Give all hosts addresses of one family, and write these under addresses."
    )


def _refuse_fetching_by_ipv6(plan_input: PlanInput) -> None:
    """Refuse, by InputError, configless nodes whose Slurm cannot fetch files by IPv6 from a controller."""
    cluster, version = plan_input.cluster, plan_input.oldest_slurm
    known = [name for name in cluster.controllers if name in plan_input.members]
    by_ipv6 = [name for name in known if plan_input.families(name) == {IPV6}]
    if by_ipv6 and version < FETCHES_BY_IPV6 and any(map(cluster.fetches, cluster.compute_nodes)):
        raise InputError(
            f"configless: slurmd of Slurm {version} cannot fetch its files over IPv6 (it can from {FETCHES_BY_IPV6} "
            f"on), and {fold(by_ipv6)} is reached by IPv6 ({plan_input.address(by_ipv6[0])}). Leave out configless, or "
            "give the controller an IPv4 address under addresses. Nothing was changed on any host."
        )
