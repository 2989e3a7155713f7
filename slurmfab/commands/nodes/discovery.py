"""Discovery of hosts that are not in a cluster file yet: their facts, host keys, names and addresses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

from slurmfab.base.errors import HostError, HostKeyUnknown, InputError, PythonMissing, SlurmfabError
from slurmfab.base.hostlist import Endpoint, expand_endpoints, fold
from slurmfab.base.ip_addresses import NO_ADDRESS, canonical, family, in_url, is_link_local, parsed
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory.hostnames import RESERVED, unfit
from slurmfab.core.engine import session
from slurmfab.core.engine.requests import FACT_SELECTION, ask_facts
from slurmfab.hosts.connection import transport_of
from slurmfab.hosts.fan_out import on_each
from slurmfab.hosts.host_keys import PinnedKey, known_host
from slurmfab.hosts.known_hosts import HostKey, fingerprint
from slurmfab.hosts.route import Route, to_host, with_relays
from slurmfab.hosts.transport import SshTransport

if TYPE_CHECKING:
    from slurmfab.cluster.inventory.cluster import Ssh
    from slurmfab.cluster.inventory.loading import Inventory

Result = TypeVar("Result")

WAY = attrgetter("user", "port", "keys", "gateway", "proxy_command")
"""What two routes to one address may differ in."""

DEFAULT_HOSTNAMES = ("localhost", "debian", "ubuntu", "")
"""Hostnames of freshly installed machines; they do not tell one machine from another."""


@dataclass(frozen=True)
class DiscoveredHost:
    """A host that is not in the cluster file yet, and answered over SSH."""

    name: str
    address: str
    endpoint: str  # where SSH connects to, as `user@address:port`, if that differs from `address`; else empty
    facts: HostFacts  # the facts that it reported
    host_key: HostKey  # the SSH host key that it showed


@dataclass(frozen=True)
class Discovery:
    """The result of a discovery: the hosts that answered, and the errors of the others."""

    discovered_hosts: tuple[DiscoveredHost, ...]  # the hosts that answered, in the order in which the user named them
    failed_hosts: Mapping[str, HostError]  # the errors of hosts that did not answer, by host as the user typed it
    password: str = ""  # the sudo password that the user typed, for the connections that follow; never shown

    @property
    def without_python(self) -> tuple[str, ...]:
        """Hosts, as the user typed them, that lack python3 and got none."""
        return tuple(host for host, error in self.failed_hosts.items() if isinstance(error, PythonMissing))

    @property
    def lost_hosts(self) -> Mapping[str, HostError]:
        """The errors of hosts that failed for another reason, by host as the user typed it."""
        return {host: error for host, error in self.failed_hosts.items() if host not in self.without_python}

    def __repr__(self) -> str:
        return f"Discovery({', '.join(discovered.name for discovered in self.discovered_hosts)})"


def discover(
    hostlist: str,
    ssh: Ssh,
    *,
    accept_new: bool,
    ask_password: Callable[[], str] | None,
    progress: Callable[[str], None],
    refuse: Callable[[Mapping[str, HostError]], None],
    names: Mapping[str, tuple[str, ...]] = FACT_SELECTION,
    judge: Callable[[Mapping[str, HostFacts]], object] = lambda _: None,
    may_install: Callable[[Sequence[str]], bool] = lambda _: True,
    known: Inventory | None = None,
) -> Discovery:
    """Connect to hosts (`user@address:port`) that are in no cluster file, and gather their facts.

    `refuse`: gets the errors of silent hosts; raises if the others are not enough. `names`: users, groups, units and
    packages of the facts. `judge`: gets the facts of hosts with python3 first, and may raise. `may_install`: says
    whether the others get it. Raises InputError for no hostlist, refused host keys, or two hosts of one name.
    """
    endpoints = {text_of(one): one for one in expand_endpoints(hostlist)}
    routes = {text: route_to(text, one, ssh) for text, one in endpoints.items()}
    relays = session.relay_policies(known) if known else {}
    if known:
        routes = with_relays({text: (endpoints[text].address, way) for text, way in routes.items()}, known.cluster)
    policies = {text: policy(text, way, accept_new=accept_new) for text, way in routes.items()}
    with closing(SshTransport(routes, {**relays, **policies}, ask_password, tell=progress)) as transport:
        facts, failed_hosts = introduce_all(transport, refuse, names, judge, may_install)
        named = name_all({text: (endpoints[text], fact) for text, fact in facts.items()}).items()
        met = {
            text: discovered(name, endpoints[text], routes[text], facts[text], transport, policies[text], ssh)
            for text, name in named
        }
    tell_accepted([one for text, one in met.items() if not policies[text].pinned], progress)
    return Discovery(tuple(met.values()), failed_hosts, transport.sudo.known)


def tell_accepted(hosts: Iterable[DiscoveredHost], progress: Callable[[str], None]) -> None:
    """Print the host keys that nobody vouched for, with their fingerprints."""
    for one in hosts:
        progress(f"{one.name}: accepted its host key {one.host_key.kind} {fingerprint(one.host_key.base64)}.")


def introduce_all(
    transport: SshTransport,
    refuse: Callable[[Mapping[str, HostError]], None],
    names: Mapping[str, tuple[str, ...]] = FACT_SELECTION,
    judge: Callable[[Mapping[str, HostFacts]], object] = lambda _: None,
    may_install: Callable[[Sequence[str]], bool] = lambda _: True,
) -> tuple[dict[str, HostFacts], dict[str, HostError]]:
    """Gather the facts of all hosts of a transport, and the errors of the others, by host; arguments: `discover`.

    All connections are made first, and hosts with python3 are asked first. So nothing is installed on any host if a
    host key is unknown (InputError), or if `refuse` or `judge` stops.
    """
    failed_hosts = on_all(transport.routes, transport.connection)[1]
    refuse_unknown_keys(failed_hosts)
    refuse(failed_hosts)
    connected = [text for text in transport.routes if text not in failed_hosts]
    facts, without_facts = on_all(connected, lambda text: ask_new(transport, text, names))
    bare = [text for text, error in without_facts.items() if isinstance(error, PythonMissing)]
    if bare and facts:
        judge(facts)
    willing = bare if bare and may_install(bare) else ()
    more, without_python = on_all(willing, lambda text: introduce(transport, text, names))
    facts |= more
    errors = {**failed_hosts, **without_facts, **without_python}
    failed_hosts = {text: errors[text] for text in transport.routes if text in errors and text not in facts}
    refuse(failed_hosts)
    return {text: facts[text] for text in connected if text in facts}, failed_hosts


def on_all(hosts: Iterable[str], function: Callable[[str], Result]) -> tuple[dict[str, Result], dict[str, HostError]]:
    """Call a function for all hosts at once; results, and errors of hosts, by host in their order."""
    named = tuple(hosts)
    results: dict[str, Result] = {}
    failed_hosts: dict[str, HostError] = {}
    for host, result in on_each(named, function):
        if isinstance(result, HostError):
            failed_hosts[host] = result
        elif isinstance(result, SlurmfabError):
            raise result
        else:
            results[host] = result
    return (
        {host: results[host] for host in named if host in results},
        {host: failed_hosts[host] for host in named if host in failed_hosts},
    )


def introduce(transport: SshTransport, text: str, names: Mapping[str, tuple[str, ...]] = FACT_SELECTION) -> HostFacts:
    """Gather a host's facts, installing python3 if need be; HostError if it is silent, or that fails."""
    try:
        return ask_new(transport, text, names)
    except PythonMissing:
        transport.install_python(text)
        return ask_new(transport, text, names)


