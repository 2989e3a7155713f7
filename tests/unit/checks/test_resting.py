"""One breakage is one failure: those that follow from it name it, and are told below it."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from slurmfab.commands.checks.resting import ON_ALL_NODES, RESTS, reached, with_causes
from slurmfab.commands.checks.results import Result
from slurmfab.commands.checks.runner import CHECKS

MUNGED, ANSWERS, JOB = "daemons.munged_runs", "daemons.controller_answers", "jobs.job_runs"
SLURMD, TAKES, MANY = "daemons.slurmd_runs", "nodes.node_takes_jobs", "jobs.job_runs_on_many_nodes"
OUT, NO_JOB = f"{TAKES}:silent", f"{JOB}:not started"
FILES, HASH = "configuration.files_are_the_controllers", "configuration.slurmctld_runs_with_this_file"
REACHED, CLOCK = "network.controller_reaches_slurmd", "clock.clock_is_the_controllers"
ROOM, LIMITED = "system.file_systems_have_room", "limits.memory_is_limited"
EXISTING = {
    f"{path.stem.removeprefix('test_')}.{one.name.removeprefix('test_')}"
    for path in CHECKS.glob("test_*.py")
    for one in ast.parse(path.read_text()).body
    if isinstance(one, ast.FunctionDef) and one.name.startswith("test_")
}


def failed(name: str, host: str) -> Result:
    """A failure, with what the check saw behind a colon."""
    name, _, sign = name.partition(":")
    group, _, check = name.partition(".")
    return Result(group, check, "it is right", host, "failed", sign=sign)


def test_every_name_that_a_check_rests_on_is_a_check() -> None:
    named = {name for rests in RESTS.values() for name in (*rests.here, *rests.there)}
    checks = (name.partition(":")[0] for name in (*RESTS, *named, *ON_ALL_NODES, *ON_ALL_NODES.values()))
    assert {".".join(name.split(".")[:2]) for name in checks} <= EXISTING


def test_every_sign_that_explains_or_is_explained_is_one_that_a_check_tells() -> None:
    named = {name for rests in RESTS.values() for name in (*rests.here, *rests.there)}
    signs = {name.partition(":")[2] for name in (*RESTS, *named)} - {""}
    # The health check's own words for what it finds are its signs.
    told = "".join(
        path.read_text() for path in (*CHECKS.glob("test_*.py"), CHECKS / "node_state.py", CHECKS / "slurm.py")
    )
    assert [sign for sign in signs if f'"{sign}"' not in told and not sign.startswith("unit ")] == []


@pytest.mark.parametrize("host", ["ctl", "n1"])
def test_no_check_rests_on_itself(host: str) -> None:
    rings = [name for name in RESTS if (name, host) in reached((name, host), {}, (), "ctl")]
    # On the controller, a check of it and one of all hosts about it are the same.
    assert rings == []


@pytest.mark.parametrize(
    ("found", "because"),
    [
        ([(MUNGED, "n1"), (ANSWERS, "n1"), (OUT, "n1"), (NO_JOB, "n1")], ["", *[f"{MUNGED} on n1"] * 3]),
        ([(MUNGED, "ctl"), (ANSWERS, "ctl"), (ANSWERS, "n1"), (OUT, "n1")], ["", *[f"{MUNGED} on ctl"] * 3]),
        ([(SLURMD, "n1"), (OUT, "n1"), (OUT, "n2")], ["", f"{SLURMD} on n1", ""]),
        ([(MUNGED, "n1"), (SLURMD, "n2"), (OUT, "n2")], ["", "", f"{SLURMD} on n2"]),
        ([(SLURMD, "ctl"), (OUT, "n1")], ["", ""]),
        ([(f"{TAKES}:silent", "n1"), (MANY, "ctl")], ["", f"{TAKES} on n1"]),
        # A comment explains that the text is another one, and no silence; another port explains that as well.
        ([(f"{FILES}:words", "n1"), (HASH, "n1"), (f"{TAKES}:silent", "n1")], ["", f"{FILES} on n1", ""]),
        ([(f"{FILES}:settings", "n1"), (ANSWERS, "n1"), (f"{TAKES}:silent", "n1")], ["", "", f"{ANSWERS} on n1"]),
        ([(f"{FILES}:settings", "n1"), (f"{TAKES}:less", "n1")], ["", f"{FILES} on n1"]),
        ([(f"{FILES}:ways", "n1"), (f"{TAKES}:silent", "n1")], ["", f"{FILES} on n1"]),
        (
            [(f"{FILES}:words", "n1"), (REACHED, "n1"), (f"{TAKES}:silent", "n1"), (MANY, "ctl")],
            ["", "", f"{REACHED} on n1", f"{REACHED} on n1"],
        ),
        # An admin's drain follows from nothing, and full logs of slurmctld stop no munged.
        ([(SLURMD, "n1"), (TAKES, "n1")], ["", ""]),
        ([(f"{ROOM}:slurmctld", "n1"), (MUNGED, "n1")], ["", ""]),
        ([(f"{ROOM}:all", "n1"), (MUNGED, "n1")], ["", f"{ROOM} on n1"]),
        ([(CLOCK, "n1"), (ANSWERS, "n1")], ["", ""]),
        ([(f"{CLOCK}:apart", "n1"), (ANSWERS, "n1")], ["", f"{CLOCK} on n1"]),
        ([("identity.user_has_its_ids.slurm", "n1"), (MUNGED, "n1")], ["", ""]),
        # A job that ran and was not limited follows from no other trouble.
        ([(SLURMD, "n1"), (LIMITED, "n1")], ["", ""]),
        ([(SLURMD, "n1"), (f"{LIMITED}:not started", "n1")], ["", f"{SLURMD} on n1"]),
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


def test_what_has_passed_between_two_failures_breaks_the_chain() -> None:
    believed = Result("munge", "controller_believes_the_credential", "it is believed", "n1", "passed")
    also = replace(believed, check="credential_of_the_controller_is_believed")
    found = [failed("munge.key_is_the_controllers", "n1"), failed(ANSWERS, "n1")]
    assert with_causes(found, "ctl")[1].because == "munge.key_is_the_controllers on n1"
    assert with_causes([*found, believed, also], "ctl")[1].because == ""
