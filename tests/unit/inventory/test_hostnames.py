"""Whose a hostname is, when hosts say what they are called."""

from __future__ import annotations

import pytest
from support import cluster, host_facts

from slurmfab.cluster.inventory.hostnames import taken
from slurmfab.cluster.inventory.lock import HostLock, Lock

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
