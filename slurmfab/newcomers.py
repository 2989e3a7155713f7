"""Hosts that no cluster file knows yet: met for the first time, named, and given an address."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from slurmfab.asking import CARED_FOR, ask_facts
from slurmfab.errors import HostError, HostKeyUnknown, InputError, PythonMissing, SlurmfabError
from slurmfab.facts import HostFacts
from slurmfab.hostlist import Endpoint, expand_endpoints, fold
from slurmfab.ssh.fan_out import on_each
from slurmfab.ssh.host_keys import PinnedKey, fingerprint, known_keys, spelled
from slurmfab.ssh.route import Route, to_host
from slurmfab.ssh.transport import SshTransport

if TYPE_CHECKING:
    from slurmfab.cluster import Ssh

Answer = TypeVar("Answer")

NO_NAMES = ("localhost", "debian", "ubuntu", "")
"""What freshly installed machines call themselves, which tells none from another."""


@dataclass(frozen=True)
class Newcomer:
    """A host that was met for the first time.

    Args:
        name: what the cluster will call it.
        address: its address in the cluster.
        endpoint: where SSH goes, as `user@address:port`, if that is somewhere else; empty otherwise.
        facts: what it said.
        host_key: the key that it showed, as (type, base64).
    """

    name: str
    address: str
    endpoint: str
    facts: HostFacts
    host_key: tuple[str, str]


@dataclass(frozen=True)
class Meeting:
    """Who was met and who was not.

    Args:
        newcomers: in the order in which the user named them.
        lost: those that did not answer, and why, by what the user typed.
        password: the sudo password that was asked for, for the connections that follow; never shown.
    """

    newcomers: tuple[Newcomer, ...]
    lost: Mapping[str, HostError]
    password: str = ""

    def __repr__(self) -> str:
        return f"Meeting({', '.join(newcomer.name for newcomer in self.newcomers)})"


def meet(
    hostlist: str,
    ssh: Ssh,
    *,
    accept_new: bool,
    ask_password: Callable[[], str] | None,
    progress: Callable[[str], None],
    refuse: Callable[[Mapping[str, HostError]], None],
    names: Mapping[str, tuple[str, ...]] = CARED_FOR,
) -> Meeting:
    """Connect to hosts that nobody knows yet and ask them who they are.

    Args:
        hostlist: Slurm's hostlist of names, addresses or `user@address:port`.
        ssh: user, key, gateway and so on.
        accept_new: whether host keys that nobody has vouched for are believed.
        ask_password: asks for the sudo password.
        progress: told a line now and then.
        refuse: raises an error if one cannot go on without the hosts that it is given.
        names: the users, groups and so on that they shall tell of.

    Raises:
        InputError: it is no hostlist, host keys are unknown and not to be accepted, or names cannot be told apart.
    """
    endpoints = {text_of(one): one for one in expand_endpoints(hostlist)}
    routes = {text: route_to(text, endpoint, ssh) for text, endpoint in endpoints.items()}
    policies = {text: policy(text, endpoints[text], way, accept_new=accept_new) for text, way in routes.items()}
    transport = SshTransport(routes, policies, ask_password)
    try:
        facts, lost = introduce_all(transport, refuse, names)
        called = name_all({text: (endpoints[text], fact) for text, fact in facts.items()})
        newcomers = tuple(
            newcomer(called[text], endpoints[text], routes[text], one, transport, policies[text], ssh)
            for text, one in facts.items()
        )
    finally:
        transport.close()
    for one in (one for text, one in zip(facts, newcomers, strict=True) if not policies[text].pinned):
        progress(f"{one.name}: accepted its host key {one.host_key[0]} {fingerprint(one.host_key[1])}.")
    return Meeting(newcomers, lost, transport.password)


def introduce_all(
    transport: SshTransport,
    refuse: Callable[[Mapping[str, HostError]], None],
    names: Mapping[str, tuple[str, ...]] = CARED_FOR,
) -> tuple[dict[str, HostFacts], dict[str, HostError]]:
    """The facts of all hosts behind a transport, and why the others are lost.

    Nobody is asked anything, and no python3 is installed, before all connections are made and judged.

    Raises:
        InputError: host keys are unknown; or what `refuse` raises.
    """
    lost = on_all(transport.routes, transport.connection)[1]
    refuse_unknown_keys(lost)
    refuse(lost)
    connected = [text for text in transport.routes if text not in lost]
    facts, silent = on_all(connected, lambda text: introduce(transport, text, names))
    lost = {text: error for text in transport.routes if (error := lost.get(text) or silent.get(text))}
    refuse(lost)
    return facts, lost


def on_all(hosts: Iterable[str], function: Callable[[str], Answer]) -> tuple[dict[str, Answer], dict[str, HostError]]:
    """What a function returns for each host, and the errors of the others; both in the order of the hosts.

    Raises:
        SlurmfabError: an error that is not about one host.
    """
    named = tuple(hosts)
    answers: dict[str, Answer] = {}
    lost: dict[str, HostError] = {}
    for host, answer in on_each(named, function):
        if isinstance(answer, HostError):
            lost[host] = answer
        elif isinstance(answer, SlurmfabError):
            raise answer
        else:
            answers[host] = answer
    return (
        {host: answers[host] for host in named if host in answers},
        {host: lost[host] for host in named if host in lost},
    )


def introduce(transport: SshTransport, text: str, names: Mapping[str, tuple[str, ...]] = CARED_FOR) -> HostFacts:
    """A host's facts, with python3 installed first where there is none."""
    try:
        return ask_facts(transport, text, with_secrets=False, names=names)
    except PythonMissing:
        transport.install_python(text)
        return ask_facts(transport, text, with_secrets=False, names=names)


