"""Checks of the network: hosts reach the daemons that they need, so no firewall is between them; strangers do not."""

from __future__ import annotations

import ipaddress
import re
import shlex
from collections.abc import Collection, Mapping, Sequence

import pytest

from slurmfab.base.ip_addresses import Address, parsed
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.firewall import MANAGED
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.inventory.ports import Ports, Target, needed, of_host, port, ring, srun_ports
from slurmfab.cluster.inventory.trusted_addresses import of_host as of_addresses
from slurmfab.cluster.slurm.software import FIREWALLD
from slurmfab.commands.checks.applies import DoesNotApply, foundation
from slurmfab.commands.checks.daemons import listening_ports
from slurmfab.commands.checks.hosts import CheckedHost, last_words
from slurmfab.commands.checks.wanted import deploy
from slurmfab.on_hosts.agent.files.firewalld_zone import ZONE, let_in

SECONDS = 4  # how long a connection may take within a cluster

TRY = (
    f'try() {{ out=$(timeout {SECONDS} bash -c \'exec 3<>/dev/tcp/$0/$1\' "$2" "$3" 2>&1); '
    'echo "$1 $3 $? ${out##*: }"; }; '
)
"""Defines a function of name, address and port that prints name, port, exit code, and the last words of the error."""

ANSWER = re.compile(r"^(\S+) (\d+) (\d+) ?(.*)$", re.MULTILINE)  # a line of that function
NO_ANSWER = 124  # exit code of timeout(1) if the command did not end
REFUSED = "refused"  # part of the error if nothing listens there; a firewall can say the same


@foundation
def test_node_reaches_slurmctld(node: CheckedHost, cluster: Cluster, others: Mapping[str, CheckedHost]) -> None:
    """the node can connect to slurmctld, and to srun if slurm.conf sets SrunPortRange"""
    failed = failures(node, cluster, ring_of(cluster, others))
    number = port(cluster, "SlurmctldPort")
    for target, why in failed.items():
        if target.port == number and target.host in cluster.controllers and is_open(others, target, "slurmctld"):
            raise AssertionError(blocked(node.name, target, "slurmctld", str(number), why))
    ports = srun_ports(cluster)
    for target, why in failed.items():
        # srun listens only while it runs, so a refusal proves nothing.
        if ports and target.daemon == "srun" and REFUSED not in why:
            raise AssertionError(blocked(node.name, target, "srun", "-".join(map(str, ports)), why))


@foundation
def test_controller_reaches_slurmd(node: CheckedHost, cluster: Cluster, others: Mapping[str, CheckedHost]) -> None:
    """the controllers can connect to slurmd on the node"""
    starts = [name for name in cluster.controllers if name != node.name]
    if not starts:
        raise DoesNotApply("the node is the only controller")
    target = Target(node.name, port(cluster, "SlurmdPort", node.name), "slurmd")
    if not is_open(others, target, "slurmd"):
        pytest.skip(f"slurmd does not listen on {node.name}.")
    for start in (others[name] for name in starts if name in others):
        # Of many nodes the first ones are tried at once, and each of the others by itself.
        why = failures(start, cluster, ring_of(cluster, others), target).get(target)
        assert not why, blocked(start.name, target, "slurmd", str(target.port), why or "")


@foundation
def test_node_is_reached_by_others(node: CheckedHost, cluster: Cluster, others: Mapping[str, CheckedHost]) -> None:
    """another host can connect to slurmd on the node"""
    if set(cluster.hosts) == {node.name}:
        raise DoesNotApply("there is no other host")
    starts = ring_of(cluster, others)
    target = Target(node.name, port(cluster, "SlurmdPort", node.name), "slurmd")
    if node.name not in starts or starts[node.name] not in others:
        pytest.skip("no other host is there to try it.")
    if not is_open(others, target, "slurmd"):
        pytest.skip(f"slurmd does not listen on {node.name}.")
    if starts[node.name] in cluster.controllers:
        raise DoesNotApply("the controller alone connects to it, of which another check tells")
    start = others[starts[node.name]]
    why = failures(start, cluster, starts).get(target)
    assert not why, blocked(start.name, target, "slurmd", str(target.port), why or "")


def test_services_are_reached(host: CheckedHost, cluster: Cluster, others: Mapping[str, CheckedHost]) -> None:
    """the host can connect to slurmdbd, to file servers, to the registry and to exporters, as far as it needs them"""
    start, served = ring_of(cluster, others), {"slurmdbd", "NFS", "registry", "node exporter"}
    if not any(one.daemon in served for one in needed(cluster, host.name, start)):
        raise DoesNotApply("it needs no such service of another host")
    for target, why in failures(host, cluster, start).items():
        # Whether these daemons listen, other checks tell.
        if target.daemon in served and target.host in others and REFUSED not in why:
            raise AssertionError(blocked(host.name, target, target.daemon, str(target.port), why))


