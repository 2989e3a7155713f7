"""Connections to the hosts of a cluster of which most are only known once the first ones have told of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slurmfab.base.errors import HostError, HostFailed, HostKeyChanged, InputError
from slurmfab.base.hostlist import Endpoint
from slurmfab.base.ip_addresses import canonical, is_here
from slurmfab.cluster.facts import HostFacts
from slurmfab.commands.nodes import discovery
from slurmfab.commands.nodes.discovery import DiscoveredHost
from slurmfab.core.engine.requests import FACT_SELECTION
from slurmfab.hosts.host_keys import PinnedKey
from slurmfab.hosts.route import Route, ssh_config, to_host
from slurmfab.hosts.session import answer_value
from slurmfab.hosts.transport import SshTransport

if TYPE_CHECKING:
    from slurmfab.cluster.inventory.cluster import Ssh


@dataclass(frozen=True)
class Target:
    """A host that SSH shall reach."""

    name: str  # as the user typed it, or as slurm.conf names it
    endpoint: Endpoint  # where SSH connects to
    route: Route  # the same, with the settings of ssh_config


def typed_target(endpoint: Endpoint, ssh: Ssh) -> Target:
    """A host that the user has named. `endpoint`: where it is, as typed."""
    text = discovery.text_of(endpoint)
    return Target(text, endpoint, discovery.route_to(text, endpoint, ssh))


def found_target(name: str, address: str, ssh: Ssh) -> Target:
    """A host that slurm.conf names: ssh_config says where it is, or else the address that is known."""
    is_configured = str(ssh_config().lookup(name).get("hostname", name)) != name
    route = to_host(name, ssh, "" if is_configured else address)
    return Target(name, Endpoint(route.address), route)


class Contact:
    """Connections to hosts, more of which can be met one after the other; use it in a `closing` block.

    `targets` are the hosts that were tried, `facts` and `failed` those that answered or did not, by name.
    """

    def __init__(self, ssh: Ssh, *, accept_new: bool, ask_password: Callable[[], str] | None) -> None:
        self.ssh = ssh
        self.accept_new = accept_new
        self.transport = SshTransport({}, {}, ask_password)
        self.targets: dict[str, Target] = {}
        self.facts: dict[str, HostFacts] = {}
        self.failed: dict[str, HostError] = {}

    def close(self) -> None:
        """Close all connections."""
        self.transport.close()

    def meet(self, targets: Iterable[Target]) -> None:
        """Get the facts of hosts, changing nothing; InputError for unknown host keys, unless new ones are accepted."""
        new = {one.name: one for one in targets if one.name not in self.facts}
        self.targets |= new
        for name, one in new.items():
            self.transport.routes[name] = one.route
            self.transport.policies[name] = discovery.policy(name, one.route, accept_new=self.accept_new)
        unconnected = discovery.on_all(new, self.transport.connection)[1]
        discovery.refuse_unknown_keys(unconnected)
        facts, silent = discovery.on_all(
            (name for name in new if name not in unconnected),
            lambda name: discovery.ask_new(self.transport, name, FACT_SELECTION),
        )
        self.facts |= facts
        self.failed |= {**unconnected, **silent}
        self.failed = {name: error for name, error in self.failed.items() if name not in self.facts}

    def meet_named(self, places: Mapping[str, str], by: str) -> None:
        """The same of hosts that another host names; no name of its is looked up here.

        `places`: by name, the address that it knows, or empty. `by`: the other host. InputError if an address is this
        machine's, which is a host only if the user names it.
        """
        targets = {name: found_target(name, address, self.ssh) for name, address in places.items()}
        for name, one in targets.items():
            if one.route.address == places[name] and self.is_here(places[name], one.route):
                raise InputError(
                    f"{by} names {name} at {places[name]}, which is this machine, on which slurmfab runs. It was not "
                    f"asked, and nothing was written. If it is a host of the cluster, name it, too: --hosts "
                    f"{by},localhost. Otherwise correct its address there."
                )
        unknown = {name for name, one in targets.items() if one.route.address == name and not places[name]}
        self.meet(one for name, one in targets.items() if name not in unknown)
        self.targets |= targets
        self.failed |= {name: HostFailed(name, f"{by} knows no address of it, nor does ssh_config") for name in unknown}

    @staticmethod
    def is_here(address: str, way: Route) -> bool:
        """Whether an address leads to this machine on the way to a host."""
        return not (way.gateway or way.proxy_command) and is_here(address)

    def hostname(self, host: str) -> str:
        """The name that a host that was met gives itself, in lower case."""
        return self.facts[host].hostname.lower()

    def ask(self, hosts: Iterable[str], operation: str, **fields: Any) -> Mapping[str, Any]:
        """Ask met hosts one of `slurmfab.on_hosts.agent.main.MODULE_OF`; silent ones are in `failed`, without facts."""
        request, key = {"op": operation, **fields}, operation.replace("-", "_")
        answers, failed = discovery.on_all(
            hosts, lambda host: answer_value(host, self.transport.call(host, request), key)
        )
        self.failed |= failed
        self.facts = {name: fact for name, fact in self.facts.items() if name not in failed}
        return answers

    def host_of(self, names: Iterable[str]) -> str:
        """The host that was met and has one of these names (lower case, no domain) or addresses; empty for none.

        Where SSH has met it counts before what hosts say of themselves.
        """
        wanted = set(filter(None, names))
        met = {name: canonical(self.targets[name].route.address.lower()) for name in self.facts}
        told = {name: {one.hostname.lower(), *map(canonical, one.addresses)} for name, one in self.facts.items()}
        found = [name for name, address in met.items() if address in wanted]
        found += [name for name, own in told.items() if wanted & own]
        return found[0] if found else ""

    def is_elsewhere(self, name: str, address: str) -> bool:
        """Whether another machine than a host that was met answers at an address, which that host says is its own.

        The SSH host key that it has shown tells. Where nothing answers, as behind a gateway, or this machine has the
        same address, its word counts.
        """
        shown = self.transport.policies[name].shown if name in self.transport.policies else None
        way = self.targets[name].route
        if shown is None or canonical(way.address.lower()) == canonical(address) or self.is_here(address, way):
            return False
        probe = f"{name} at {address}"
        self.transport.routes[probe] = found_target(address, address, self.ssh).route
        self.transport.policies[probe] = PinnedKey(probe, {shown.kind: shown.base64})
        failed = discovery.on_all([probe], self.transport.connection)[1]
        return isinstance(failed.get(probe), HostKeyChanged)

    def is_one(self, name: str, other: str) -> bool:
        """Whether two names are one running host: each knows the SSH host key that the other has shown as its own.

        A boot alone is a word of the host's, which another host may say after it.
        """
        one, another = self.facts[name], self.facts[other]
        shown, others = self.transport.policies[name].shown, self.transport.policies[other].shown
        return bool(
            one.boot
            and one.boot == another.boot
            and shown
            and others
            and shown.base64 in another.ssh_host_keys.values()
            and others.base64 in one.ssh_host_keys.values()
        )

    def as_discovered(self, name: str, member: str) -> DiscoveredHost:
        """A host that was met, under another name; InputError if it has no address for others."""
        target, policy = self.targets[name], self.transport.policies[name]
        return discovery.discovered(
            member, target.endpoint, target.route, self.facts[name], self.transport, policy, self.ssh
        )

    @property
    def unpinned(self) -> tuple[str, ...]:
        """The hosts that were met whose SSH host keys nobody vouched for."""
        return tuple(name for name in self.facts if not self.transport.policies[name].pinned)
