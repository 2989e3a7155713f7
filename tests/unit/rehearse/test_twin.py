"""The twin of a cluster: which hosts it has, the lab that they are, and its cluster file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from slurmfab.base.errors import InputError
from slurmfab.cluster.facts import Gpu, Hardware
from slurmfab.cluster.inventory import loading, reading
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import HostLock, Lock
from slurmfab.commands.rehearse import twin
from slurmfab.lab.spec import Lab, LabHost

TEXT = """\
cluster: titanic
ssh: {user: admin, gateway: bastion.example.org}
addresses: {mn01: 192.0.2.1, db01: 192.0.2.2, "cn[01-06]": "192.0.2.[11-16]", "gpu[01-03]": "192.0.2.[21-23]"}
controllers: [mn01]
database: {host: db01, external: sql.example.org, password_file: /root/password}
nodes:
  - {hosts: "cn[01-06]", Feature: slow}
  - {hosts: "gpu[01-03]", Gres: "gpu:a100:2"}
partitions:
  - {PartitionName: batch, Nodes: ALL, Default: YES}
  - {PartitionName: last, Nodes: cn06}
  - {PartitionName: gpu, Nodes: "gpu[01-03]", MaxTime: 1-00:00:00}
topology:
  - {SwitchName: s1, Nodes: "cn[01-06],gpu01"}
  - {SwitchName: s2, Nodes: "gpu02"}
  - {SwitchName: s3, Nodes: "gpu03"}
  - {SwitchName: top, Switches: "s[1-3]"}
mounts:
  - {path: /home, source: "nas.example.org:/home", type: nfs4}
homes: /home
mail: {relay: smtp.example.org, from: slurm@example.org}
files:
  /etc/motd: {text: hello, hosts: cn04}
