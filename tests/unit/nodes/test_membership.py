"""Members of a cluster: the file that first contact writes, and compute nodes that join."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import THREE_HOSTS, host_facts

from slurmfab.base.errors import IdConflict, InputError, SlurmfabError
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.cluster import Ssh
from slurmfab.cluster.inventory.connection_options import ConnectionOptions
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.nodes.discovery import DiscoveredHost
from slurmfab.commands.nodes.membership import (
    first_ssh,
    joined,
    new_cluster,
    refuse_known,
    refuse_unfit,
    write_new_cluster,
)


def said(
    hostlist: str = "n1",
    *,
    user: str = "",
    key: str = "",
    port: int | None = None,
    become: bool | None = None,
    gateway: str = "",
) -> Ssh:
    words = {None: "", True: "sudo", False: "none"}
    return first_ssh(hostlist, ConnectionOptions(user, key, port, words[become], gateway))


def new(name: str, address: str, endpoint: str = "", **facts: object) -> DiscoveredHost:
    return DiscoveredHost(name, address, endpoint, host_facts(name, **facts), ("ssh-ed25519", f"key+of+{name}"))


def written(folder: Path, text: str = THREE_HOSTS) -> Inventory:
    (folder / "cluster.yaml").write_text(text)
    return loading.load(folder / "cluster.yaml")


def test_sudo_is_used_unless_root_logs_in_or_the_user_says_otherwise() -> None:
    assert said().become == "sudo"
    assert said(user="root").become is None
    assert said("root@n1,root@n2").become is None
    assert said(user="admin", become=False).become is None
    assert said(user="root", become=True).become == "sudo"


def test_an_ssh_user_typed_with_all_hosts_is_written_to_the_ssh_section() -> None:
    assert said("admin@n1,admin@n2").user == "admin"
    assert said("admin@n1,eve@n2").user is None
    assert said("admin@n1,n2").user is None
    assert said("admin@n1", user="bob").user == "bob"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"port": 99999}, "--port 99999"),
        ({"port": 0}, "--port 0"),
        ({"user": "a b"}, '"a b" is not a login name'),
        ({"gateway": "n[1-2]"}, "it must name one"),
    ],
)
def test_wrong_ssh_options_are_refused_with_the_reason(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(InputError) as refused:
        said(**wrong)  # type: ignore[arg-type]
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_first_contact_writes_the_discovered_hosts_to_the_cluster_file_and_the_lock(tmp_path: Path) -> None:
    hosts = (new("c1", "10.0.0.1"), new("n1", "10.0.0.2"), new("n2", "10.0.0.3", "eve@127.0.0.1:2201"))
    new_one = new_cluster(tmp_path / "configs/lab.yaml", "lab", Ssh(user="admin", become="sudo"), hosts)
    assert list(tmp_path.iterdir()) == []
    known = write_new_cluster(*new_one)
    assert known == loading.load(tmp_path / "configs/lab.yaml")
    assert (known.cluster.name, known.cluster.controllers, known.cluster.compute_nodes) == (
        "lab",
        ("c1",),
        ("n1", "n2"),
    )
    assert known.cluster.addresses == {"c1": "10.0.0.1", "n1": "10.0.0.2", "n2": "10.0.0.3"}
    assert (known.cluster.ssh.user, known.cluster.ssh.endpoints) == ("admin", {"n2": "eve@127.0.0.1:2201"})
    assert known.lock.hosts["n1"].host_keys == {"ssh-ed25519": "key+of+n1"}


@pytest.mark.parametrize(
    ("packages", "asked"),
    [
        ({"slurm": "24.11.5-1.el9", "slurm-slurmd": "24.11.5-1.el9"}, ("el-smd", "24.11.*")),
        ({"slurm-smd": "24.11.5-1"}, ("smd", "24.11.*")),
        ({"slurm-wlm-basic-plugins": "24.11.5-4"}, ("debian", "")),
        ({}, ("debian", "")),
    ],
)
def test_first_contact_asks_for_the_packages_of_slurm_that_the_hosts_have(
    tmp_path: Path, packages: dict[str, str], asked: tuple[str, str]
) -> None:
    hosts = [new("c1", "10.0.0.1", packages=packages, slurm_versions={"slurmd": "24.11.5"})]
    slurm = new_cluster(tmp_path / "lab.yaml", "lab", Ssh(), hosts)[0].cluster.slurm
    assert (slurm.packages, slurm.version or "") == asked


@pytest.mark.parametrize(
    ("addresses", "controller_computes", "compute"),
    [
        ({"c1": "10.0.0.1"}, False, ("c1",)),
        ({"c1": "10.0.0.1", "n1": "10.0.0.2"}, True, ("c1", "n1")),
        ({"c1": "10.0.0.1", "n1": "10.0.0.2"}, False, ("n1",)),
    ],
)
def test_a_controller_computes_when_it_is_alone_or_the_user_says_so(
    tmp_path: Path, addresses: dict[str, str], controller_computes: bool, compute: tuple[str, ...]
) -> None:
    hosts = [new(name, address) for name, address in addresses.items()]
    known, _ = new_cluster(tmp_path / "lab.yaml", "lab", Ssh(), hosts, controller_computes=controller_computes)
    assert (known.cluster.controllers, known.cluster.compute_nodes) == (("c1",), compute)


def test_with_an_invalid_cluster_name_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a valid cluster name"):
        new_cluster(tmp_path / "lab.yaml", "My Cluster", Ssh(), [new("c1", "10.0.0.1"), new("n1", "10.0.0.2")])
    assert list(tmp_path.iterdir()) == []


def test_new_nodes_are_added_to_the_file_and_the_lock_and_comments_are_kept(tmp_path: Path) -> None:
    known = written(tmp_path, "# Ours.\n" + THREE_HOSTS)
    grown, text = joined(known, [new("n3", "10.0.0.4", "eve@10.9.0.4:2204")])
    assert grown.cluster.compute_nodes == ("n1", "n2", "n3")
    assert grown.cluster.addresses["n3"] == "10.0.0.4"
    assert grown.lock.hosts["n3"].host_keys == {"ssh-ed25519": "key+of+n3"}
    assert grown.lock.hosts["n3"].on_trial
    assert grown.cluster.ssh.endpoints == {"n3": "eve@10.9.0.4:2204"}
    assert loading.parse(text, "x") == grown.cluster
    assert text.startswith("# Ours.\n")
    assert loading.load(known.path) == known, "nothing is written before they are prepared"


@pytest.mark.parametrize("discovered", [new("n1", "10.0.0.9"), new("n9", "10.0.0.2")])
def test_a_member_cannot_join_again_by_name_or_by_address(tmp_path: Path, discovered: DiscoveredHost) -> None:
    known = written(tmp_path)
    with pytest.raises(InputError, match="in the cluster already, as n1"):
        joined(known, [discovered])
    assert loading.load(known.path) == known


@pytest.mark.parametrize(
    ("hosts", "members"), [("n1", "n1"), ("n[1-3]", r"n\[1-2\]"), ("10.0.0.2", "n1"), ("root@c1", "c1")]
)
def test_members_are_refused_before_any_host_is_contacted(tmp_path: Path, hosts: str, members: str) -> None:
    with pytest.raises(InputError, match=f"{members}: already in the cluster lab"):
        refuse_known(written(tmp_path), hosts)


def test_hosts_outside_the_cluster_are_not_refused(tmp_path: Path) -> None:
    refuse_known(written(tmp_path), "n[3-4],10.0.0.9")


def test_a_host_that_cannot_be_a_node_is_refused_with_the_reason(tmp_path: Path) -> None:
    known = written(tmp_path)
    with pytest.raises(SlurmfabError, match="n3: it runs fedora") as refused:
        refuse_unfit(known, known.cluster, [new("n3", "10.0.0.4", os_id="fedora"), new("n4", "10.0.0.5")])
    assert "Nothing was changed" in str(refused.value)


def test_a_host_where_the_clusters_ids_belong_to_others_is_refused(tmp_path: Path) -> None:
    known = written(tmp_path, THREE_HOSTS + "ids: {slurm: 700, munge: 701}\n")
    with pytest.raises(IdConflict, match="n3: UID 700, wanted for slurm, belongs to alice"):
        refuse_unfit(known, known.cluster, [new("n3", "10.0.0.4", uids={700: "alice"})])
