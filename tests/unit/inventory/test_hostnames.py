"""Whose a hostname is, when hosts say what they are called."""

from __future__ import annotations

import re

import pytest
from support import cluster, host_facts

from slurmfab.base.errors import ClusterFileError, InputError
from slurmfab.base.hostlist import Endpoint
from slurmfab.cluster.inventory.hostnames import taken, unfit
from slurmfab.cluster.inventory.lock import HostLock, Lock
from slurmfab.commands.nodes.discovery import name_all

TEXT = """\
cluster: lab
controllers: ctl
nodes: [{hosts: "n[1-3]"}]
partitions: [{PartitionName: main, Nodes: ALL}]
"""
OTHERS = """\
ssh: {gateway: "ann@Bastion:2222,jump.example.org"}
mail: {relay: "smtp:25", from: slurm@example.org}
slurm: {packages: debian, version: "24.11.*", source: {uris: "https://mirror.example.org/x", suites: x, key: key.asc}}
database: {host: ctl, external: "db:3306", keep_password: true}
mounts:
  - {path: /home, source: "nas:/home", type: nfs4}
  - {path: /share, source: "//filer.example.org/share", type: cifs}
directory: {sssd: {servers: ["ldaps://ldap.example.org"], base: "dc=example", ca_file: ca.pem, groups: hpc}}
unix_users: false
slurm_conf: {AccountingStorageExternalHost: "central:6819, other", SlurmctldParameters: "a:b", MailDomain: example.net}
addresses: {n1: node17.example.org}
power: {nodes: "n[1-3]", how: {ipmi: {address: "{node}-ipmi", password_file: ipmi.password}}}
"""


@pytest.mark.parametrize(
    ("told", "pinned", "refused"),
    [
        ({"ctl": "ctl", "n1": "n1", "n3": "nid3"}, {}, {}),
        ({"n1": "n1", "n3": "n1"}, {}, {"n3": "n1"}),
        ({"n1": "n1", "n3": "N1"}, {}, {"n3": "n1"}),
        ({"n3": "n1"}, {}, {"n3": "n1"}),
        ({"n1": "node1", "n3": "node1"}, {"n1": "node1"}, {"n3": "n1"}),
        ({"n3": "node1"}, {"n1": "node1"}, {"n3": "n1"}),
        ({"n1": "same", "n3": "same"}, {}, {"n1": "another host", "n3": "another host"}),
        ({"n1": "n1", "n3": "n1"}, {"n1": "n1", "n3": "n3"}, {"n3": "n1"}),
        ({"n1": "n2", "n2": "n1"}, {"n1": "n2", "n2": "n1"}, {}),
    ],
)
def test_a_name_that_another_host_has_when_it_is_told_then_the_liar_alone_is_refused(
    told: dict[str, str], pinned: dict[str, str], refused: dict[str, str]
) -> None:
    lock = Lock(hosts={host: HostLock(hostname) for host, hostname in pinned.items()})
    found = taken(cluster(TEXT), lock, {host: host_facts(host, hostname=hostname) for host, hostname in told.items()})
    assert found.keys() == refused.keys()
    for host, owner in refused.items():
        assert f"it calls itself {told[host]}, as {owner} does" in found[host]


def test_a_host_that_calls_itself_localhost_is_refused() -> None:
    assert "hostnamectl" in taken(cluster(TEXT), Lock(), {"n3": host_facts("n3", hostname="localhost")})["n3"]


@pytest.mark.parametrize(
    "name", ["bastion", "jump", "mirror", "smtp", "db", "NAS", "filer", "ldap", "n2-ipmi", "central", "other"]
)
def test_a_host_that_takes_the_name_of_a_server_is_refused_unless_the_lock_has_it(name: str) -> None:
    facts = {"n3": host_facts("n3", hostname=name)}
    assert "which the cluster file names as another machine" in taken(cluster(TEXT + OTHERS), Lock(), facts)["n3"]
    assert taken(cluster(TEXT + OTHERS), Lock(hosts={"n3": HostLock(name)}), facts) == {}
    assert taken(cluster(TEXT), Lock(), facts) == {}


@pytest.mark.parametrize("name", ["example", "slurm", "a", "main", "home", "debian", "ca"])
def test_another_word_of_the_cluster_file_names_no_machine(name: str) -> None:
    assert taken(cluster(TEXT + OTHERS), Lock(), {"n3": host_facts("n3", hostname=name)}) == {}