slurm_conf: {SlurmdTimeout: 100}
"""
HARDWARE = Hardware(8, 1, 1, 8, 1, 16000)
GPUS = tuple(Gpu(f"/dev/nvidia{number}", "a100-sxm4-40gb") for number in range(2))
LOCK = Lock(
    slurm="24.11.5",
    ids={"slurm.uid": 64030},
    hosts={
        "mn01": HostLock("mn01"),
        "db01": HostLock("db01"),
        **{f"cn0{number}": HostLock(f"cn0{number}", hardware=HARDWARE) for number in range(1, 7)},
        **{f"gpu0{number}": HostLock(f"gpu0{number}", hardware=HARDWARE, gpus=GPUS) for number in range(1, 4)},
    },
)


def loaded(text: str = TEXT) -> Cluster:
    return loading.parse(text, "cluster.yaml")


def made(text: str = TEXT, former: str = TEXT, wanted: tuple[str, ...] = ()) -> twin.Twin:
    versions = ((loaded(former), LOCK), (loaded(text), LOCK))
    return twin.make("t1", twin.choose(versions, wanted), versions, "trixie")


def up(one: twin.Twin) -> tuple[twin.Twin, Lab]:
    hosts = tuple(
        LabHost("t1", name, f"10.1.1.{number}", "compute", {"ssh-ed25519": f"AAAA{number}"})
        for number, name in enumerate(one.spec.host_names, 10)
    )
    lab = Lab("t1", "trixie", hosts, Path("/lab"), Path("/lab/key"), Path("/lab/lab.yaml"), one.spec)
    return twin.placed(one, lab), lab


def file_of(text: str, one: twin.Twin) -> str:
    return twin.file_text(reading.read(text, "cluster.yaml").shape, loaded(text), LOCK, up(one)[0])


def test_a_twin_has_two_nodes_of_each_kind_one_of_each_partition_and_all_hosts_of_services() -> None:
    one = made()
    assert list(one.hosts) == ["mn01", "db01", "cn01", "cn02", "cn06", "gpu01", "gpu02"]
    assert one.standing_for["cn01"] == ("cn03", "cn04", "cn05")
    assert one.standing_for["gpu01"] == ("gpu03",)
    assert one.standing_for["cn02"] == one.standing_for["cn06"] == ()


def test_a_twin_when_the_command_names_a_host_then_has_it() -> None:
    assert "cn05" in made(wanted=("cn05",)).hosts


def test_a_twin_when_the_change_adds_and_removes_nodes_then_has_some_of_both() -> None:
    former = TEXT.replace('  - {hosts: "gpu[01-03]", Gres: "gpu:a100:2"}\n', '  - {hosts: "old[1-3]"}\n')
    former = former.replace("gpu[01-03]", "old[1-3]").replace("gpu0", "old")
    assert {"gpu01", "gpu02", "old1", "old2"} < set(made(TEXT, former).hosts)


def test_the_lab_of_a_twin_has_the_names_gpus_and_shared_directories_of_the_cluster() -> None:
    spec = made().spec
    assert spec.nodes == 6
    assert spec.hostnames[:3] == ("ctl:mn01", "n1:db01", "n2:cn01")
    assert spec.gpus == ("n5:2:a100-sxm4-40gb", "n6:2:a100-sxm4-40gb")
    assert spec.shared == ("/srv/slurmfab-twin/home",)
    assert spec.hostname("n6") == "gpu02"
    assert any(entry.startswith("n1:") and "slurmdbd" in entry for entry in spec.packages)


def test_the_file_of_a_twin_is_the_clusters_with_its_own_hosts_and_addresses() -> None:
    values = json.loads(file_of(TEXT, made()))
    assert values["ssh"] == {"user": "root", "key": "/lab/key"}
    assert values["addresses"]["mn01"] == "10.1.1.10"
    assert [group["hosts"] for group in values["nodes"]] == ["cn[01-02,06]", "gpu[01-02]"]
    assert [group.get("Gres") for group in values["nodes"]] == [None, "gpu:a100:2"]
    assert [one["Nodes"] for one in values["partitions"]] == ["ALL", "cn06", "gpu[01-03]"]
    assert values["partitions"][2]["MaxTime"] == "1-00:00:00"
    assert values["slurm_conf"] == {"SlurmdTimeout": "100"}
    assert values["database"] == {"host": "db01"}
    assert values["topology"] == reading.read(TEXT, "cluster.yaml").shape["topology"]
    assert loading.parse(json.dumps(values), "twin").hosts == ("mn01", "db01", "cn01", "cn02", "cn06", "gpu01", "gpu02")


def test_nodes_that_a_twin_lacks_are_in_its_file_with_their_hardware_and_gpus_as_not_there() -> None:
    layout = {"CPUs": "8", "Boards": "1", "SocketsPerBoard": "1", "CoresPerSocket": "8", "ThreadsPerCore": "1"}
    memory = {"RealMemory": "15520"}
    assert json.loads(file_of(TEXT, made()))["future_nodes"] == [
        {"hosts": "cn[03-05]", **layout, **memory, "Feature": "slow"},
        {"hosts": "gpu03", **layout, **memory, "Gres": "gpu:a100:2"},
    ]


def test_the_twin_of_a_large_cluster_names_all_of_its_nodes() -> None:
    kinds = {"a": "Weight: 1", "b": "Feature: ib", "c": "Gres: 'gpu:2'", "d": "Weight: 4"}
    groups = "".join(f"  - {{hosts: '{kind}[1-250]', {more}}}\n" for kind, more in kinds.items())
    text = f"cluster: big\ncontrollers: [mn01]\nnodes:\n{groups}"
    locked = replace(
        LOCK, hosts={f"{kind}{n}": HostLock("x", hardware=HARDWARE) for kind in kinds for n in range(1, 251)}
    )
    wanted = ((loaded(text), locked),)
    one = twin.make("t1", twin.choose(wanted), wanted, "trixie")
    values = twin.file_text(reading.read(text, "cluster.yaml").shape, loaded(text), locked, up(one)[0])
    found = loading.parse(values, "twin")
    assert [group.hosts for group in found.nodes] == [(f"{kind}1", f"{kind}2") for kind in kinds]
    assert {*found.named_nodes} == {*loaded(text).compute_nodes}
    assert len(found.future_nodes) == len(kinds)


def test_nodes_that_are_not_there_yet_on_the_cluster_are_not_there_on_its_twin() -> None:
    text = TEXT.replace("partitions:", "future_nodes:\n  - {hosts: 'big[1-9]', CPUs: 128}\npartitions:")
    text = text.replace('"cn[01-06],gpu01"', '"cn[01-06],gpu01,big[1-9]"')
    assert json.loads(file_of(text, made(text)))["future_nodes"][-1] == {"hosts": "big[1-9]", "CPUs": "128"}


def test_the_file_of_a_twin_names_no_address_and_no_server_of_the_cluster() -> None:
    text = file_of(TEXT, made())
    assert "192.0.2" not in text
    assert "example.org" not in text
    assert "password" not in text


def test_the_lock_of_a_twin_has_the_numbers_of_users_and_the_keys_of_its_own_hosts() -> None:
    one, lab = up(made())
    lock = json.loads(twin.lock_text(LOCK, one, lab))
    assert lock["ids"] == {"slurm.uid": 64030}
    assert lock["slurm"] == ""
    assert lock["hosts"]["cn01"]["host_keys"] == {"ssh-ed25519": "AAAA12"}
    assert "cn03" not in lock["hosts"]


def test_what_a_twin_cannot_tell_is_named() -> None:
    unknown = "\n".join(made().unknown)
    for word in (
        "hardware",
        "networks",
        "cn[03-05],gpu03 are in its slurm.conf alone",
        "/home",
        "sql.example.org",
        "jump hosts",
        "mail",
    ):
        assert word in unknown


@pytest.mark.parametrize(
    ("codename", "slurm", "suite"),
    [("bookworm", "24.11.5", "bookworm"), ("", "22.05.8", "bookworm"), ("", "24.11.5", "trixie")],
)
def test_a_twins_suite_is_that_of_the_controller_or_else_the_one_that_has_its_slurm(
    codename: str, slurm: str, suite: str
) -> None:
    versions = ((loaded(), Lock(slurm=slurm, hosts=LOCK.hosts)),)
    assert twin.make("t1", twin.choose(versions), versions, codename).spec.suite == suite


def test_a_twin_of_a_distribution_that_the_lab_lacks_is_refused() -> None:
    versions = ((loaded(), LOCK),)
    with pytest.raises(InputError, match="its hosts have bullseye"):
        twin.make("t1", twin.choose(versions), versions, "bullseye")


def test_directories_that_slurm_needs_on_a_file_system_of_all_hosts_are_shared_by_the_twins_hosts() -> None:
    two = TEXT.replace("192.0.2.1,", "192.0.2.1, mn02: 192.0.2.3,").replace("[mn01]", "[mn01, mn02]")
    two = two.replace("mounts:\n", 'mounts:\n  - {path: /conf, source: "nas.example.org:/conf", type: nfs4}\n')
    text = f"{two}state_directory: /shared/state\nslurm_conf_directory: /conf/slurm\n"
    one = made(text, text)
    assert one.spec.shared == ("/srv/slurmfab-twin/conf", "/srv/slurmfab-twin/home", "/shared/state")
    assert "directories of this machine stand in for /conf, /home, /shared/state" in "".join(one.unknown)


def test_scripts_by_hostlist_are_those_of_the_twins_nodes() -> None:
    text = f'{TEXT}prolog: {{"cn[02-05]": prolog.d}}\nepilog: {{gpu03: epilog.d}}\n'
    values = json.loads(file_of(text, made(text, text)))
    assert values["prolog"] == {"cn02": "prolog.d"}
    assert "epilog" not in values


def test_a_twin_has_the_node_with_prometheus() -> None:
    text = f"{TEXT}monitoring: {{prometheus: {{host: cn05}}}}\n"
    assert "cn05" in made(text, text).hosts
    assert loading.parse(file_of(text, made(text, text)), "twin").monitoring


@pytest.mark.parametrize(
    ("more", "why"), [("keep_files: true\n", "keep_files"), ("slurm_user: batch\nslurm_ssh: none\n", "slurm_user")]
)
def test_a_cluster_with_what_the_site_makes_by_itself_has_no_twin(more: str, why: str) -> None:
    with pytest.raises(InputError, match=f"(?s){why}.*Nothing was started"):
        twin.refuse_without_twin([loaded(), loaded(f"{TEXT}{more}")])
