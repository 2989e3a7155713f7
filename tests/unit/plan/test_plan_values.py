"""Values that a plan is made from: who a host is, which Slurm it has, and what was there before."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from support import SMALL, THREE_HOSTS, cluster, facts_of, plan_input, prepared, prepared_input

from slurmfab.base.ip_addresses import IPV4, IPV6
from slurmfab.cluster.facts import Account, Gpu
from slurmfab.cluster.inventory.lock import HostLock, Lock
from slurmfab.cluster.inventory.slurm_files import SiteFile
from slurmfab.cluster.slurm import render
from slurmfab.core.engine.job_safety import min_job_age
from slurmfab.core.plan.pinned import lacks
from slurmfab.core.plan.plan_input import PlanInput, is_numeric, node_programs, power_saving

BASE = "cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: 'n[1-2]'}]\n"
DEPLOYED = "ClusterName=lab\nSlurmctldHost=c1\nNodeName=n[1-2] CPUs=4\nPartitionName=p Nodes=ALL\n"


def made(text: str = THREE_HOSTS, conf: str = "", **facts: Any) -> PlanInput:
    """What a plan is made from where all hosts have been deployed to, and c1 has this slurm.conf."""
    wanted = cluster(text)
    found = facts_of(wanted, prepared, **facts)
    found["c1"] = dataclasses.replace(found["c1"], slurm_conf=conf)
    return plan_input(wanted, found)


def locked(text: str, **hosts: HostLock) -> PlanInput:
    """The same of hosts that do not answer now."""
    return PlanInput(cluster(text), Lock(slurm="24.11.5", hosts=hosts), {})


KNOWN = HostLock("n1", hardware=SMALL)


def test_slurm_conf_names_nodes_whose_hardware_is_known_and_no_other() -> None:
    there = locked(BASE, c1=HostLock("c1", hardware=SMALL), n1=KNOWN, n2=HostLock("", hardware=SMALL))
    assert (there.members, there.compute_nodes) == (("c1", "n1"), ("n1",))
    bare = locked(BASE, c1=HostLock("c1"), n1=HostLock("n1"), n2=dataclasses.replace(KNOWN, hostname="n2"))
    assert (bare.members, bare.compute_nodes) == (("c1", "n1", "n2"), ("n2",))
    assert (there.is_compute_node("n1"), there.is_compute_node("n2"), there.is_compute_node("c1")) == (
        True, False, False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("lock", "is_on_trial"),
    [
        (dataclasses.replace(KNOWN, on_trial=True), True),
        (KNOWN, False),
        (HostLock("n1", on_trial=True), False),
    ],
)
def test_a_new_node_is_on_trial_once_slurm_conf_can_name_it(lock: HostLock, is_on_trial: bool) -> None:
    assert locked(BASE, n1=lock).is_on_trial("n1") is is_on_trial


@pytest.mark.parametrize(
    ("conf", "changes"), [(DEPLOYED, False), (DEPLOYED.replace("n[1-2] ", "n1 "), True), ("", True)]
)
def test_nodes_change_where_the_controllers_slurm_conf_names_others(conf: str, changes: bool) -> None:
    assert made(conf=conf).changes_nodes is changes


@pytest.mark.parametrize(
    ("before", "moves"),
    [("", False), ("/var/lib/slurm/slurmctld", False), ("/var/lib/slurm//slurmctld/", False), ("/srv/state", True)],
)
def test_the_state_moves_where_it_is_in_another_directory(before: str, moves: bool) -> None:
    there = made(conf=f"{DEPLOYED}StateSaveLocation={before}\n" if before else DEPLOYED)
    assert (there.state_before, there.moves_state) == (before, moves)
    assert there.setting_before("clustername") == there.setting_before("ClusterName") == "lab"


@pytest.mark.parametrize(
    ("conf", "renames"), [("", False), (DEPLOYED, False), ("ClusterName=LAB\n", False), ("ClusterName=x\n", True)]
)
def test_a_cluster_is_renamed_where_slurm_has_another_name(conf: str, renames: bool) -> None:
    assert made(conf=conf).renames_cluster is renames


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("c1", "c1", True),
        ("nobody", "nobody", True),
        ("c1", "localhost", True),
        ("127.0.0.1", "10.0.0.1", True),
        ("C1", "10.0.0.1", True),
        ("n1", "10.0.0.2", True),
        ("n1", "10.0.0.3", False),
        ("n1", "localhost", False),
        ("n1", "nobody", False),
        ("slurm", "64030", True),
        ("SLURM", "64030", True),
        ("munge", "450", False),
        ("slurm", "c1", False),
    ],
)
def test_names_and_addresses_of_one_host_are_the_same(one: str, other: str, is_same: bool) -> None:
    assert made().is_same_host(one, other) is made().is_same_host(other, one) is is_same


def test_an_address_that_the_cluster_file_gives_another_host_is_that_hosts() -> None:
    shared = HostLock("n1", hardware=SMALL, addresses=("10.0.0.3", "192.168.0.1"))
    there = locked(THREE_HOSTS, n1=shared, n2=HostLock("other"))
    assert there.is_same_host("n1", "192.168.0.1")
    assert not there.is_same_host("n1", "10.0.0.3")
    assert there.is_same_host("n2", "other")


@pytest.mark.parametrize(
    ("text", "facts", "owner"),
    [
        (BASE, {}, ("slurm", "slurm")),
        (BASE, {"accounts": {"slurm": Account(64030, 450, "/", "/bin/sh")}}, ("slurm", "slurm")),
        (BASE + "slurm_user: hpc\n", {"accounts": {"hpc": Account(7, 450, "/", "/bin/sh")}}, ("hpc", "munge")),
        (BASE + "slurm_user: hpc\n", {"accounts": {"hpc": Account(7, 99, "/", "/bin/sh")}}, ("hpc", "hpc")),
        (BASE + "slurm_user: hpc\n", {}, ("hpc", "hpc")),
    ],
)
def test_slurms_files_belong_to_slurm_user_and_its_group(
    text: str, facts: dict[str, Any], owner: tuple[str, str]
) -> None:
    known = {"n1": dataclasses.replace(prepared("n1"), **facts)}
    there = PlanInput(cluster(text), Lock(), known)
    assert there.slurm_owner("n1") == owner
    assert there.slurm_owner("elsewhere") == (owner[0], owner[0])


def test_lines_of_hosts_are_for_those_with_an_ip_address() -> None:
    text = BASE + "addresses: {c1: 10.0.0.1, n1: n1.example.org, n2: 'fd83::2'}\n"
    there = locked(text, c1=HostLock("c1"), n1=HostLock("n1"), n2=HostLock("node2"))
    assert there.names_and_addresses == "10.0.0.1 c1\nfd83::2 n2 node2\n"
    assert (there.address("n1"), there.address("c1")) == ("n1.example.org", "10.0.0.1")


@pytest.mark.parametrize(
    ("address", "own", "families", "ipv6"),
    [
        ("10.0.0.2", ("fd83::2",), {IPV4}, False),
        ("'fd83::2'", ("10.0.0.2",), {IPV6}, True),
        ("n1.example.org", ("10.0.0.2", "fd83::2"), {IPV4, IPV6}, False),
        ("n1.example.org", ("fd83::2",), {IPV6}, True),
        ("n1.example.org", (), set(), False),
    ],
)
def test_slurm_needs_ipv6_where_a_host_has_no_other_address(
    address: str, own: tuple[str, ...], families: set[int], ipv6: bool
) -> None:
    there = locked(f"{BASE}addresses: {{n1: {address}}}\n", n1=HostLock("n1", addresses=own))
    assert (there.families("n1"), there.uses_ipv6) == (families, ipv6)


@pytest.mark.parametrize(("text", "is_one"), [("10.0.0.1", True), ("fd83::1", True), ("n1", False), ("1.x", False)])
def test_an_address_is_numeric_if_etc_hosts_can_have_it(text: str, is_one: bool) -> None:
    assert is_numeric(text) is is_one


# --- Versions


def versions(n1: str, n2: str = "24.11.5", answers: tuple[str, ...] = ("c1", "n1", "n2")) -> PlanInput:
    found = {"c1": "24.11.5", "n1": n1, "n2": n2}
    facts = {host: prepared(host, "24.11.5", slurm_versions={"slurmd": found[host]}) for host in answers}
    locks = {host: HostLock(host, hardware=SMALL, slurm=version) for host, version in found.items()}
    return PlanInput(cluster(), Lock(slurm="24.11.5", hosts=locks), facts)


def test_the_slurm_of_a_host_is_what_it_has_or_what_the_lock_knows() -> None:
    assert str(versions("24.05.1").slurm_of("n1")) == "24.05"
    assert str(versions("24.05.1", answers=("c1",)).slurm_of("n1")) == "24.05"
    assert str(versions("", answers=("c1",)).slurm_of("n1")) == "24.11"
    assert str(versions("24.05.1", answers=("c1",)).slurm_of("x")) == "24.11"


@pytest.mark.parametrize(
    ("n1", "answers", "oldest"),
    [
        ("24.11.5", ("c1", "n1", "n2"), "24.11"),
        ("24.05.1", ("c1", "n1", "n2"), "24.05"),
        ("24.05.1", ("c1", "n2"), "24.05"),
        ("22.05.8", ("c1", "n1", "n2"), "24.11"),
        ("26.05.5", ("c1", "n1", "n2"), "24.11"),
    ],
)
def test_files_are_for_the_oldest_slurm_that_can_talk_to_slurmctld(
    n1: str, answers: tuple[str, ...], oldest: str
) -> None:
    assert str(versions(n1, answers=answers).oldest_slurm) == oldest


# --- What the controller has


SECRETS = f"{DEPLOYED}JobCompPass=secret\n"


@pytest.mark.parametrize(
    ("text", "conf", "kept"),
    [
        (BASE, SECRETS, {"JobCompPass": "secret"}),
        (BASE, DEPLOYED, {}),
        (BASE + "slurm_conf: {JobCompPass: null}\n", SECRETS, {}),
        (BASE, SECRETS.replace("secret", ""), {}),
        (BASE, f"{SECRETS}accountingstoragepass=other\n", {"JobCompPass": "secret", "AccountingStoragePass": "other"}),
    ],
)
def test_a_password_that_is_there_stays_unless_the_cluster_file_mentions_it(
    text: str, conf: str, kept: dict[str, str]
) -> None:
    there = made(text, conf)
    assert there.passwords_there == kept
    assert ("JobCompPass=secret" in there.rendered["slurm.conf"]) is bool(kept)
    assert PlanInput(there.cluster, there.lock, {}).passwords_there == {}


def test_files_that_are_kept_do_not_differ_and_are_told_apart() -> None:
    conf = DEPLOYED.replace("ClusterName=lab", "ClusterName=lab\nKillWait=99")
    kept = made(BASE + "keep_files: true\n", conf)
    assert kept.keeps_files
    assert kept.differences == kept.site_differences == ()
    assert "KillWait: 99 -> 30" in [str(one) for one in kept.kept_differences]
    assert kept.hand_made["slurm.conf"] == conf
    first = made(BASE + "keep_files: true\n")
    assert (first.keeps_files, first.kept_differences) == (False, ())
    assert made(BASE, conf).kept_differences == ()


def test_nodes_run_what_the_cluster_file_asks_for_before_and_after_jobs() -> None:
    def programs(more: str) -> tuple[bool, bool, int, bool]:
        found = node_programs(cluster(BASE + more))
        return found.has_prolog, found.has_epilog, found.health_interval, found.has_task_prolog

    assert programs("") == (False, False, 0, False)
    assert programs("prolog: p.sh\n") == (True, False, 0, False)
    assert programs("epilog: e.sh\n") == (False, True, 0, False)
    assert programs("scratch: {size: 1G}\n")[3]
    assert programs("job_environment: {all: {A: b}}\n")[3]
    assert programs("health: {interval: 120}\n")[2] == 120


def test_nodes_that_always_stay_on_are_excluded_from_saving_power() -> None:
    how = "how: {command: {suspend: /opt/off, resume: /opt/on}}"
    found = power_saving(cluster(f"{BASE}power: {{nodes: [n1, n2], keep: n2, rate: 3, {how}}}\n"))
    assert found
    assert (found.always_on, found.rate) == ("n2", 3)
    assert power_saving(cluster(BASE)) is None


@pytest.mark.parametrize(
    ("cpus", "memory", "gpus", "less"),
    [(4, 16000, 1, False), (8, 32000, 2, False), (3, 16000, 1, True), (4, 15999, 1, True), (4, 16000, 0, True)],
)
def test_a_node_lacks_what_the_lock_says_and_it_has_not(cpus: int, memory: int, gpus: int, less: bool) -> None:
    known = HostLock(hardware=SMALL, gpus=(Gpu("/dev/nvidia0"),))
    there = dataclasses.replace(SMALL, CPUs=cpus, RealMemory=memory)
    fact = prepared("n1", hardware=there, gpus=tuple(Gpu(f"/dev/nvidia{number}") for number in range(gpus)))
    assert lacks(known, fact) is less
    assert lacks(dataclasses.replace(known, hardware=None), fact) is False
    assert lacks(known, dataclasses.replace(fact, hardware=None)) is False


@pytest.mark.parametrize(
    ("more", "versions"),
    [("", ["24.11", "24.05", "23.11", "23.02"]), ("private_tmp: true\n", ["24.11"])],
)
def test_hand_made_files_are_compared_with_those_for_this_slurm_and_then_for_the_newest_before(
    monkeypatch: pytest.MonkeyPatch, more: str, versions: list[str]
) -> None:
    found = prepared_input(THREE_HOSTS + more)
    seen = list[str]()

    def rendered(conf: render.SlurmConf) -> dict[str, str]:
        assert conf.version == conf.oldest
        seen.append(conf.version)
        return {}

    monkeypatch.setattr(render, "render", rendered)
    assert len(list(found.comparable_files())) == len(versions)
    assert seen == versions


@pytest.mark.parametrize(
    ("conf", "seconds"),
    [("", 300), (DEPLOYED, 300), (f"{DEPLOYED}MinJobAge=7\n", 7), (f"{DEPLOYED}MinJobAge=0\n", 0),
     (f"{DEPLOYED}MinJobAge=x\n", 300)],
)  # fmt: skip
def test_ended_jobs_are_kept_as_long_as_the_slurm_conf_of_now_says(conf: str, seconds: int) -> None:
    assert min_job_age(made(BASE, conf)) == seconds


@pytest.mark.parametrize(("conf", "differ"), [("", []), (DEPLOYED, ["topology.conf"])])
def test_files_of_the_site_differ_where_slurm_runs_already(conf: str, differ: list[str]) -> None:
    there = dataclasses.replace(made(BASE, conf), slurm_files=(SiteFile("topology.conf", "SwitchName=s Nodes=n1\n"),))
    assert [one.name for one in there.differences if one.kind == "file"] == differ
    assert [one.name for one in there.site_differences] == ["topology.conf"]
