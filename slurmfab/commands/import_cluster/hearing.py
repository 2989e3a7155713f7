"""One host's word against an import: it leaves out that host alone, unless the controller or most hosts say so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from slurmfab.base.errors import SlurmfabError
from slurmfab.base.grouping import grouped
from slurmfab.base.objections import Objection, outweighs
from slurmfab.cluster.inventory import hostnames
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import HostLock, Lock
from slurmfab.commands.import_cluster.found import FoundCluster, Takeover
from slurmfab.commands.import_cluster.old_cluster import OldCluster, short
from slurmfab.commands.import_cluster.refusals import Refused


def hear(found: FoundCluster, survey: Callable[[FoundCluster], Takeover]) -> tuple[FoundCluster, Takeover]:
    """A cluster without the hosts on whose word alone its survey would refuse it, and what the survey makes of it.

    Raises SlurmfabError: the refusal, if it rests on the word of the controller, of most hosts, or of several together.
    """
    all_hosts = [*found.hosts]
    while True:
        try:
            return found, survey(found)
        except SlurmfabError as error:
            told = grouped(
                pair for one in error.objections for pair in one.blamed(found.controller, len(all_hosts)).items()
            )
            blamed = {host: " ".join(dict.fromkeys(reasons)) for host, reasons in told.items()}
            blamed = blamed or culprits(found, survey)
            if not blamed or outweighs({**found.doubted, **blamed}, found.controller, len(all_hosts)):
                raise
            found = without(found, blamed)


def culprits(found: FoundCluster, survey: Callable[[FoundCluster], Takeover]) -> dict[str, str]:
    """The hosts beside each of which even the controller alone is refused, with reasons; empty if it is anyhow."""

    def refused(hosts: Sequence[str]) -> Iterator[tuple[str, str]]:
        try:
            survey(without(found, dict.fromkeys((host for host in others if host not in hosts), "")))
        except SlurmfabError as error:
            half = len(hosts) // 2
            if len(hosts) > 1:
                yield from refused(hosts[:half])
                yield from refused(hosts[half:])
            else:
                reasons = error.reasons if isinstance(error, Refused) else str(error).splitlines()
                yield hosts[0] if hosts else found.controller, " ".join(reasons).removeprefix(f"{''.join(hosts)}: ")

    others = [host for host in found.hosts if host != found.controller]
    return {} if any(refused(())) else dict(refused(others))


def without(found: FoundCluster, hosts: Mapping[str, str]) -> FoundCluster:
    """A cluster as if some hosts had not answered. `hosts`: they, each with the reason."""
    return replace(
        found,
        hosts={host: files for host, files in found.hosts.items() if host not in hosts},
        facts={host: fact for host, fact in found.facts.items() if host not in hosts},
        unreachable={**found.unreachable, **hosts},
        doubted={**found.doubted, **hosts},
    )


def misnamed(old: OldCluster, cluster: Cluster) -> Iterator[Objection]:
    """Yield the hosts that take a name of another machine; what slurm.conf of the controller calls a host stays."""
    facts, controller = old.found.facts, old.found.controller
    if why := hostnames.unfit(facts[controller].hostname):
        name = facts[controller].hostname
        yield Objection((controller,), f"it calls itself {name}, which {why}. hostnamectl set-hostname NAME.")
    own = {host: short(host) for host in facts}
    own |= {node: short(old.node_setting(node, "nodehostname") or node) for node in old.nodes}
    own[controller] = facts[controller].hostname
    borne = {
        host: name for host, name in own.items() if host not in facts or facts[host].hostname.lower() == name.lower()
    }
    known = Lock(hosts={host: HostLock(hostname=name) for host, name in borne.items()})
    for host, reason in hostnames.taken(cluster, known, facts).items():
        yield Objection((host,), reason)
