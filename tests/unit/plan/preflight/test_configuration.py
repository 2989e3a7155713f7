"""What a deployment refuses before it replaces the controller's files."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from support import cluster, facts_of, plan_input, prepared, prepared_input

from slurmfab.base.errors import InputError
from slurmfab.cluster.facts import Cgroup, Gpu
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.plan.preflight import configuration, gpu_checks

BASE = "cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: 'n[1-2]'}]\n"
CONF = """\
ClusterName=lab
SlurmctldHost=c1
SlurmUser=slurm
StateSaveLocation=/var/lib/slurm/slurmctld
NodeName=n[1-2] CPUs=4
PartitionName=main Nodes=ALL
"""


def made(more: str = "", conf: str = CONF, *, answers: tuple[str, ...] = (), **facts: Any) -> PlanInput:
    """What a plan is made from where c1 has this slurm.conf; all hosts answer unless some are named."""
    wanted = cluster(BASE + more)
    found = facts_of(wanted, prepared, **facts)
    digests = {host: f"digest of {host}" for host in found}
    found = {host: dataclasses.replace(one, slurm_conf_digest=digests[host]) for host, one in found.items()}
    found["c1"] = dataclasses.replace(found["c1"], slurm_conf=conf)
    some = {host: found[host] for host in answers or found}
    return plan_input(wanted, some, found)


def reason(refuse: Any, *words: Any) -> str:
    """Why something is refused; empty if it is not."""
    try:
        refuse(*words)
    except InputError as error:
        return str(error)
    return ""


# --- SlurmUser


@pytest.mark.parametrize(
    ("more", "conf", "found"),
    [
        ("", CONF, ""),
        ("", CONF.replace("SlurmUser=slurm", "SlurmUser=64030"), ""),
        ("", CONF.replace("SlurmUser=slurm", "SlurmUser=slurm(64030)"), ""),
        ("", CONF.replace("SlurmUser=slurm\n", ""), ""),
        ("", "", ""),
        ("slurm_user: root\n", "", ""),
        ("slurm_user: root\n", CONF.replace("SlurmUser=slurm\n", ""), ""),
        ("", CONF.replace("SlurmUser=slurm", "SlurmUser=hpc"), "hpc"),
        ("", CONF.replace("SlurmUser=slurm", "SlurmUser=450"), "450"),
        ("slurm_user: root\n", CONF, "slurm"),
        ("slurm_user: hpc\n", CONF.replace("SlurmUser=slurm\n", ""), "root"),
    ],
)
def test_another_slurm_user_than_that_of_the_state_is_refused(more: str, conf: str, found: str) -> None:
    told = reason(configuration.refuse_other_slurm_user, made(more, conf))
    assert bool(told) is bool(found)
    if found:
        assert told.startswith(f"SlurmUser is {found} on c1, and slurm_user in the cluster file is ")
        assert f"Set slurm_user: {found};" in told


# --- Files that are kept


KEPT = "keep_files: true\n"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("", "", ""),
        ("ClusterName=lab", "ClusterName=lab\nKillWait=99", ""),
        ("n[1-2] CPUs=4", "n[1-2] CPUs=2", ""),
        ("SlurmctldHost=c1", "SlurmctldHost=c1\nSlurmctldPort=7000", "slurm.conf of c1: SlurmctldPort"),
        ("NodeName=n[1-2]", "NodeName=n[1-3]", "slurm.conf of c1: node"),
        ("SlurmctldHost=c1", "SlurmctldHost=other", "slurm.conf of c1: SlurmctldHost"),
    ],
)
def test_files_that_are_kept_have_to_name_the_hosts_ports_and_places_of_the_cluster_file(
    old: str, new: str, words: str
) -> None:
    told = reason(configuration.refuse_kept_files, made(KEPT, CONF.replace(old, new) if old else CONF))
    assert bool(told) is bool(words)
    assert words in told
    assert reason(configuration.refuse_kept_files, made("", CONF.replace(old, new) if old else CONF)) == ""


def test_files_that_are_kept_have_to_be_on_every_host_that_reads_its_own() -> None:
    there = made(KEPT)
    facts = {**there.facts, "n2": dataclasses.replace(there.facts["n2"], slurm_conf_digest="")}
    told = reason(configuration.refuse_kept_files, dataclasses.replace(there, facts=facts))
    assert "n2: there is no slurm.conf" in told
    assert "Slurm's files stay as they are (keep_files)" in told
    ours = made(KEPT, f"# Made by slurmfab\n{CONF}")
    facts = {**ours.facts, "n2": dataclasses.replace(ours.facts["n2"], slurm_conf_digest="")}
    assert "no slurm.conf" not in reason(configuration.refuse_kept_files, dataclasses.replace(ours, facts=facts))


# --- Some of the hosts


@pytest.mark.parametrize(
    ("more", "conf", "hosts", "is_refused"),
    [
        ("", CONF, ("c1", "n1", "n2"), False),
        ("slurm_conf: {KillWait: 99}\n", CONF, ("c1", "n1", "n2"), False),
        ("slurm_conf: {KillWait: 99}\n", CONF, ("c1", "n1"), True),
        ("slurm_conf: {KillWait: 99}\n", "", ("c1", "n1"), False),
    ],
)
def test_slurm_conf_changes_on_all_hosts_or_on_none(
    more: str, conf: str, hosts: tuple[str, ...], is_refused: bool
) -> None:
    assert bool(reason(configuration.refuse_uneven_files, made(more, conf), hosts)) is is_refused


def test_a_run_about_some_hosts_goes_on_where_their_files_are_right_already() -> None:
    files = dict(made().files)
    there = made(conf=files["slurm.conf"], cgroup_conf=files["cgroup.conf"])
    assert reason(configuration.refuse_uneven_files, there, ("c1", "n1")) == ""


# --- Nodes that let in users with a job


CLOSED = "node_logins: with_job\nslurm_user: slurm\n"


@pytest.mark.parametrize(
    ("more", "cgroup", "is_refused"),
    [
        (CLOSED, None, False),
        (CLOSED, Cgroup("none"), True),
        ("", Cgroup("none"), False),
        (CLOSED + "slurm_conf: {PrologFlags: X11}\n", None, False),
        (CLOSED + "slurm_conf: {PrologFlags: 'Alloc, Contain'}\n", None, False),
    ],
)
def test_nodes_that_let_in_who_has_a_job_need_control_groups(
    more: str, cgroup: Cgroup | None, is_refused: bool
) -> None:
    there = made(more, **({"cgroup": cgroup} if cgroup else {}))
    told = reason(configuration.refuse_closed_nodes_without_control_groups, there)
    assert bool(told) is is_refused
    assert not told or "node_logins: with_job needs control groups" in told


@pytest.mark.parametrize(
    ("lines", "is_refused"),
    [
        ("", True),
        ("ProctrackType=proctrack/cgroup\n", True),
        ("PrologFlags=Contain\n", True),
        ("PrologFlags=Alloc,Contain\nProctrackType=proctrack/cgroup\n", False),
        ("PrologFlags=X11\nProctrackType=proctrack/cgroup\n", False),
    ],
)
def test_files_that_are_kept_have_to_tell_a_jobs_processes_too(lines: str, is_refused: bool) -> None:
    told = reason(configuration.refuse_closed_nodes_without_control_groups, made(CLOSED + KEPT, CONF + lines))
    assert bool(told) is is_refused


# --- Keys that some Slurm does not know


def test_keys_are_known_to_slurmctld_and_to_the_oldest_slurm_that_reads_them() -> None:
    there = made("slurm_conf: {NoSuchKey: 1}\n")
    told = reason(configuration.refuse_unknown_keys, there)
    assert told.count("slurm_conf.NoSuchKey") == 1, "once for one version"
    assert told.endswith("Change that in the cluster file; nothing was changed on any host.")
    older = {**there.facts, "n2": dataclasses.replace(there.facts["n2"], slurm_versions={"slurmd": "24.05.1"})}
    mixed = reason(configuration.refuse_unknown_keys, dataclasses.replace(there, facts=older))
    assert mixed.count("slurm_conf.NoSuchKey") == 2
    assert "or bring n2 (Slurm 24.05) to a newer Slurm first: fab upgrade; nothing was changed" in mixed


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("nodes: [{hosts: 'n[1-2]', NoNodeKey: 1}]\n", "NoNodeKey"),
        ("partitions: [{PartitionName: a, Nodes: ALL, NoKey: 1}]\n", "NoKey"),
        ("cgroup_conf: {NoKey: 1}\n", "cgroup_conf.NoKey"),
        ("database: c1\nslurmdbd_conf: {NoKey: 1}\n", "slurmdbd_conf.NoKey"),
    ],
)
def test_unknown_keys_of_each_section_are_named(more: str, words: str) -> None:
    text = BASE.replace("nodes: [{hosts: 'n[1-2]'}]\n", "") + more if more.startswith("nodes") else BASE + more
    wanted = cluster(text)
    assert words in reason(configuration.refuse_unknown_keys, prepared_input(wanted))


@pytest.mark.parametrize("key", ["AutoDetect: nvml", "File: /dev/odd0"])
def test_keys_of_gres_conf_may_stand_in_a_group_of_nodes(key: str) -> None:
    wanted = cluster(BASE.replace("'n[1-2]'}", f"'n[1-2]', {key}, Weight: 2}}"))
    configuration.refuse_unknown_keys(prepared_input(wanted))


# --- GPUs that are to be measured


@pytest.mark.parametrize(
    ("more", "gpus", "answers", "words"),
    [
        ("", (), (), ""),
        ("gpu_checks: {}\n", (), (), "gpu_checks: no node has GPUs, so there is nothing to check"),
        ("gpu_checks: {}\n", ("a100",), (), ""),
        ("gpu_checks: {min_busbw: {a100: 1, h100: 2}}\n", ("a100",), (), "of the type h100 (known: a100)"),
        ("gpu_checks: {min_busbw: {h100: 2}, between_nodes: {h100: 1, v100: 1}}\n", ("a100", "b"), (),
         "of the type h100 or v100 (known: a100, b)"),
        ("gpu_checks: {min_busbw: {gpu: 1}}\n", ("",), (), ""),
        ("gpu_checks: {min_busbw: {a100: 1}}\n", ("a100",), (), ""),
    ],
)  # fmt: skip
def test_bandwidths_are_of_gpus_that_some_node_has(
    more: str, gpus: tuple[str, ...], answers: tuple[str, ...], words: str
) -> None:
    there = made(more, answers=answers, gpus=tuple(Gpu(f"/dev/nvidia{n}", one) for n, one in enumerate(gpus)))
    told = reason(gpu_checks.refuse_unfit, there)
    assert bool(told) is bool(words)
    assert words in told


def test_bandwidths_are_not_judged_while_a_nodes_hardware_is_unknown() -> None:
    wanted = cluster(f"{BASE}gpu_checks: {{min_busbw: {{h100: 1}}}}\n")
    facts = {host: prepared(host) for host in ("c1", "n1")}
    assert reason(gpu_checks.refuse_unfit, plan_input(wanted, facts)) == ""


def test_types_of_gpus_are_those_of_the_cluster_file_where_it_has_some() -> None:
    there = prepared_input(
        "cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: n1, Gres: 'gpu:v100:2'}]\n",
        gpus=(Gpu("/dev/nvidia0", "a100"),),
    )
    assert gpu_checks.types_of(there, "n1") == {"v100"}
