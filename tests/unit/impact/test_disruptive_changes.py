"""The changes that hurt: whom, in which version, and what people are told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurmfab.base.errors import InputError
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.core.impact.approvals import Approvals
from slurmfab.core.impact.disruptive_changes import (
    NAMES,
    RULES,
    Disruption,
    disruptions,
    refusal,
    refused,
    require_known,
)
from slurmfab.core.impact.restart_requirements import Requirement, need
from slurmfab.core.impact.slurm_diff import Difference
from slurmfab.core.status.snapshot import Job

OLD, NEW = SlurmVersion(22, 5), SlurmVersion(24, 11)


def job(number: str, *, nodes: str = "", partition: str = "main", user: str = "ann", gpus: int = 0) -> Job:
    state = "RUNNING" if nodes else "PENDING"
    return Job(number, number, user, tuple(partition.split(",")), state, "", 1, 1, gpus, 60, "1:00", nodes, "x")


def setting(name: str, actual: str = "x", wanted: str = "y") -> Difference:
    return Difference("slurm.conf", "setting", name, actual=actual, wanted=wanted)


def node(name: str, key: str = "", actual: str = "there", wanted: str = "") -> Difference:
    return Difference("slurm.conf", "node", name, key, actual, wanted, (name,))


ON_N1, ON_N2, ON_BOTH, GPU_ON_N2, WAITS = (
    job("1", nodes="n1"),
    job("2", nodes="n2", user="bob"),
    job("3", nodes="n[1-2]", partition="debug"),
    job("4", nodes="n2", gpus=1),
    job("5", partition="main,debug"),
)
JOBS = (ON_N1, ON_N2, ON_BOTH, GPU_ON_N2, WAITS)
RUNNING = (ON_N1, ON_N2, ON_BOTH, GPU_ON_N2)
TO_IPV6 = setting("SlurmctldHost", "c(10.0.0.1)", "c(fd83::1)")
DEBUG = Difference("slurm.conf", "partition", "debug", actual="there", nodes=("n1", "n2"))


@pytest.mark.parametrize(
    ("difference", "version", "name", "hurt"),
    [
        (setting("SlurmdTimeout"), NEW, "", ()),
        (Difference("slurm.conf", "text", "comments or order"), NEW, "", ()),
        (setting("StateSaveLocation"), NEW, "", ()),
        (setting("SlurmdPort"), OLD, "", ()),
        (setting("SlurmctldPort"), OLD, "SlurmctldPort", RUNNING),
        (setting("SlurmctldPort"), NEW, "SlurmctldPort", RUNNING),
        (setting("SlurmctldPort", "", "6817"), OLD, "", ()),
        (TO_IPV6, NEW, "controller-ipv6", RUNNING),
        (TO_IPV6, OLD, "", ()),
        (setting("SlurmctldHost", "c(fd83::1)", "c(10.0.0.1)"), NEW, "", ()),
        (setting("SlurmctldHost", "c(fd83::1)", "c(fd83::2)"), NEW, "", ()),
        (setting("CommunicationParameters", "", "EnableIPv6"), NEW, "", ()),
        (setting("SlurmdSpoolDir"), OLD, "SlurmdSpoolDir", RUNNING),
        (setting("SlurmdSpoolDir"), NEW, "SlurmdSpoolDir", RUNNING),
        (setting("AuthType"), NEW, "AuthType", RUNNING),
        (setting("CredType"), NEW, "CredType", RUNNING),
        (setting("TLSType"), NEW, "TLSType", RUNNING),
        (setting("ProctrackType"), NEW, "ProctrackType", RUNNING),
        (setting("JobAcctGatherType"), NEW, "JobAcctGatherType", RUNNING),
        (setting("SelectType"), NEW, "SelectType", JOBS),
        (setting("SelectType", "", "select/cons_tres"), NEW, "", ()),
        (setting("SwitchType"), NEW, "SwitchType", JOBS),
        (DEBUG, NEW, "partition-removed", (ON_BOTH, WAITS)),
        (Difference("slurm.conf", "partition", "debug", "Nodes", "n[1-2]", "n1"), NEW, "", ()),
        (node("n1"), NEW, "node-removed", (ON_N1, ON_BOTH)),
        (node("n3"), NEW, "", ()),
        (node("n1", "CPUs", "4", "2"), NEW, "node-cores", (ON_N1, ON_BOTH)),
        (node("n1", "CoresPerSocket", "2", "4"), OLD, "node-cores", (ON_N1, ON_BOTH)),
        (node("n1", "RealMemory", "4000", "1000"), NEW, "", ()),
        (node("n2", "Gres", "", "gpu:2"), NEW, "", ()),
        (node("n2", "Gres", "gpu:2", "gpu:4"), NEW, "node-gres", (GPU_ON_N2,)),
        (node("n2", "Gres", "gpu:2,nic:1", "gpu:2"), NEW, "node-gres", (ON_N2, ON_BOTH, GPU_ON_N2)),
    ],
)
def test_a_change_when_these_jobs_are_there_hurts_some_of_them(
    difference: Difference, version: SlurmVersion, name: str, hurt: tuple[Job, ...]
) -> None:
    found = [(danger.name, danger.jobs) for danger in disruptions((difference,), version, JOBS)]
    assert found == ([(name, hurt)] if name else [])


@pytest.mark.parametrize(
    ("key", "actual", "wanted", "hurt"),
    [
        ("AllowAccounts", "ALL", "physics", {"8"}),
        ("AllowAccounts", "physics", "physics,chemistry", set()),
        ("AllowAccounts", "physics", "ALL", set()),
        ("AllowAccounts", "physics", "", set()),
        ("DenyAccounts", "", "Chemistry", {"8"}),
        ("DenyAccounts", "chemistry", "", set()),
    ],
)
def test_a_partition_when_an_account_may_not_use_it_any_more_then_its_waiting_jobs_are_named(
    key: str, actual: str, wanted: str, hurt: set[str]
) -> None:
    rows = (("6", "physics", ""), ("7", "chemistry", "n1"), ("8", "chemistry", ""), ("9", "", ""))
    jobs = [replace(job(number, nodes=nodes), account=account) for number, account, nodes in rows]
    change = Difference("slurm.conf", "partition", "main", key, actual, wanted)
    found = disruptions((change,), NEW, jobs)
    assert {one.id for danger in found for one in danger.jobs} == hurt
    assert {danger.name for danger in found} == ({"partition-accounts"} if hurt else set())


def test_a_dangerous_change_when_there_are_no_jobs_is_none_but_for_another_cluster_name() -> None:
    differences = (setting("SlurmdSpoolDir"), DEBUG, node("n1"), setting("ClusterName", "old", "new"))
    assert [danger.name for danger in disruptions(differences, NEW, ())] == ["ClusterName"]


def test_a_first_cluster_name_is_no_danger() -> None:
    assert disruptions((setting("ClusterName", "", "lab"),), NEW, JOBS) == ()


def test_what_hurts_needs_drained_nodes_or_no_jobs_at_all_but_for_what_a_restart_hurts() -> None:
    differences = [setting(row.name) for row in RULES if "-" not in row.name]
    differences += [TO_IPV6, DEBUG, node("n1"), node("n1", "CPUs", "4", "2"), node("n2", "Gres", "gpu:2", "gpu:4")]
    differences += [Difference("job_container.conf", "setting", "BasePath", actual="/a", wanted="/b")]
    needed = {
        danger.name: need(difference, NEW)
        for difference in differences
        for danger in disruptions((difference,), NEW, JOBS)
    }
    assert set(needed) == {*NAMES} - {"partition-accounts"}
    others = {name for name, one in needed.items() if one not in (Requirement.DRAINED, Requirement.NO_JOBS)}
    assert others == {"AccountingStorageHost", "ClusterName", "SlurmctldPort"}


def test_draining_helps_the_jobs_that_run_and_not_those_that_wait_in_a_partition() -> None:
    (running,) = disruptions((DEBUG,), NEW, (ON_BOTH,))
    (waiting,) = disruptions((DEBUG,), NEW, (ON_BOTH, WAITS))
    assert (running.drains, waiting.drains) == (("n1", "n2"), ())
    assert (running.helped_by_draining, waiting.helped_by_draining) == (True, False)


def test_a_danger_when_it_is_allowed_or_drained_away_is_not_refused() -> None:
    found = disruptions((DEBUG, node("n1")), NEW, JOBS)

    def names(approvals: Approvals) -> list[str]:
        return [danger.name for danger in refused(found, approvals)]

    assert names(Approvals()) == ["partition-removed", "node-removed"]
    assert names(Approvals(allowed=frozenset({"node-removed"}))) == ["partition-removed"]
    assert names(Approvals(drain_first=True)) == ["partition-removed"]
    assert names(Approvals(drain_first=True, allowed=frozenset({"partition-removed"}))) == []


def test_a_refusal_names_the_change_the_reason_the_jobs_and_what_to_say() -> None:
    found = disruptions((DEBUG, node("n1")), NEW, JOBS)
    assert refusal(found, Approvals()).splitlines() == [
        "partition debug: removed: slurmctld ends all jobs that run or wait in a removed partition.",
        "    job 3 of ann, on n[1-2]",
        "    job 5 of ann, pending in main,debug",
        "    To proceed anyway: add --drain-first --allow partition-removed or --allow partition-removed.",
        "node n1: removed: slurmctld ends the jobs of a removed node and those that wait for it by name; their "
        "processes stay behind. To wait for the jobs and clean the node: fab remove-node.",
        "    job 1 of ann, on n1",
        "    job 3 of ann, on n[1-2]",
        "    To proceed anyway: add --drain-first or --allow node-removed.",
    ]
    assert refusal(found, Approvals(allowed=frozenset(NAMES))) == ""


def test_thousands_of_jobs_when_refused_are_told_in_a_few_lines() -> None:
    crowd = tuple(job(str(number), nodes=f"cn{number:04}", user=f"u{number % 40:02}") for number in range(5000))
    lines = refusal(disruptions((setting("SlurmdSpoolDir"),), NEW, crowd), Approvals()).splitlines()
    assert len(lines) == 11
    assert lines[9] == "    and 4992 more jobs of u00, u01, u02, u03, u04, u05, u06, u07 and others, on cn[0008-4999]"


def test_a_name_that_stands_for_no_danger_is_refused_with_those_that_do() -> None:
    require_known(Approvals(allowed=frozenset(NAMES)))
    with pytest.raises(InputError, match=r"--allow everything, slurmport: unknown name \(known: Cluster"):
        require_known(Approvals(allowed=frozenset({"everything", "slurmport", "node-removed"})))


def test_names_of_dangers_are_keys_of_slurms_or_words_and_none_is_there_twice() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert all(name.isalpha() or name.replace("-", "").islower() for name in NAMES)
    assert isinstance(disruptions((DEBUG,), NEW, JOBS)[0], Disruption)
