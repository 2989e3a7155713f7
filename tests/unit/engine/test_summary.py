"""The end of a run: what failed, how much was changed, and the next step."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from slurmfab.base.errors import HostError, Unreachable
from slurmfab.base.exit_codes import LEFT_OUT
from slurmfab.cluster.inventory import loading
from slurmfab.core.engine.report import Report, Step
from slurmfab.core.engine.summary import after_new_nodes, after_plan, next_step, summary
from slurmfab.core.impact.approvals import Approvals, DeployOptions
from slurmfab.core.impact.disruptive_changes import Disruption
from slurmfab.core.impact.forecast import Forecast
from slurmfab.core.impact.job_tally import JobEnd, JobTally
from slurmfab.on_hosts.agent.core.resource import Change, Outcome

CHANGED = Step("users", "n1", (Outcome("user:slurm", "changed", (Change("uid", "1001", "64030"),)),), 0.5)
WOULD = Step("users", "n1", (Outcome("user:slurm", "would change"),))
FAILED = Step("slurmd", "n1", (Outcome("service:slurmd", "failed", message="it does not stay active"),))
DEFAULT = Path("configs/cluster.yaml")
LOST = (JobEnd("7", "ann", "n1", "NODE_FAIL"),)


@pytest.fixture(autouse=True)
def default_cluster_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(loading.PATH_VARIABLE, raising=False)


def report(*steps: Step, command: str = "deploy", **lost: HostError) -> Report:
    return Report(command, "lab", ("c1", "n1"), steps, lost, 2.0)


def test_the_summary_of_a_run_without_changes() -> None:
    assert summary(report()) == "lab: nothing changed on 2 hosts, all is as wanted (2.0 s)."


def test_the_summary_does_not_say_that_all_is_as_wanted_where_hardware_is_not() -> None:
    text = summary(dataclasses.replace(report(), other_hardware=("n1", "n2")))
    assert text == "lab: nothing changed on 2 hosts, done; hardware of n[1-2] differs from the lock (2.0 s)."


def test_the_summary_counts_changes() -> None:
    assert summary(report(CHANGED)) == "lab: 1 change on 2 hosts, all is as wanted (2.0 s)."
    assert "2 changes" in summary(report(CHANGED, CHANGED))
    leaving = dataclasses.replace(CHANGED, host="n4")
    assert summary(report(CHANGED, leaving)).startswith("lab: 2 changes on 3 hosts, ")


def test_the_summary_names_what_failed_and_where() -> None:
    lost = HostError("n1", "service:slurmd: it does not stay active")
    assert summary(report(CHANGED, FAILED, n1=lost)).splitlines() == [
        "n1: service:slurmd: it does not stay active",
        "lab: 1 change on 2 hosts; not done: n1 (2.0 s).",
    ]


def test_the_summary_folds_hosts_that_are_dead_for_one_reason() -> None:
    lost = {f"n{number}": Unreachable(f"n{number}", f"nothing listens at 10.0.0.{number}.") for number in range(2, 97)}
    lost["n7"] = Unreachable("n7", "the name n7 does not resolve.")
    lost["n8"] = Unreachable("n8", "the name n8 does not resolve.")
    assert summary(report(**lost)).splitlines() == [
        "n[2-6,9-96]: nothing listens at 10.0.0.[2-6,9-96].",
        "n[7-8]: the name n[7-8] does not resolve.",
        "lab: nothing changed on 2 hosts; not done: n[2-96] (2.0 s).",
    ]


@pytest.mark.parametrize(("after", "reason"), [(1, "jobs were lost"), (None, "slurmctld does not answer")])
def test_the_summary_of_a_run_that_may_have_lost_jobs_says_so_first(after: int | None, reason: str) -> None:
    broken = dataclasses.replace(report(), jobs=JobTally(2, after, lost=LOST if after else ()))
    last = summary(broken).splitlines()[-1]
    assert last == f"lab: FAILED: {reason} (see above); nothing changed on 2 hosts (2.0 s)."
    assert next_step(broken, DEFAULT) == ""


@pytest.mark.parametrize(
    ("told", "next_one"),
    [
        (report(), ""),
        (report(CHANGED), ""),
        (report(n1=Unreachable("n1", "off.")), "continue with these hosts: fab deploy --retry-failed"),
        (report(command="rollback", n1=Unreachable("n1", "off.")), "run the same command again; it continues"),
        (report(command="drain", n1=HostError("n1", "jobs still run.")), "run the same command again; it continues"),
        (report(FAILED), "run the same command again; it continues"),
        (report(CHANGED, command="add-node"), "Next: fab check-cluster; then commit configs/cluster.yaml and "),
        (report(CHANGED, command="replace-node"), "Next: fab check-cluster; then commit configs/cluster.yaml and "),
        (report(CHANGED, command="add-node", n1=Unreachable("n1", "off.")), "fab deploy --retry-failed"),
        (report(CHANGED, command="remove-node"), "Next: commit configs/cluster.yaml and configs/cluster.lock.json."),
    ],
)
def test_the_next_step_is_one_line_where_there_is_one(told: Report, next_one: str) -> None:
    line = next_step(told, DEFAULT)
    assert next_one in line
    assert bool(line) == bool(next_one)
    assert len(line.splitlines()) == bool(next_one)


def test_the_next_step_names_the_cluster_file_unless_it_is_the_default_one() -> None:
    assert after_new_nodes(Path("/a b/lab.yaml")) == (
        "Next: fab check-cluster --cluster '/a b/lab.yaml'; then commit /a b/lab.yaml and /a b/lab.lock.json."
    )


@pytest.mark.parametrize(
    ("steps", "options", "line"),
    [
        ((), DeployOptions(), ""),
        ((FAILED,), DeployOptions(), "Next: fix the cause, then plan again."),
        ((WOULD, FAILED), DeployOptions(), "Next: fix the cause, then plan again."),
        ((WOULD,), DeployOptions(), "Next: fab deploy"),
        (
            (WOULD,),
            DeployOptions("n[1-2]", approvals=Approvals(move_ids=True, prune=True)),
            "Next: fab deploy --hosts 'n[1-2]' --move-ids --prune",
        ),
    ],
)
def test_after_a_plan_comes_the_deployment_that_it_shows(
    steps: tuple[Step, ...], options: DeployOptions, line: str
) -> None:
    assert after_plan(report(*steps, command="plan"), options, DEFAULT) == line


def test_after_a_plan_that_would_be_refused_the_refusal_says_what_to_try() -> None:
    danger = Disruption("partition-removed", "partition debug: removed", "It hurts.", (), ())
    refused = dataclasses.replace(report(WOULD), forecast=Forecast(disruptions=(danger,)))
    assert after_plan(refused, DeployOptions(), DEFAULT) == ""


def test_a_home_that_cannot_be_reached_is_told_and_all_else_is_done() -> None:
    outcome = Outcome("person-home:/home/ann", "failed", message="the home of ann, /home/ann, cannot be reached: late")
    found = report(Step("homes", "n1", (outcome,)))
    assert found.exit_code == LEFT_OUT
    assert not found.steps[0].fatal
    assert summary(found).splitlines() == [
        "n1: person-home:/home/ann: the home of ann, /home/ann, cannot be reached: late",
        "lab: nothing changed on 2 hosts; not done: n1 (2.0 s).",
    ]