def text_of(endpoint: Endpoint) -> str:
    """An endpoint as a user would type it."""
    user = f"{endpoint.user}@" if endpoint.user else ""
    port = f":{endpoint.port}" if endpoint.port else ""
    return f"{user}{endpoint.address}{port}"


def route_to(text: str, endpoint: Endpoint, ssh: Ssh) -> Route:
    """The way to an endpoint, with what ssh_config says of its name."""
    said = ssh.model_copy(update={"endpoints": {endpoint.address: text}} if endpoint.user or endpoint.port else {})
    return to_host(endpoint.address, said)


def policy(text: str, endpoint: Endpoint, route: Route, *, accept_new: bool) -> PinnedKey:
    """What holds the host keys that the user's or the system's known_hosts have for an endpoint."""
    names = {spelled(endpoint.address, route.port), spelled(route.address, route.port)}
    return PinnedKey(text, known_keys(names), accept_new=accept_new)


def refuse_unknown_keys(lost: Mapping[str, HostError]) -> None:
    """Show all host keys that nobody has vouched for, and stop.

    Raises:
        InputError: there are some.
    """
    unknown = [error for error in lost.values() if isinstance(error, HostKeyUnknown)]
    if unknown:
        keys = "\n".join(f"  {error.host}: {error.key_type} {error.fingerprint}" for error in unknown)
        raise InputError(
            f"Nobody has vouched for these SSH host keys yet:\n{keys}\nCompare them with the hosts' consoles "
            "(ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub), then say --accept-new-host-keys."
        )


def name_all(met: Mapping[str, tuple[Endpoint, HostFacts]]) -> dict[str, str]:
    """What the cluster will call each host: the name that the user typed, or for an address the host's own.

    Raises:
        InputError: two hosts have one name, or a host has none that tells it from others.
    """
    names = {
        text: fact.hostname if is_address(endpoint.address) else endpoint.address.split(".")[0]
        for text, (endpoint, fact) in met.items()
    }
    bad = [text for text, name in names.items() if name in NO_NAMES]
    if bad:
        raise InputError(
            f"{', '.join(bad)}: the host calls itself {names[bad[0]] or 'nothing'!r}, which no node can be "
            "called. Give it a name: hostnamectl set-hostname NAME."
        )
    twice = {name for name, count in Counter(names.values()).items() if count > 1}
    if twice:
        hosts = ", ".join(text for text, name in names.items() if name in twice)
        raise InputError(
            f"{hosts}: these hosts are all called {fold(twice)}. Give each a name of its own: "
            "hostnamectl set-hostname NAME."
        )
    return names


def is_address(text: str) -> bool:
    """Whether the user typed an IP address rather than a name."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def newcomer(  # noqa: PLR0917 - all that is known of one host
    name: str, endpoint: Endpoint, route: Route, facts: HostFacts, transport: SshTransport, policy: PinnedKey, ssh: Ssh
) -> Newcomer:
    """A host that was met, with the address that other hosts will know it by.

    That is the one that SSH went to, unless SSH goes through a gateway by name or through a forwarded port of this
    machine; then it is the host's own.
    """
    assert policy.shown is not None, "a connection was made, so a key was shown"
    address = reached(route, transport, endpoint)
    if not address:
        if not facts.addresses:
            raise InputError(f"{name}: it has no address that other hosts could reach. Configure its network first.")
        address = facts.addresses[0]
    is_elsewhere = is_address(route.address) and address != route.address
    explicit = (endpoint.user and endpoint.user != ssh.user) or endpoint.port or is_elsewhere
    return Newcomer(name, address, text_of(endpoint) if explicit else "", facts, policy.shown)


def reached(route: Route, transport: SshTransport, endpoint: Endpoint) -> str:
    """The IP address at the other end of a host's connection, empty where that says nothing about the cluster."""
    if route.gateway or route.proxy_command:
        return endpoint.address if is_address(endpoint.address) else ""
    peer = str(transport.connection(route_key(transport, route)).transport.sock.getpeername()[0])
    return "" if ipaddress.ip_address(peer).is_loopback else peer


def route_key(transport: SshTransport, route: Route) -> str:
    """What a transport calls the host at the end of a route."""
    return next(text for text, known in transport.routes.items() if known is route)