def test_strangers_are_kept_out(host: CheckedHost, cluster: Cluster, lock: Lock) -> None:
    """with firewall: managed, nftables has slurmfab's rules, or firewalld its zone: hosts are let in, others are not"""
    if cluster.firewall is None or cluster.firewall.mode != MANAGED:
        raise DoesNotApply("the cluster file does not ask for it")
    if host.service(FIREWALLD).is_running:
        refuse_without_zone(host, cluster, lock)
        return
    found = host.run("nft list table inet slurmfab")
    assert found.rc == 0, f"{host.name} has no rules of slurmfab's: {last_words(found)}. Repair: {deploy(host.name)}"
    rules = [re.sub("[{},]", " ", line).split() for line in found.stdout.splitlines()]
    closed = {word for rule in rules if "reject" in rule for word in rule}
    lets_in = {word for rule in rules if rule[-1:] == ["accept"] and "dport" not in rule for word in rule}
    open_to_all = [one for one in of_host(cluster, host.name) if not is_among(one, closed)]
    assert not open_to_all, (
        f"everybody reaches {open_to_all[0].daemon} on {host.name}, port {open_to_all[0].first}: no rule closes it. "
        f"Repair: {deploy(host.name)}"
    )
    shut_out = [name for name in lock.hosts if name in cluster.hosts and not is_let_in(cluster, lock, name, lets_in)]
    assert not shut_out, f"the rules on {host.name} do not let {shut_out[0]} in. Repair: {deploy(host.name)}"
    assert host.service("slurmfab-firewall").is_enabled, (
        f"the rules of {host.name} are gone after its next boot: slurmfab-firewall is not enabled. Repair: "
        f"{deploy(host.name)}"
    )


def refuse_without_zone(host: CheckedHost, cluster: Cluster, lock: Lock) -> None:
    """Refuse, by AssertionError, a firewalld that does not let the cluster's hosts in, now or after its next start."""
    for words, when in (("", ""), ("--permanent ", " after its next start")):
        lets_in = let_in(host.run(f"firewall-cmd {words}--info-zone={ZONE}").stdout)
        shut_out = [one for one in lock.hosts if one in cluster.hosts and not is_let_in(cluster, lock, one, lets_in)]
        assert not shut_out, (
            f"firewalld on {host.name} does not let {shut_out[0]} in{when}. Repair: {deploy(host.name)}"
        )


def is_among(ports: Ports, words: Collection[str]) -> bool:
    """Whether some ports are among those of a rule, of which nft shows neighbours as one range."""
    spans = [tuple(map(int, word.split("-"))) for word in words if re.fullmatch(r"\d+(-\d+)?", word)]
    return any(span[0] <= ports.first and ports.last <= span[-1] for span in spans)


def is_let_in(cluster: Cluster, lock: Lock, name: str, words: Collection[str]) -> bool:
    """Whether all addresses of a host that others trust are among those of a rule."""
    spans = [bounds(word) for word in words if {".", ":"} & set(word)]
    addresses = map(parsed, of_addresses(cluster, lock.hosts[name], name))
    return all(
        any(first.version == one.version and int(first) <= int(one) <= int(last) for first, last in spans)
        for one in addresses
    )


def bounds(word: str) -> tuple[Address, Address]:
    """The first and the last address of an address, a network or a range, as nft shows them."""
    first, _, last = word.partition("-")
    network = ipaddress.ip_network(first)
    return network[0], parsed(last) if last else network[-1]


def ring_of(cluster: Cluster, others: Mapping[str, CheckedHost]) -> dict[str, str]:
    """The host that connects to each compute node, among the reachable hosts."""
    return ring([name for name in cluster.compute_nodes if name in others], cluster.controller)


def is_open(others: Mapping[str, CheckedHost], target: Target, daemon: str) -> bool:
    """Whether a daemon listens; if it does not, or if that cannot be seen, another check reports it."""
    if target.host not in others:
        return False
    host = others[target.host]
    return bool(host.service(daemon).is_running) and target.port in listening_ports(host)


def blocked(start: str, target: Target, daemon: str, ports: str, why: str) -> str:
    """The message about a connection that fails although its port is open, or would be."""
    return (
        f"{start} cannot connect to {daemon} on {target.host}, port {target.port} ({why}): a firewall is between them. "
        f"Repair: let the cluster's hosts reach TCP port {ports} on {target.host} (nft list ruleset there shows its "
        "rules)"
    )


def failures(
    host: CheckedHost, cluster: Cluster, ring: Mapping[str, str], besides: Target | None = None
) -> dict[Target, str]:
    """The connections of a host that fail, in its words, asked once by one command; with one that may be no such."""
    targets = needed(cluster, host.name, ring)
    if besides and besides not in targets:
        targets = (besides,)
    if not targets:
        return {}
    places = [(one, one.address or cluster.addresses.get(one.host, one.host)) for one in targets]
    answers = ANSWER.findall(host.as_found.ask(script(places)))
    found = {(name, int(number)): reason(int(code), error) for name, number, code, error in answers}
    return {target: why for target in targets if (why := found.get((target.host, target.port), "no result"))}


def script(targets: Sequence[tuple[Target, str]]) -> str:
    """The shell text that tries all connections at the same time; each target with its address."""
    tries = (f"try {shlex.join((target.host, address, str(target.port)))} &" for target, address in targets)
    return f"{TRY}{' '.join(tries)} wait"


def reason(code: int, error: str) -> str:
    """Why a connection failed; empty if it did not. `error`: the last words of its error output."""
    if code == NO_ANSWER:
        return f"no answer within {SECONDS} s"
    return (error.strip() or f"exit code {code}") if code else ""
