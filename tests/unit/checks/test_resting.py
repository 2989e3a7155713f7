"""One breakage is one failure: those that follow from it name it, and are told below it."""

from __future__ import annotations

import ast

import pytest

from slurmfab.commands.checks.resting import ON_ALL_NODES, RESTS, reached, with_causes
from slurmfab.commands.checks.results import Result
from slurmfab.commands.checks.runner import CHECKS

MUNGED, ANSWERS, JOB = "daemons.munged_runs", "daemons.controller_answers", "jobs.job_runs"
SLURMD, TAKES, MANY = "daemons.slurmd_runs", "nodes.node_takes_jobs", "jobs.job_runs_on_many_nodes"
EXISTING = {
    f"{path.stem.removeprefix('test_')}.{one.name.removeprefix('test_')}"
    for path in CHECKS.glob("test_*.py")
    for one in ast.parse(path.read_text()).body
    if isinstance(one, ast.FunctionDef) and one.name.startswith("test_")
}


def failed(name: str, host: str) -> Result:
    group, _, check = name.partition(".")
    return Result(group, check, "it is right", host, "failed")


def test_every_name_that_a_check_rests_on_is_a_check() -> None:
    named = {name for rests in RESTS.values() for name in (*rests.here, *rests.there)}
    assert {*RESTS, *named, *ON_ALL_NODES, *ON_ALL_NODES.values()} <= EXISTING


@pytest.mark.parametrize("host", ["ctl", "n1"])
def test_no_check_rests_on_itself(host: str) -> None:
    rings = [name for name in RESTS if (name, host) in reached((name, host), {}, "ctl")]
    # On the controller, a check of it and one of all hosts about it are the same.
    assert rings == []


@pytest.mark.parametrize(
    ("found", "because"),
    [
        ([(MUNGED, "n1"), (ANSWERS, "n1"), (TAKES, "n1"), (JOB, "n1")], ["", *[f"{MUNGED} on n1"] * 3]),
        ([(MUNGED, "ctl"), (ANSWERS, "ctl"), (ANSWERS, "n1"), (TAKES, "n1")], ["", *[f"{MUNGED} on ctl"] * 3]),
        ([(SLURMD, "n1"), (TAKES, "n1"), (TAKES, "n2")], ["", f"{SLURMD} on n1", ""]),
        ([(MUNGED, "n1"), (SLURMD, "n2"), (TAKES, "n2")], ["", "", f"{SLURMD} on n2"]),
        ([(SLURMD, "ctl"), (TAKES, "n1")], ["", ""]),
        ([(TAKES, "n1"), (MANY, "ctl")], ["", f"{TAKES} on n1"]),
        ([(ANSWERS, "n1"), ("munge.key_is_the_controllers", "n1")], ["munge.key_is_the_controllers on n1", ""]),
        ([("identity.user_has_its_ids.munge", "n1"), (MUNGED, "n1")], ["", "identity.user_has_its_ids.munge on n1"]),
        ([("tools.python", "n1"), (MUNGED, "n1")], ["", ""]),
    ],
)
def test_a_failure_names_the_first_one_from_which_it_follows(found: list[tuple[str, str]], because: list[str]) -> None:
    results = [failed(name, host) for name, host in found]
    assert [one.because for one in with_causes(results, "ctl")] == because


def test_what_passed_or_was_not_run_follows_from_nothing() -> None:
    passed = Result("jobs", "job_runs", "a job runs", "n1", "not run")
    assert with_causes([failed(MUNGED, "n1"), passed], "ctl")[1].because == ""
