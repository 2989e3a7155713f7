"""IP addresses are compared as addresses and not as text, wherever they are written."""

from __future__ import annotations

import itertools
import re

import pytest
from source_trees import SOURCES
from support import cluster

from slurmfab.base.errors import ClusterFileError
from slurmfab.base.hostlist import zip_hostlists
from slurmfab.base.ip_addresses import IPV4, IPV6, NO_ADDRESS, canonical, family, is_link_local, parsed
from slurmfab.cluster.inventory.cluster import Ssh
from slurmfab.core.plan.preflight.other_clusters import identity_of, split_controller
from slurmfab.hosts import host_keys, route

SPELLINGS = ("fd83::11", "FD83::11", "fd83:0::11", "fd83:0:0:0:0:0:0:11", "fd83::0011")

FILE = """\
cluster: lab
addresses: {ADDRESSES}
controllers: [c1]
nodes: [{hosts: 'n[1-2]'}]
"""


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_an_address_has_one_spelling_in_a_cluster_however_it_is_written(spelling: str) -> None:
    assert canonical(spelling) == "fd83::11"
    for written in (spelling, f'"{spelling}"', f'"[{spelling}]"'):
        assert cluster(FILE.replace("ADDRESSES", f"c1: {written}")).addresses == {"c1": "fd83::11"}


@pytest.mark.parametrize("text", ["n1", "n1.example.org", "10.0.0.1", "fd83::zz", "10.0.0.300", "a:b"])
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert canonical(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [("10.0.0.1", IPV4), ("fd83::1", IPV6), ("fe80::1%eth0", IPV6), ("n1", NO_ADDRESS), ("[fd83::1]", NO_ADDRESS)],
)
def test_the_family_of_an_address_is_known(text: str, expected: int) -> None:
    assert family(text) == expected


@pytest.mark.parametrize("zone", ["h\n ProxyCommand sh x", "eth0;id", "`id`", '"', "a b", "\x1b[2J", "x" * 16, ""])
def test_an_address_with_more_than_an_interface_behind_its_percent_sign_is_none(zone: str) -> None:
    text = f"fe80::1%{zone}"
    assert (family(text), canonical(text), is_link_local(text)) == (NO_ADDRESS, text, False)
    with pytest.raises(ValueError, match="is not an IP address"):
        parsed(text)


@pytest.mark.parametrize("key", ["endpoints: {c1: %s}", "gateway: %s", "endpoints: {c1: %s}, gateway: n1"])
def test_a_way_in_the_cluster_file_with_a_line_break_in_an_address_is_refused(key: str) -> None:
    text = FILE.replace("ADDRESSES", "c1: fd83::1") + "ssh: {%s}\n"
    with pytest.raises(ClusterFileError, match="is not an IPv6 address"):
        cluster(text % (key % r'"fe80::1%h\n    ProxyCommand sh x.sh"'))


def test_no_module_but_one_makes_an_address_of_a_text() -> None:
    made = re.compile(r"\b(ip_address|ip_interface|IPv[46]Address)\(")
    makers = {name for name, path in SOURCES.items() if made.search(path.read_text()) and "on_hosts" not in name}
    assert makers == {"base/ip_addresses.py"}


def test_one_address_in_two_spellings_is_refused_for_two_hosts() -> None:
    with pytest.raises(ClusterFileError, match='"fd83::11" is already the address of c1'):
        cluster(FILE.replace("ADDRESSES", "c1: fd83::11, n1: 'fd83:0::11'"))


@pytest.mark.parametrize("address", ["fe80::1", "fe80::1%eth0", "fd83::1%eth0"])
def test_an_address_of_one_link_is_refused_for_slurm_with_the_reason_and_accepted_for_ssh(address: str) -> None:
    assert is_link_local(address)
    with pytest.raises(ClusterFileError, match=r"of one link: .* write it under ssh.endpoints"):
        cluster(FILE.replace("ADDRESSES", f"c1: '{address}'"))
    beside = FILE.replace("ADDRESSES", "c1: fd83::1") + f"ssh: {{endpoints: {{c1: '[{address}]:2222'}}}}\n"
    way = route.to_hosts(cluster(beside))["c1"]
    assert (way.address, way.port) == (address, 2222)


@pytest.mark.parametrize(
    ("names", "values", "expected"),
    [
        ("n1", "[fd83::11]:22", {"n1": "[fd83::11]:22"}),
        ("n1", "root@[fd83::11]:22", {"n1": "root@[fd83::11]:22"}),
        ("n1", "root@[fd83::11]", {"n1": "root@fd83::11"}),
        ("n[1-2]", "[fd83::11]:22,[fd83::12]:22", {"n1": "[fd83::11]:22", "n2": "[fd83::12]:22"}),
        ("n[1-2]", "fd83::[11-12]", {"n1": "fd83::11", "n2": "fd83::12"}),
    ],
)
def test_brackets_around_an_ipv6_address_are_no_range_of_a_hostlist(
    names: str, values: str, expected: dict[str, str]
) -> None:
    assert zip_hostlists(names, values) == expected


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize(("port", "written"), [(22, "fd83::11"), (2222, "[fd83::11]:2222")])
def test_known_hosts_is_asked_for_the_spelling_that_ssh_writes_too(spelling: str, port: int, written: str) -> None:
    way = route.to_host("n1", Ssh(port=port), spelling)
    assert written in host_keys.known_host(way).names


@pytest.mark.parametrize(("mine", "named"), [*itertools.product(SPELLINGS, repeat=2)])
def test_a_controller_is_recognised_by_its_address_in_any_spelling(mine: str, named: str) -> None:
    assert split_controller(f"ctl({named})")[1] in identity_of("lab", ("c1", mine), ()).addresses


def test_a_jump_host_that_is_the_target_itself_is_recognised_by_its_address() -> None:
    way = route.to_host("n1", Ssh(gateway="fd83:0::11"), "fd83::11")
    assert way.gateway is None