def test_the_name_by_which_ssh_reaches_a_host_is_that_hosts() -> None:
    facts = {host: host_facts(host, hostname="node17") for host in ("n1", "n3")}
    assert taken(cluster(TEXT + OTHERS), Lock(), facts).keys() == {"n3"}
    assert taken(cluster(TEXT + OTHERS), Lock(), {"n1": facts["n1"]}) == {}


@pytest.mark.parametrize("source", ["suite: trixie-backports", "directory: debs"])
def test_packages_from_elsewhere_name_no_machine(source: str) -> None:
    text = f'{TEXT}slurm: {{packages: debian, version: "24.11.*", source: {{{source}}}}}\n'
    assert taken(cluster(text), Lock(), {"n3": host_facts("n3", hostname="nid3")}) == {}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("DEFAULT", "sets the values of all lines after it"),
        ("all", "it means every host"),
        ("None", "it means no host"),
        ("local", "access.conf(5)"),
        ("EXCEPT", "access.conf(5)"),
        ("localhost", "each host means itself"),
        ("localhost4", "each host means itself"),
        ("LocalHost6", "each host means itself"),
        ("localhost.localdomain", "each host means itself"),
        ("ip6-allnodes", "each host means itself"),
        ("broadcasthost", "each host means itself"),
        ("wpad", "look for their proxy"),
        ("wpad.example.org", "look for their proxy"),
        ("isatap", "look for a router"),
        ("2130706433", "an IPv4 address"),
        ("1", "an IPv4 address"),
        ("0x7f000001", "an IPv4 address"),
        ("0X7F.1", "an IPv4 address"),
        ("127.1", "an IPv4 address"),
        ("0177.0.0.1", "an IPv4 address"),
        ("10.0.0.1", "an IPv4 address"),
        ("10.0.0.1.", "an IPv4 address"),
        ("007", "an IPv4 address"),
        ("12.example.org", "an IPv4 address"),
        ("n1", ""),
        ("1n", ""),
        ("0xen", ""),
        ("1-2", ""),
        ("defaults", ""),
        ("alle", ""),
        ("local-1", ""),
        ("n1.local", ""),
        ("all-in-one", ""),
    ],
)
def test_a_name_that_means_something_else_cannot_be_a_hosts(name: str, words: str) -> None:
    reason = unfit(name)
    assert (words in reason, bool(reason)) == (True, bool(words))
    told = {} if not words else taken(cluster(TEXT), Lock(), {"n3": host_facts("n3", hostname=name)})
    assert list(told) == (["n3"] if words else []), "a host that calls itself so is left out"


@pytest.mark.parametrize("text", [
    "cluster: lab\ncontrollers: c1\nnodes: [{{hosts: '{name}'}}]\n",
    "cluster: lab\ncontrollers: '{name}'\nnodes: [{{hosts: n1}}]\n",
    "cluster: lab\ncontrollers: c1\nlogin: '{name}'\nnodes: [{{hosts: n1}}]\n",
    "cluster: lab\ncontrollers: c1\ndatabase: '{name}'\nnodes: [{{hosts: n1}}]\n",
    "cluster: lab\ncontrollers: c1\nnodes: [{{hosts: n1}}]\nfuture_nodes: [{{hosts: '{name}'}}]\n",
])  # fmt: skip
@pytest.mark.parametrize("name", ["DEFAULT", "2130706433", "0x7f.1", "wpad", "localhost6"])
def test_such_a_name_in_the_cluster_file_is_refused_wherever_it_is(text: str, name: str) -> None:
    with pytest.raises(ClusterFileError, match=f'"{re.escape(name)}" is .*; rename the host'):
        cluster(text.format(name=name))


@pytest.mark.parametrize("name", ["DEFAULT", "2130706433", "localhost4", "debian"])
def test_a_host_that_calls_itself_so_is_no_part_of_a_new_cluster(name: str) -> None:
    met = {"192.0.2.7": (Endpoint("192.0.2.7"), host_facts("n1", hostname=name))}
    with pytest.raises(InputError, match=f"the hostname is '{name}'.*hostnamectl"):
        name_all(met)
