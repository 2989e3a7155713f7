"""What a plan says about jobs of root, and about hosts that compute beside something else."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import cluster, facts_of, plan_input, prepared

from slurmfab.cluster.inventory import loading
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.core.engine.notices import ROOT_REFUSED, root_jobs
from slurmfab.core.impact.restart_requirements import Requirement, need
from slurmfab.core.impact.slurm_diff import Difference
from slurmfab.core.plan.hand_made_files import ROOT_JOBS
from slurmfab.core.plan.plan_input import PlanInput

HEAD = "cluster: lab\ncontrollers: [c1]\ndatabase: d1\n"
APART = HEAD + "nodes: [{hosts: n1}]\n"
BESIDE = HEAD + "nodes: [{hosts: 'c1,n1'}]\n"
ALONE = "cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: c1}]\n"

COMPUTES = "is a compute node, too, as the cluster file says, so users' jobs run beside "
ROOT_COMES = ", and root of any other host of the cluster can become root here"


def planned(text: str, *, slurm: str = "24.11.5", had: str | None = None) -> PlanInput:
    """The input of a plan where the controller has the cluster's own slurm.conf, with this in place of DisableRootJobs.

    Args:
        text: the cluster file.
        slurm: the version of Slurm.
        had: the line that the controller has; `None` if it has no slurm.conf at all.
    """
    wanted = cluster(text)
    facts = facts_of(wanted, prepared, slurm=slurm)
    if had is None:
        return plan_input(wanted, facts)
    files = {name.replace(".", "_"): text for name, text in plan_input(wanted, facts).files}
    files["slurm_conf"] = files["slurm_conf"].replace("DisableRootJobs=YES\n", had)
    return plan_input(wanted, facts | {"c1": prepared("c1", slurm=slurm, **files)})


@pytest.mark.parametrize("slurm", ["22.05.8", "24.11.5"])
@pytest.mark.parametrize("had", ["", "DisableRootJobs=NO\n"], ids=["none", "no"])
def test_jobs_of_root_when_they_were_let_in_before_then_the_plan_says_what_changes(slurm: str, had: str) -> None:
    wanted = planned(APART, slurm=slurm, had=had)
    assert list(root_jobs(wanted)) == [("c1", ROOT_REFUSED)]
    assert [(one.name, one.actual.upper(), one.wanted) for one in wanted.differences if one.kind == "setting"] == [
        ("DisableRootJobs", had.strip().partition("=")[2], "YES")
    ]


@pytest.mark.parametrize(
    ("said", "had"),
    [
        ("", "DisableRootJobs=YES\n"),
        ("slurm_conf: {DisableRootJobs: NO}\n", "DisableRootJobs=NO\n"),
        ("slurm_conf: {DisableRootJobs: null}\n", ""),
    ],
    ids=["refused-already", "kept", "left-to-slurm"],
)
def test_jobs_of_root_when_nothing_changes_for_them_then_nothing_is_said(said: str, had: str) -> None:
    assert list(root_jobs(planned(APART + said, had=had))) == []


@pytest.mark.parametrize("had", [None, ""], ids=["new-cluster", "cluster-of-an-earlier-version"])
def test_a_controller_when_it_computes_then_it_is_said_once_what_that_means(had: str | None) -> None:
    said = [one for one in root_jobs(planned(BESIDE, had=had)) if one[1] != ROOT_REFUSED]
    assert said == [("c1", f"{COMPUTES}slurmctld{ROOT_COMES}")]
    assert list(root_jobs(planned(BESIDE, had="DisableRootJobs=YES\n"))) == []


def test_a_controller_that_begins_to_compute_then_it_is_said() -> None:
    before = planned(APART, had="DisableRootJobs=YES\n").controller_facts
    wanted = cluster(HEAD + "nodes: [{hosts: 'c1,n1'}]\n")
    found = plan_input(wanted, facts_of(wanted, prepared) | {"c1": before})
    assert list(root_jobs(found)) == [("c1", f"{COMPUTES}slurmctld{ROOT_COMES}")]


def test_a_single_host_is_a_cluster_of_one_node_and_is_told_so_without_other_hosts() -> None:
    assert list(root_jobs(planned(ALONE))) == [("c1", f"{COMPUTES}slurmctld")]


@pytest.mark.parametrize("version", [SlurmVersion(22, 5), SlurmVersion(24, 11), SlurmVersion(26, 5)])
def test_jobs_of_root_when_they_become_refused_then_a_reconfigure_is_enough(version: SlurmVersion) -> None:
    comes = Difference("slurm.conf", "setting", ROOT_JOBS, wanted="YES")
    assert need(comes, version) == Requirement.RECONFIGURE


def test_a_cluster_whose_other_hosts_do_not_compute_then_nothing_is_said() -> None:
    assert list(root_jobs(planned(APART))) == []


EXAMPLES = sorted((Path(__file__).parents[3] / "configs").glob("example-*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_shipped_example_has_no_controller_that_computes(path: Path) -> None:
    shipped = loading.parse(path.read_text(), str(path))
    assert not {*shipped.compute_nodes} & {*shipped.controllers}
