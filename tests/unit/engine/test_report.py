"""What a run is told to have done: exit codes, words for outcomes, and JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from slurmfab.base.errors import (
    AgentFailed,
    AnotherRun,
    BecomeRefused,
    HostError,
    HostFailed,
    LoginRefused,
    Unreachable,
)
from slurmfab.base.json_output import as_json
from slurmfab.core.engine.report import (
    Report,
    Step,
    apart,
    describe,
    difference_lines,
    failures,
    fold_steps,
    headline,
    outcome_from,
    without_secrets,
)
from slurmfab.on_hosts.agent.core.resource import Change, Outcome

OK = Outcome("user:slurm", "ok")
CHANGED = Outcome("user:slurm", "changed", (Change("uid", "1001", "64030"),))
SHUT_OUT = Outcome("ssh-login:slurm", "failed", message="/etc/nologin exists")
LEFT = Outcome("lost-jobs:running", "failed", message="To end it: scancel 7")
FAILED = Outcome("service:slurmd", "failed", message="it does not stay active")


def report(steps: tuple[Step, ...] = (), lost: dict[str, HostError] | None = None) -> Report:
    return Report("deploy", "lab", ("c1", "n1"), steps, lost or {}, 1.23456)


@pytest.mark.parametrize(
    ("steps", "lost", "code"),
    [
        ((), {}, 0),
        ((Step("users", "n1", (CHANGED,)),), {}, 0),
        ((Step("slurmd", "n1", (FAILED,)),), {}, 1),
        ((Step("ssh", "n1", (SHUT_OUT,)),), {}, 3),
        ((Step("ssh", "n1", (SHUT_OUT, FAILED)),), {}, 1),
        ((Step("lost jobs", "c1", (LEFT,)),), {}, 3),
        ((), {"n1": Unreachable("n1", "off")}, 3),
        ((), {"n1": LoginRefused("n1", "no")}, 3),
        ((), {"n1": AgentFailed("n1", "gone")}, 3),
        ((), {"n1": BecomeRefused("n1", "no sudo")}, 3),
        ((), {"n1": AnotherRun("n1", "ann@laptop")}, 3),
        ((Step("packages", "n1", (FAILED,)),), {"n1": HostFailed("n1", "the disk is full")}, 3),
        ((), {"n1": Unreachable("n1", "off"), "n2": HostError("n2", "jobs still run there")}, 1),
        ((Step("slurmd", "n1", (FAILED,)),), {"n2": Unreachable("n2", "off")}, 1),
    ],
)
def test_the_exit_code_is_3_only_when_all_that_is_wrong_is_hosts_that_were_left_out(
    steps: tuple[Step, ...], lost: dict[str, HostError], code: int
) -> None:
    assert report(steps, lost).exit_code == code


@pytest.mark.parametrize(
    ("differing", "code"),
    [
        ({"finds_work": True}, 4),
        ({"finds_work": True, "failed_hosts": {"n1": Unreachable("n1", "off")}}, 3),
        ({"finds_work": True, "steps": (Step("slurmd", "n1", (FAILED,)),)}, 1),
        ({"error_code": 2, "failed_hosts": {"n1": Unreachable("n1", "off")}}, 2),
    ],
)
def test_the_exit_code_is_the_same_in_json_when_a_dry_run_finds_work_or_an_error_ends_the_run(
    differing: dict[str, Any], code: int
) -> None:
    ended = replace(report(), **differing)
    assert (ended.exit_code, as_json(ended)["exit_code"]) == (code, code)


def test_json_has_what_was_other_than_wanted_and_only_counts_the_rest() -> None:
    plain = as_json(report((Step("users", "n1", (OK, CHANGED), 0.5),), {"n2": Unreachable("n2", "off.")}))
    assert json.loads(json.dumps(plain)) == {
        "version": 1,
        "command": "deploy",
        "cluster": "lab",
        "hosts": ["c1", "n1"],
        "exit_code": 3,
        "seconds": 1.235,
        "lost": {"n2": "off."},
        "steps": [
            {
                "phase": "users",
                "host": "n1",
                "at": None,
                "seconds": 0.5,
                "ok": 1,
                "outcomes": [
                    {
                        "id": "user:slurm",
                        "status": "changed",
                        "message": "",
                        "drift": "",
                        "changes": [{"name": "uid", "actual": "1001", "wanted": "64030", "diff": ""}],
                    }
                ],
            }
        ],
        "slurm_conf": [],
        "daemons": "",
        "dangers": [],
        "refused": False,
        "jobs": None,
        "left_drained": [],
        "other_hardware": [],
        "not_met": {},
        "timeline": [],
        "only": [],
        "others": [],
    }


def test_an_outcome_comes_back_from_json_as_it_went() -> None:
    line = json.loads(json.dumps(CHANGED, default=vars))
    assert outcome_from(line) == CHANGED


@pytest.mark.parametrize(
    ("outcomes", "words"),
    [
        ((OK,), "ok"),
        ((OK, CHANGED, CHANGED), "2 changed"),
        ((CHANGED, FAILED), "1 changed, 1 failed"),
        ((Outcome("a", "would change"),), "1 would change"),
    ],
)
def test_a_headline_counts_what_happened(outcomes: tuple[Outcome, ...], words: str) -> None:
    assert headline(Step("users", "n1", outcomes)) == words


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        (Change("uid", "1001", "64030"), ["  uid: 1001 -> 64030"]),
        (Change("mode", "", "0400"), ["  mode: (none) -> 0400"]),
        (Change("file", "present", ""), ["  file: present -> (none)"]),
        (Change("content", diff="-a\n+b\n"), ["  content:", "    -a", "    +b"]),
        (Change("content", wanted="differs"), ["  content: differs (not shown, it is secret)"]),
    ],
)
def test_a_difference_is_told_from_what_is_to_what_should_be(change: Change, lines: list[str]) -> None:
    assert difference_lines(Outcome("x:y", "would change", (change,))) == ("x:y: would change", *lines)


def test_hosts_with_equal_differences_are_told_once() -> None:
    steps = [
        Step("users", "n1", (CHANGED,)),
        Step("users", "n2", (OK, CHANGED)),
        Step("users", "c1", (FAILED,)),
        Step("slurmd", "n1", (OK,)),
    ]
    assert [(phase, hosts) for phase, hosts, _ in fold_steps(steps)] == [("users", ("n1", "n2")), ("users", ("c1",))]


def test_a_failure_is_told_once_with_its_host_though_the_host_was_lost_by_it() -> None:
    lost = {"n1": HostError("n1", "service:slurmd: it does not stay active"), "n2": Unreachable("n2", "off.")}
    assert failures([Step("slurmd", "n1", (OK, FAILED))], lost) == (
        "n1: service:slurmd: it does not stay active",
        "n2: off.",
    )


def test_other_hardware_is_told_with_what_the_lock_has_and_drift_with_its_kind() -> None:
    differs = Outcome("hardware:n1", "differs", (Change("RealMemory", "8000", "16000"),), "repair it", drift="by hand")
    assert describe(differs) == (
        "hardware:n1: differs (by hand)",
        "  RealMemory: 8000; the lock has 16000",
        "  repair it",
    )
    assert describe(Outcome("a:b", "changed")) == ("a:b: changed",)


def test_what_a_controller_says_of_other_hosts_is_their_failure_and_not_its_own() -> None:
    outcome = Outcome("slurm-nodes:n1,n2", "ok", others=(("n2", "it is down"),))
    own, others = apart(Step("nodes", "c1", (outcome, OK)))
    assert [one.others for one in own.outcomes] == [(), ()]
    assert [(step.host, one.id, one.status, one.message) for step in others for one in step.outcomes] == [
        ("n2", "slurm-nodes:n2", "failed", "it is down")
    ]
    alone = Step("nodes", "c1", (OK,))
    assert apart(alone) == (alone, ())


def test_secrets_in_a_change_are_hidden_and_its_digest_stays() -> None:
    shown = without_secrets({"name": "x", "actual": "StoragePass=abc", "wanted": "", "diff": None, "digest": "abc"})
    assert "abc" not in str(shown["actual"])
    assert (shown["name"], shown["wanted"], shown["diff"], shown["digest"]) == ("x", "", None, "abc")


@pytest.mark.parametrize("others", [[["n1", "down"]], [["n1", "down"], ["n2", "off"]]])
def test_what_an_outcome_says_of_other_hosts_is_pairs_of_host_and_reason(others: list[list[str]]) -> None:
    line = {"id": "slurm-nodes:main", "status": "failed", "others": others}
    assert outcome_from(line, "c1").others == tuple(map(tuple, others))
    with pytest.raises(AgentFailed):
        outcome_from({**line, "others": [["n1"]]}, "c1")
    with pytest.raises(AgentFailed):
        outcome_from({**line, "others": [["n1", "down", "more"]]}, "c1")


@pytest.mark.parametrize(
    ("ended", "changes"),
    [({}, 2), ({"error_code": 1}, 1), ({"is_refused": True}, 1), ({"failed_hosts": {"n1": Unreachable("n1", "x")}}, 1)],
)
def test_what_a_survey_found_and_is_right_now_counts_as_changed_where_the_run_came_to_its_end(
    ended: dict[str, Any], changes: int
) -> None:
    differed = frozenset({("n1", "users", "user:b"), ("n1", "users", CHANGED.id), ("n1", "users", FAILED.id)})
    steps = (Step("users", "n1", (CHANGED, FAILED)),)
    assert replace(report(steps), differed=differed, **ended).changes == changes
