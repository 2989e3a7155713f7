"""Which addresses a lab takes, and what is forwarded to and from them."""

from ipaddress import IPv4Network

import pytest

from slurmfab.base.errors import LabError
from slurmfab.lab import network as of_lab
from slurmfab.lab.layout import LabLayout
from slurmfab.lab.network import choose_network, gateway, host_addresses


def networks(*texts: str) -> list[IPv4Network]:
    return [IPv4Network(text) for text in texts]


def test_choose_when_nothing_is_taken_then_it_is_a_private_24_that_depends_on_the_name_alone():
    first = choose_network("one", [])
    assert first.prefixlen == 24
    assert first.subnet_of(IPv4Network("10.0.0.0/8"))
    assert choose_network("one", []) == first
    assert choose_network("two", []) != first


def test_choose_when_its_first_choice_is_taken_then_another_one_is_found():
    first = choose_network("one", [])
    second = choose_network("one", [first])
    third = choose_network("one", [first, second])
    assert len({first, second, third}) == 3


def test_choose_when_a_route_covers_part_of_it_then_it_is_taken():
    first = choose_network("one", [])
    assert choose_network("one", networks(f"{first[77]}/32")) != first


def test_choose_when_there_is_a_default_route_then_it_takes_nothing():
    assert choose_network("one", networks("0.0.0.0/0")) == choose_network("one", [])


def test_choose_when_all_of_10_is_routed_then_another_private_range_is_used():
    assert choose_network("one", networks("10.0.0.0/8")).subnet_of(IPv4Network("172.16.0.0/12"))


def test_choose_when_everything_private_is_routed_then_it_says_so():
    with pytest.raises(LabError, match="no addresses are left"):
        choose_network("one", networks("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))


def test_host_addresses_when_named_then_the_controller_is_10_and_the_rest_follows():
    network = IPv4Network("10.1.2.0/24")
    assert host_addresses(network, ["ctl", "n1", "n2"]) == {
        "ctl": ("10.1.2.10",),
        "n1": ("10.1.2.11",),
        "n2": ("10.1.2.12",),
    }
    assert str(gateway(network)) == "10.1.2.1"


def test_host_addresses_when_a_host_has_ipv6_then_its_address_ends_with_the_same_digits():
    """The lab's IPv6 network follows from its IPv4 network, so two labs never share one."""
    found = host_addresses(IPv4Network("10.1.2.0/24"), ["ctl", "n1", "n2"], ipv6=("n2",), dual=("ctl",))
    assert found == {
        "ctl": ("10.1.2.10", "fd53:6c66:a01:200::10"),
        "n1": ("10.1.2.11",),
        "n2": ("fd53:6c66:a01:200::12",),
    }


def test_make_network_when_called_then_the_rules_are_there_before_the_bridge_and_let_only_answers_in(monkeypatch):
    called: list[tuple[str, str]] = []
    monkeypatch.setattr(of_lab, "call", lambda argv, text="": called.append((argv[0], text)))
    of_lab.make_network(LabLayout("x"), IPv4Network("10.1.2.0/24"))
    (rules,) = (text for program, text in called if program == "nft")
    assert [program for program, _ in called] == ["ip", "nft", "ip"]
    assert rules.partition("table inet")[2].split("\n")[3:-3] == [
        'ip saddr 10.1.2.0/24 iifname != "sf-x" drop',
        'iifname "sf-x" oifname "sf-x" accept',  # with br_netfilter, packets between its hosts come here, too
        'iifname "sf-x" ip saddr 10.1.2.0/24 accept',
        'oifname "sf-x" ct state established,related accept',
        'iifname "sf-x" drop',
        'oifname "sf-x" drop',
    ]