def ask_new(transport: SshTransport, text: str, names: Mapping[str, tuple[str, ...]]) -> HostFacts:
    """Gather the facts of a host that is in no lock. Raises HostError if the host does not answer, or lacks python3."""
    return ask_facts(transport, text, with_secrets=False, names=names, is_new=True)


def text_of(endpoint: Endpoint) -> str:
    """An endpoint as a user would type it."""
    user = f"{endpoint.user}@" if endpoint.user else ""
    port = f":{endpoint.port}" if endpoint.port else ""
    return f"{user}{in_url(endpoint.address) if port else endpoint.address}{port}"


def route_to(text: str, endpoint: Endpoint, ssh: Ssh) -> Route:
    """The route to an endpoint, with the settings of ssh_config for its name as the user typed it."""
    options = ssh.model_copy(update={"endpoints": {endpoint.address: text}} if endpoint.user or endpoint.port else {})
    return to_host(endpoint.address, options)


def policy(text: str, route: Route, *, accept_new: bool) -> PinnedKey:
    """The policy that pins the host keys in the user's and the system's known_hosts for an endpoint.

    `text`: the endpoint as the user typed it, for messages. `route`: the route to it, whose address and port ssh_config
    may have set. `accept_new`: whether to trust a key that is not in known_hosts.
    """
    return PinnedKey(text, known_host(route).keys(), accept_new=accept_new)


