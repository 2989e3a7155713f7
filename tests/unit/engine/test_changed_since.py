"""What has changed since a plan was saved, as tables: the difference that was shown, the present one, the words."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from pathlib import Path

import pytest

from slurmfab.core.engine import changed_since
from slurmfab.core.engine.changed_since import (
    MOST_LINES,
    format_refusal,
    reasons_after_preparing,
    reasons_in_files,
    reasons_on_hosts,
)
from slurmfab.core.engine.report import DIFFERS, Step
from slurmfab.core.engine.saved_plan import Files, SavedPlan, differences
from slurmfab.on_hosts.agent.core.resource import FAILED, OK, WOULD_CHANGE, Change, Outcome

DIFF = "--- actual\n+++ wanted\n@@ -1,2 +1,3 @@\n a\n+b\n+c\n"
SECRET = Change("content", wanted="differs", digest="aa/bb")
TEXT = Change("content", diff=DIFF, digest="aa/bb")
MODE = Change("mode", "0600", "0644")
OTHER_TEXT = Change("content", diff=DIFF, digest="aa/cc")


def outcome(name: str, *changes: Change, status: str = WOULD_CHANGE, message: str = "") -> Outcome:
    return Outcome(name, status if changes or message else OK, changes, message)


def steps(*found: Outcome, host: str = "n1", phase: str = "slurm.conf") -> list[Step]:
    return [Step(phase, host, (one,)) for one in found]


def plan(shown: list[Step], lost: dict[str, str] | None = None, **more: object) -> SavedPlan:
    said = {
        "slurmfab": changed_since.__version__,
        "saved": "2026-11-21T10:00:00+00:00",
        "by": "ann@laptop",
        "cluster": "lab",
        "cluster_file": "/somewhere/cluster.yaml",
        "files": Files("", ""),
        "hosts": "c1,n[1-2]",
        "move_ids": False,
        "digest_key": "key",
        "lost": lost or {},
        "differences": tuple(differences(shown)),
    }
    return SavedPlan(**{**said, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shown", "now", "words"),
    [
        (TEXT, TEXT, ""),
        (SECRET, SECRET, ""),
        (MODE, MODE, ""),
        (TEXT, None, "the plan adds 2 lines; now nothing differs"),
        (Change("content", diff="-a\n+b\n"), None, "the plan adds 1 line and removes 1 line; now nothing differs"),
        (SECRET, None, "the plan changes it; now nothing differs"),
        (MODE, None, "the plan sets mode to 0644; now nothing differs"),
        (Change("file", "there"), None, "the plan sets file to absent; now nothing differs"),
        (None, TEXT, "it was correct, but was edited after the plan was saved"),
        (None, SECRET, "it was correct, but was edited after the plan was saved"),
        (None, MODE, "mode was correct, but is 0600 now instead of 0644"),
        (None, Change("uid", "", "64030"), "uid was correct, but is missing now instead of 64030"),
        (TEXT, Change("content", diff=DIFF, digest="cc/bb"), "it was edited after the plan was saved"),
        (SECRET, Change("content", wanted="differs", digest="cc/bb"), "it was edited after the plan was saved"),
        (SECRET, Change("content", wanted="differs", digest="aa/cc"), "it would get another value than the plan shows"),
        (MODE, Change("mode", "0640", "0644"), "mode was 0600 when the plan was saved, and is 0640 now"),
        (MODE, Change("mode", "0600", "0640"), "mode would get another value than the plan shows"),
    ],
)
def test_a_difference_that_changed_after_the_plan_was_saved_is_described(
    shown: Change | None, now: Change | None, words: str
) -> None:
    before = steps(outcome("file:/etc/x", *filter(None, (shown,))))
    after = steps(outcome("file:/etc/x", *filter(None, (now,))))
    assert reasons_on_hosts(plan(before), after, {}) == ([f"n1: file:/etc/x: {words}."] if words else [])


def test_each_file_of_a_resource_is_named() -> None:
    shown = steps(outcome("slurm-files:/etc/slurm", Change("slurm.conf", diff=DIFF, digest="aa/bb")))
    assert reasons_on_hosts(plan(shown), [], {}) == [
        "n1: slurm-files:/etc/slurm: the plan adds 2 lines in slurm.conf; now nothing differs."
    ]


def test_equal_reasons_share_a_line_and_the_number_of_lines_is_limited() -> None:
    now = [step for host in ("n1", "n2") for step in steps(outcome("file:/etc/x", MODE), host=host)]
    assert reasons_on_hosts(plan([]), now, {}) == [
        "n[1-2]: file:/etc/x: mode was correct, but is 0600 now instead of 0644."
    ]
    many = [step for number in range(50) for step in steps(outcome(f"file:/etc/{number}", MODE))]
    lines = reasons_on_hosts(plan([]), many, {})
    assert (len(lines), lines[-1]) == (MOST_LINES + 1, f"and {50 - MOST_LINES} more")


def test_the_same_resource_in_two_phases_counts_twice() -> None:
    shown = steps(outcome("service:slurmd", MODE), phase="slurmd")
    now = steps(outcome("service:slurmd", MODE), phase="new slurmd")
    assert len(reasons_on_hosts(plan(shown), now, {})) == 2


def test_a_host_that_is_excluded_or_answers_again_is_a_reason() -> None:
    shown = [*steps(outcome("file:/etc/x", MODE), host="n1")]
    lost = {"n1": "nothing listens at port 22."}
    assert reasons_on_hosts(plan(shown), [], lost) == [
        "n1: it was part of the plan but is excluded now: nothing listens at port 22."
    ]
    back = reasons_on_hosts(plan([], lost), shown, {})
    assert back == ["n1: it was excluded when the plan was saved, but answers now."]
    assert reasons_on_hosts(plan([], lost), [], {"n1": "another reason."}) == []


def test_a_resource_that_can_no_longer_or_again_be_compared_is_a_reason() -> None:
    failed = steps(outcome("block:/etc/hosts#hosts", status=FAILED, message="the block is damaged."))
    fine = steps(outcome("block:/etc/hosts#hosts", TEXT))
    assert reasons_on_hosts(plan(fine), failed, {}) == [
        "n1: block:/etc/hosts#hosts: it could be compared when the plan was saved, "
        "and could not be compared (the block is damaged) now."
    ]
    assert len(reasons_on_hosts(plan(failed), fine, {})) == 1
    assert reasons_on_hosts(plan(failed), failed, {}) == []


def test_the_state_of_a_node_may_change_but_not_which_nodes_are_in_the_plan() -> None:
    shown = steps(outcome("slurm-nodes:n1,n2", Change("n1", "unk", "ready")))
    other_words = steps(outcome("slurm-nodes:n1,n2", Change("n1", "down (Not responding)", "ready")))
    other_node = steps(outcome("slurm-nodes:n1,n2", Change("n2", "unk", "ready")))
    assert reasons_on_hosts(plan(shown), other_words, {}) == []
    assert len(reasons_on_hosts(plan(shown), other_node, {})) == 2


def test_other_hardware_is_not_a_reason_since_no_deployment_changes_it() -> None:
    hardware = steps(outcome("hardware", Change("CPUs", "2", "4"), status=DIFFERS), phase="hardware")
    assert reasons_on_hosts(plan(hardware), [], {}) == []
    assert reasons_on_hosts(plan([]), hardware, {}) == []
    assert plan(hardware).is_empty


@pytest.mark.parametrize(
    ("name", "shown", "now", "words"),
    [
        ("file:/etc/x", TEXT, None, ""),
        ("file:/etc/x", TEXT, Change("content", diff=DIFF, digest="cc/bb"), ""),
        ("file:/etc/x", TEXT, MODE, ""),
        (
            "file:/etc/x",
            TEXT,
            Change("content", diff=DIFF, digest="aa/cc"),
            "it would get another value than the plan shows",
        ),
        ("file:/etc/x", MODE, Change("mode", "0600", "0640"), "mode would get another value than the plan shows"),
        ("file:/etc/munge/munge.key", SECRET, Change("content", wanted="differs", digest="cc/dd"), ""),
        ("block:/var/lib/slurm/home/.ssh/authorized_keys#slurm keys", TEXT, Change("content", digest="cc/dd"), ""),
        ("file:/etc/x", None, MODE, "mode was correct, but is 0600 now instead of 0644"),
        ("slurm-nodes:n1", None, Change("n1", "unk", "ready"), ""),
    ],
)
def test_after_the_preparing_phases_less_may_be_left_to_do_but_nothing_else(
    name: str, shown: Change | None, now: Change | None, words: str
) -> None:
    before = steps(outcome(name, *filter(None, (shown,))))
    after = steps(outcome(name, *filter(None, (now,))))
    assert reasons_after_preparing(plan(before), after) == ([f"n1: {name}: {words}."] if words else [])


def test_a_changed_cluster_file_and_lock_are_reasons_with_the_time(tmp_path: Path) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text("cluster: lab\n")
    (tmp_path / "lab.lock.json").write_text("{}\n")
    made = plan([], files=Files.of(path))
    assert reasons_in_files(made, path) == []
    path.write_text("cluster: lab # ours\n")
    os.utime(path, (1_800_000_000, 1_800_000_000))
    (tmp_path / "lab.lock.json").unlink()
    edited, gone = reasons_in_files(made, path)
    assert edited.startswith(f"{path} was edited after the plan was saved (2027-01-15 ")
    assert "the plan is of 2026-11-21 " in edited
    assert gone == f"{tmp_path}/lab.lock.json is missing now."


def test_a_refusal_names_what_was_done_and_the_version_that_made_the_plan() -> None:
    first = format_refusal(plan([]), ["n1: x."], is_prepared=False)
    assert first.splitlines()[1:] == [
        "  n1: x.",
        "Nothing was changed on any host. Make the plan again: fab plan --save FILE",
    ]
    assert "made by slurmfab" not in first
    second = format_refusal(plan([], slurmfab="0.0.1"), ["n1: x."], is_prepared=True)
    assert "(made by slurmfab 0.0.1, this is " in second
    assert "Users, packages and keys are in place; nothing else was changed." in second


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (None, "could be compared"),
        (Outcome("a:b", OK), "could be compared"),
        (Outcome("a:b", FAILED, message="it is damaged."), "could not be compared (it is damaged)"),
    ],
)
def test_what_cannot_be_compared_has_its_reason(found: Outcome | None, words: str) -> None:
    assert changed_since.comparability(found) == words


def test_a_moment_that_is_none_stays_as_it_is() -> None:
    assert changed_since.local_time("yesterday") == "yesterday"
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
    assert changed_since.local_time(moment.isoformat()) == f"{moment.astimezone():%Y-%m-%d %H:%M:%S}"
