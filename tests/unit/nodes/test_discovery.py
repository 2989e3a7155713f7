"""Discovery: the names of new hosts, and the addresses by which others reach them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import paramiko
import pytest
from support import FakeHosts, host_facts

from slurmfab.base.errors import HostKeyUnknown, InputError, Unreachable
from slurmfab.base.hostlist import expand_endpoints
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory.cluster import Ssh
from slurmfab.commands.nodes.discovery import (
    DiscoveredHost,
    Discovery,
    discovered,
    introduce_all,
    is_address,
    name_all,
    refuse_unknown_keys,
    text_of,
)
from slurmfab.hosts import route
from slurmfab.hosts.host_keys import HostKey, PinnedKey
from slurmfab.hosts.route import Route


def names(**hostnames: str) -> dict[str, str]:
    """The names of hosts, from what the user typed and from their hostnames."""
    met = {text.replace("_", "."): hostname for text, hostname in hostnames.items()}
    return name_all(
        {text: (expand_endpoints(text)[0], host_facts("", hostname=hostname)) for text, hostname in met.items()}
    )


@pytest.mark.parametrize("text", ["n1", "root@n1", "n1:2222", "admin@10.0.0.1:2222", "[fd83::1]:2222"])
def test_an_endpoint_is_written_as_it_was_typed(text: str) -> None:
    assert text_of(expand_endpoints(text)[0]) == text


@pytest.mark.parametrize(("text", "is_one"), [("10.0.0.1", True), ("fd00::1", True), ("n1", False), ("10.0.0", False)])
def test_ip_addresses_and_names_are_distinguished(text: str, is_one: bool) -> None:
    assert is_address(text) is is_one


def test_a_hosts_name_is_the_typed_one_without_its_domain() -> None:
    assert names(n1="other", n2_example_org="n2") == {"n1": "n1", "n2.example.org": "n2"}


@pytest.mark.parametrize("typed", ["10.0.0.7", "localhost", "127.0.0.1", "localhost.localdomain"])
def test_a_host_that_was_typed_as_an_address_or_localhost_gets_its_own_hostname(typed: str) -> None:
    assert name_all({typed: (expand_endpoints(typed)[0], host_facts("", hostname="n7"))}) == {typed: "n7"}


@pytest.mark.parametrize("hostname", ["localhost", "debian", "ubuntu", ""])
def test_a_default_hostname_is_refused_with_the_command_to_change_it(hostname: str) -> None:
    with pytest.raises(InputError, match="hostnamectl set-hostname"):
        name_all({"10.0.0.7": (expand_endpoints("10.0.0.7")[0], host_facts("", hostname=hostname))})


def test_two_hosts_with_the_same_name_are_refused() -> None:
    met = {text: (expand_endpoints(text)[0], host_facts("", hostname="n1")) for text in ("10.0.0.7", "10.0.0.8")}
    with pytest.raises(InputError, match=r"10\.0\.0\.7, 10\.0\.0\.8: these hosts have the same name, n1"):
        name_all(met)


def test_all_unknown_host_keys_are_shown_at_once_with_the_flag() -> None:
    lost = {host: HostKeyUnknown(host, "ssh-ed25519", "AAAA", f"SHA256:{host}") for host in ("n1", "n2")}
    with pytest.raises(InputError) as refused:
        refuse_unknown_keys({**lost, "n3": Unreachable("n3", "off.")})
    text = str(refused.value)
    assert "  n1: ssh-ed25519 SHA256:n1\n  n2: ssh-ed25519 SHA256:n2\n" in text
    assert "--accept-new-host-keys" in text
    assert "n3" not in text


def test_other_errors_are_not_reported_as_unknown_host_keys() -> None:
    refuse_unknown_keys({"n3": Unreachable("n3", "off.")})


@dataclass
class Peers:
    """A transport that has only the peer address of its connections."""

    routes: dict[str, Route]
    peer: str

    def get_transport(self) -> Peers:
        return self

    @property
    def sock(self) -> Peers:
        return self

    def connection(self, host: str) -> Peers:
        assert host in self.routes
        return self

    def getpeername(self) -> tuple[str, int]:
        return self.peer, 22


@dataclass
class Met:
    """A discovery of n1, for which SSH connected to this peer."""

    text: str
    peer: str = "10.0.0.7"
    ssh: Ssh = field(default_factory=Ssh)
    gateway: Route | None = None
    addresses: tuple[str, ...] = ("10.0.0.7", "192.168.0.7")

    def discovered(self) -> DiscoveredHost:
        endpoint = expand_endpoints(self.text)[0]
        route = Route(endpoint.address, endpoint.address, "admin", gateway=self.gateway)
        policy = PinnedKey(self.text, {})
        policy.shown = HostKey("ssh-ed25519", "AAAA")
        peers: Any = Peers({self.text: route}, self.peer)
        return discovered("n1", endpoint, route, host_facts("n1", addresses=self.addresses), peers, policy, self.ssh)


GATEWAY = Route("bastion", "bastion", "admin")


@pytest.mark.parametrize(
    ("met", "address", "endpoint"),
    [
        (Met("n1"), "10.0.0.7", ""),
        (Met("10.0.0.7"), "10.0.0.7", ""),
        (Met("n1", peer="192.168.0.7"), "192.168.0.7", ""),
        (Met("127.0.0.1:2201", peer="127.0.0.1"), "10.0.0.7", "127.0.0.1:2201"),
        (Met("eve@n1"), "10.0.0.7", "eve@n1"),
        (Met("admin@n1", ssh=Ssh(user="admin")), "10.0.0.7", ""),
        (Met("n1", gateway=GATEWAY, peer="127.0.0.1"), "10.0.0.7", ""),
        (Met("10.5.0.7", gateway=GATEWAY), "10.5.0.7", ""),
        (Met("fd83:0::7", peer="fd83::7"), "fd83::7", ""),
        (Met("[fd83:0::7]:22", gateway=GATEWAY), "fd83::7", "[fd83:0::7]:22"),
        (Met("fe80::7%eth0", peer="fe80::7%eth0"), "10.0.0.7", "fe80::7%eth0"),
        (Met("[fe80::7%eth0]:22", gateway=GATEWAY), "10.0.0.7", "[fe80::7%eth0]:22"),
    ],
)
def test_a_hosts_address_is_the_one_that_ssh_reached_or_its_own_behind_a_forwarded_port(
    met: Met, address: str, endpoint: str
) -> None:
    made = met.discovered()
    assert (made.address, made.endpoint, made.host_key) == (address, endpoint, ("ssh-ed25519", "AAAA"))


def test_a_host_without_any_address_is_refused() -> None:
    with pytest.raises(InputError, match="no address that other hosts could reach"):
        Met("127.0.0.1:2201", peer="127.0.0.1", addresses=()).discovered()


def test_a_printed_discovery_omits_the_password() -> None:
    assert "secret" not in repr(Discovery((Met("n1").discovered(),), {}, "secret"))


@dataclass
class Bare(FakeHosts):
    """Hosts that are met for the first time, of which some lack python3."""

    @property
    def routes(self) -> dict[str, Route]:
        return {host: Route(host, host, "root") for host in self.facts}

    def connection(self, host: str) -> str:
        return host


def test_python3_is_installed_on_no_host_if_another_one_must_not_be_touched() -> None:
    hosts = Bare({name: host_facts(name) for name in ("n1", "n2", "n3")}, without_python={"n1", "n3"})
    judged: list[tuple[str, ...]] = []

    def judge(facts: Mapping[str, HostFacts]) -> None:
        judged.append(tuple(facts))
        raise InputError("n2 is in use")

    with pytest.raises(InputError, match="n2 is in use"):
        introduce_all(hosts, lambda _: None, judge=judge)  # type: ignore[arg-type]
    assert (judged, hosts.installed) == ([("n2",)], [])
    facts, failed = introduce_all(hosts, lambda _: None)  # type: ignore[arg-type]
    assert (list(facts), failed, sorted(hosts.installed)) == (["n1", "n2", "n3"], {}, ["n1", "n3"])


def test_an_alias_of_ssh_config_that_leads_another_way_than_the_name_stays_the_endpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = paramiko.SSHConfig.from_text(
        "Host head\n  User eve\n  ProxyJump bastion\nHost plain\n  HostName 10.0.0.7\n"
    )
    monkeypatch.setattr(route, "ssh_config", lambda: known)
    assert Met("head").discovered().endpoint == "head"
    assert Met("plain").discovered().endpoint == ""
