"""Which hosts have Slurm's files, which of them daemons watch, and what is taken away."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from support import THREE_HOSTS, cluster, facts_of, plan_input, prepared

from slurmfab.core.plan.phases import slurm_conf
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.reading import MADE_BY_SLURMFAB
from slurmfab.on_hosts.agent.files.file import Absent

DATABASE = THREE_HOSTS.replace("addresses: {", "addresses: {d1: 10.0.0.9, ") + "database: d1\n"
HAND_MADE = "# ann, 2019\nClusterName=lab\nSlurmctldHost=c1\nNodeName=n[1-2] CPUs=4\nPartitionName=p Nodes=ALL\n"
CONFIGLESS = THREE_HOSTS + "configless: true\n"
PRIVATE = THREE_HOSTS + "private_tmp: {BasePath: /srv/tmp}\n"
OWN = THREE_HOSTS + "slurm_files: {job_container.conf: own.conf}\n"


def made(text: str = THREE_HOSTS, conf: str = "", **facts: Any) -> PlanInput:
    """What a plan is made from where c1 has this slurm.conf."""
    wanted = cluster(text)
    found = facts_of(wanted, prepared, **facts)
    found["c1"] = dataclasses.replace(found["c1"], slurm_conf=conf)
    return plan_input(wanted, found)


@pytest.mark.parametrize(
    ("text", "has_ours", "is_gone"),
    [
        (THREE_HOSTS, True, True),
        (THREE_HOSTS, False, False),
        (PRIVATE, True, False),
        (OWN, True, False),
    ],
)
def test_our_job_container_conf_goes_where_nobody_wants_one_any_more(text: str, has_ours: bool, is_gone: bool) -> None:
    there = made(text, job_container_conf=MADE_BY_SLURMFAB if has_ours else "BasePath=/x\n")
    assert slurm_conf.had_private_tmp(there, "n1") is is_gone
    path = Absent("/etc/slurm/job_container.conf")
    assert (path in slurm_conf.resources(there, "n1")) is is_gone
    assert slurm_conf.had_private_tmp(there, "elsewhere") is False


@pytest.mark.parametrize(
    ("text", "host", "facts", "is_about"),
    [
        (CONFIGLESS, "n1", {"services": {"slurmd": "active"}}, True),
        (CONFIGLESS, "n1", {"services": {"slurmd": "inactive"}}, False),
        (CONFIGLESS, "n1", {}, False),
        (CONFIGLESS, "n1", {"services": {"slurmd": "active"}, "fetches": True}, False),
        (CONFIGLESS, "c1", {"services": {"slurmd": "active"}}, False),
        (CONFIGLESS, "elsewhere", {"services": {"slurmd": "active"}}, False),
        (THREE_HOSTS, "n1", {"services": {"slurmd": "active"}}, False),
    ],
)
def test_a_node_keeps_its_files_until_its_slurmd_fetches_them(
    text: str, host: str, facts: dict[str, Any], is_about: bool
) -> None:
    there = made(text, **facts)
    assert slurm_conf.is_about_to_fetch(there, host) is is_about
    if host == "n1":
        assert slurm_conf.has_own_files(there, host) is (is_about or text == THREE_HOSTS)


@pytest.mark.parametrize(
    ("conf", "digest", "host", "lives"),
    [
        (HAND_MADE, "", "d1", True),
        (HAND_MADE, "x", "d1", False),
        ("", "", "d1", False),
        (HAND_MADE, "", "n1", False),
    ],
)
def test_a_host_of_slurmdbd_alone_needs_no_slurm_conf_beside_hand_made_files(
    conf: str, digest: str, host: str, lives: bool
) -> None:
    there = made(DATABASE + "keep_files: true\n", conf, slurm_conf_digest=digest)
    assert slurm_conf.lives_without_files(there, host) is lives
    assert slurm_conf.has_own_files(there, host) is not lives
    assert slurm_conf.lives_without_files(dataclasses.replace(there, facts={}), "d1") is False


def test_before_23_11_daemons_do_not_watch_hand_made_files_which_somebody_may_have_loaded() -> None:
    paths = ("/etc/slurm/slurm.conf", "/etc/slurm/cgroup.conf")
    assert slurm_conf.watched(made(THREE_HOSTS, HAND_MADE), "c1", paths) == paths
    kept = THREE_HOSTS + "keep_files: true\n"
    assert slurm_conf.watched(made(kept, HAND_MADE, slurm="22.05.8"), "c1", paths) == ()
    assert slurm_conf.watched(made(slurm="22.05.8"), "c1", paths) == paths


def test_slurmd_reads_the_file_of_private_directories_where_there_are_some() -> None:
    path = "/etc/slurm/job_container.conf"
    assert path in slurm_conf.read_by_slurmd(made(PRIVATE))
    assert path not in slurm_conf.read_by_slurmd(made())


@pytest.mark.parametrize(
    ("text", "conf", "is_another"),
    [
        (THREE_HOSTS, "", False),
        (THREE_HOSTS, HAND_MADE, False),
        (THREE_HOSTS, HAND_MADE.replace("=lab", "=other"), True),
    ],
)
def test_a_cluster_with_another_name_is_another_one(text: str, conf: str, is_another: bool) -> None:
    assert slurm_conf.is_another(made(text, conf)) is is_another