def refuse_unknown_keys(failed_hosts: Mapping[str, HostError]) -> None:
    """Stop if any SSH host key is unknown, and show all unknown keys. Raises InputError if a key is unknown."""
    unknown = [error for error in failed_hosts.values() if isinstance(error, HostKeyUnknown)]
    if unknown:
        keys = "\n".join(f"  {error.host}: {error.key_type} {error.fingerprint}" for error in unknown)
        note = next((error.note for error in unknown if error.note), "")
        raise InputError(
            f"These SSH host keys are not in known_hosts or the lock:\n{keys}\n{note}Compare them with the hosts' "
            "consoles (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub), then add --accept-new-host-keys."
        )


def name_all(met: Mapping[str, tuple[Endpoint, HostFacts]]) -> dict[str, str]:
    """The name of each host in the cluster: as the user typed it, or the host's own for an address or `localhost`.

    `met`: endpoint and facts of each host, by host as the user typed it. Returns the names, by host as the user typed
    it. Raises InputError if two hosts have the same name, or the hostname is a default such as `localhost`.
    """
    names = {
        text: fact.hostname if tells_no_name(endpoint.address) else endpoint.address.split(".")[0]
        for text, (endpoint, fact) in met.items()
    }
    unusable = [text for text, name in names.items() if name in DEFAULT_HOSTNAMES or unfit(name)]
    if unusable:
        name = names[unusable[0]]
        raise InputError(
            f"{', '.join(unusable)}: the hostname is {name!r}, which {unfit(name) or 'cannot be the name of a node'}. "
            "Set another: hostnamectl set-hostname NAME."
        )
    shared = {name for name, count in Counter(names.values()).items() if count > 1}
    if shared:
        hosts = ", ".join(text for text, name in names.items() if name in shared)
        raise InputError(
            f"{hosts}: these hosts have the same name, {fold(shared)}. Set a different name on each: "
            "hostnamectl set-hostname NAME."
        )
    return names


def tells_no_name(text: str) -> bool:
    """Whether what the user typed is no name of the host: an IP address, or a name that every host has for itself."""
    return is_address(text) or text.partition(".")[0] in RESERVED


def is_address(text: str) -> bool:
    """Whether the user typed an IP address rather than a name."""
    return family(text) != NO_ADDRESS


def discovered(  # noqa: PLR0917 - everything that is known about one host
    name: str, endpoint: Endpoint, route: Route, facts: HostFacts, transport: SshTransport, policy: PinnedKey, ssh: Ssh
) -> DiscoveredHost:
    """A host that answered, with the address by which other hosts will reach it.

    The address is the one that SSH connected to. If SSH goes through a gateway by name, through a forwarded port of
    this machine, or to an address that is valid on one link only, it is the first address that the host reports.
    `route`: the same, with the settings of ssh_config. `facts`: the facts that the host reported. Raises InputError if
    the host has no address that other hosts could reach.
    """
    assert policy.shown is not None, "SSH is connected, so the host has shown a key"
    address = peer_address(route, transport, endpoint)
    if not address:
        if not facts.addresses:
            raise InputError(f"{name}: it has no address that other hosts could reach. Configure its network first.")
        address = facts.addresses[0]
    is_elsewhere = is_address(route.address) and address != canonical(route.address)
    # What ssh_config has for the name that the user typed would be lost with that name.
    is_named = endpoint.address in (name, address)
    is_alias = not is_named and WAY(to_host(endpoint.address, ssh)) != WAY(to_host(name, ssh, address))
    explicit = (endpoint.user and endpoint.user != ssh.user) or endpoint.port or is_elsewhere or is_alias
    return DiscoveredHost(name, address, text_of(endpoint) if explicit else "", replace(facts, name=name), policy.shown)


def peer_address(route: Route, transport: SshTransport, endpoint: Endpoint) -> str:
    """The IP address that a connection goes to; empty if other hosts could not reach the host by it."""
    if route.gateway or route.relays or route.proxy_command:
        peer = endpoint.address if is_address(endpoint.address) else ""
    else:
        peer = str(transport_of(transport.connection(route_key(transport, route))).sock.getpeername()[0])
    return "" if not peer or parsed(peer).is_loopback or is_link_local(peer) else canonical(peer)


def route_key(transport: SshTransport, route: Route) -> str:
    """The key of a route in a transport's table of routes."""
    return next(text for text, known in transport.routes.items() if known is route)
