"""First contact with hosts that form a cluster already: which one, by whom it is controlled, and what must not be lost.

A second controller beside a living one would begin with an empty state: its users' jobs would be gone. So first contact
goes on with the cluster that is there, whichever host the user named first, or refuses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from slurmfab.base.errors import InputError
from slurmfab.base.grouping import grouped
from slurmfab.base.hostlist import fold
from slurmfab.base.ip_addresses import canonical
from slurmfab.base.objections import outweighs
from slurmfab.base.program_name import FAB
from slurmfab.cluster.facts import ClusterMark, HostFacts
from slurmfab.cluster.slurm.conf_text import parse
from slurmfab.commands.nodes.discovery import DEFAULT_HOSTNAMES
from slurmfab.core.plan.preflight.other_clusters import Identity, identity_of, is_unset, short, split_controller
from slurmfab.on_hosts.agent.client.commands import PARTITION
from slurmfab.on_hosts.agent.core.reading import MADE_BY_SLURMFAB

LONGEST_NAME = 40  # the longest ClusterName that a cluster file may have
NEW_PARTITIONS = ("main", PARTITION)  # the partitions of slurm.conf with a cluster file that first contact writes


@dataclass(frozen=True)
class Founding:
    """The cluster that first contact makes, or goes on with."""

    name: str
    controller: str  # the host that is its controller, by the key of its facts
    identity: Identity  # what tells it from other clusters
    exists: bool = False  # whether the hosts form it already

    @property
    def notice(self) -> str:
        """A line that says that first contact goes on with a cluster; empty for a new one."""
        return f"These hosts form the cluster {self.name} already; {self.controller} is its controller." * self.exists


def choose(facts: Mapping[str, HostFacts], addresses: Mapping[str, str], name: str) -> Founding:
    """The cluster that hosts form already if its controller is one of them, or else a new one of the first host.

    `facts`: the facts of the hosts, in the order in which the user named them. `addresses`: by host, the address by
    which SSH reaches it, as far as known. Raises InputError if the hosts form a cluster of another name.
    """
    first = next(iter(facts))
    found = existing(facts, addresses)
    if found is None:
        chosen = name or default_name(facts[first].hostname, first)
        return Founding(chosen, first, identity_of(chosen, (addresses.get(first, ""),), [facts[first]]))
    controller, mark = found
    if name and name != mark.cluster.lower():
        raise InputError(
            f"These hosts form the cluster {mark.cluster}, with the controller {controller}, and --name {name} would "
            "rename it. Leave --name out; to rename it later, change `cluster` in its file. Nothing was changed."
        )
    names = (addresses.get(controller, ""), *split_controller(mark.controllers[0]))
    chosen = mark.cluster.lower()
    return Founding(chosen, controller, identity_of(chosen, names, [facts[controller]]), exists=True)


def existing(facts: Mapping[str, HostFacts], addresses: Mapping[str, str]) -> tuple[str, ClusterMark] | None:
    """The first host that signs name as controller, with that sign; `None` for none.

    The user named the first host as the controller. Another one becomes it if the first or most hosts have that sign,
    and not by its own word.

    Args:
        facts: the facts of the hosts, in the order in which the user named them.
        addresses: by host, the address by which SSH reaches it, as far as known.

    Raises:
        InputError: the signs of few hosts alone name another host than the first one.
    """
    first = next(iter(facts))
    told = grouped(
        ((mark.cluster.lower(), mark.controllers[0].lower()), (host, mark))
        for host, fact in facts.items()
        for mark in fact.slurm_use.marks
        if mark.controllers and mark.cluster and not is_unset(mark)
    )
    for signs in told.values():
        hosts, mark = {host for host, _ in signs}, signs[0][1]
        name, address = split_controller(mark.controllers[0])
        for host, fact in facts.items():
            others = {address for name, address in addresses.items() if name != host}
            own = {*map(canonical, fact.addresses)} - others | {addresses.get(host, "")} - {""}
            is_named = short(name) == short(fact.hostname.lower()) or name in own
            if is_named and (address in own or address in ("", name) or not is_dotted(address)):
                if host == first or outweighs(hosts, first, len(facts)):
                    return host, mark
                raise InputError(
                    f"{fold(hosts)}: {mark.place} there says that {host} is the controller of a cluster "
                    f"{mark.cluster}, and neither {first} nor most hosts say so. If that is the cluster, name its "
                    f"controller first: {FAB} deploy --hosts {host},…. Else leave out {fold(hosts)}, and see who has "
                    "changed it. Nothing was changed."
                )
    return None


def is_dotted(address: str) -> bool:
    """Whether an address tells one site's host from another's: an IP address, or a name with a domain."""
    return "." in address or ":" in address


def refuse_losing(founding: Founding, facts: Mapping[str, HostFacts]) -> None:
    """Refuse to go on with a cluster that has what the new cluster file would not have.

    `founding`: the cluster that first contact goes on with. `facts`: the facts of the hosts, by name. Raises
    InputError: with the nodes, partitions, controllers and databases that would be lost.
    """
    if not founding.exists:
        return
    text = facts[founding.controller].slurm_conf
    lost = lost_parts(text, facts) if text else ["its slurm.conf, which is not /etc/slurm/slurm.conf"]
    if lost:
        raise InputError(
            f"These hosts form the cluster {founding.name}, with the controller {founding.controller}. It has what a "
            f"new cluster file would not have: {'; '.join(lost)}. Deploy with the cluster file of {founding.name}. "
            f"If there is none, write one with all of this: {FAB} import --hosts {founding.controller} (with the same "
            "options of SSH), then deploy with it. Nothing was changed."
        )


def lost_parts(slurm_conf: str, facts: Mapping[str, HostFacts]) -> list[str]:
    """What a slurm.conf has and a new cluster file of these hosts would not, as texts."""
    conf = parse(slurm_conf)
    is_ours = slurm_conf.startswith(MADE_BY_SLURMFAB)
    nodes = [node for node in conf.nodes if node not in facts]
    partitions = [partition for partition in conf.partitions if partition not in NEW_PARTITIONS]
    _, *others = conf.settings.get("slurmctldhost", "").split(",")
    database = conf.settings.get("accountingstoragehost", "")
    return [
        *listed("node", fold(nodes), len(nodes)),
        *listed("partition", ", ".join(partitions), len(partitions)),
        *listed("backup controller", ", ".join(others), len(others)),
        *([f"the accounting database of {database}"] if database else []),
        *([] if is_ours else ["the settings of its slurm.conf, which slurmfab did not make"]),
    ]


def listed(word: str, names: str, count: int) -> Iterable[str]:
    """`the nodes n[1-2]`; nothing where there are none."""
    return [f"the {word}{'' if count == 1 else 's'} {names}"] if count else []


def default_name(*names: str) -> str:
    """The name of a new cluster, as Slurm accepts it, so that the clusters of two sites differ.

    Args:
        names: the host name of its controller and what else it is called; the first that tells hosts apart counts.

    >>> default_name("Head.1", "10.0.0.1"), default_name("debian", "head")
    ('head1', 'head')
    """
    telling = [name for name in names if name not in DEFAULT_HOSTNAMES]
    return next(filter(None, (re.sub(r"[^a-z0-9_-]", "", name.lower()) for name in telling)), "")[:LONGEST_NAME]
