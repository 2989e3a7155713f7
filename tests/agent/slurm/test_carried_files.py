"""Which nodes lack slurmctld's files: judged by the start of slurmd, and by slurmctld's log."""

from __future__ import annotations

import time
from contextlib import nullcontext

import pytest

from slurmfab.on_hosts.agent.client.commands import moment
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.slurm import carried_files
from slurmfab.on_hosts.agent.slurm.carried_files import (
    EVERYWHERE,
    OTHER,
    CarriedFiles,
    format_outdated,
    hash_complaints,
)

STARTED = "[2026-11-21T10:00:00.001] slurmctld version 24.11.5 started on cluster lab"
RELINQUISHED = "Relinquishing control to new child"
COMPLAINT = "[2026-11-21T10:00:0{}.500] error: Node {} appears to have a different slurm.conf than the slurmctld.  This"
FILES = CarriedFiles(("n1",), ("/etc/slurm/slurm.conf",), "", renews=True)


def at(stamp: str) -> float:
    return time.mktime(time.strptime(stamp, "%Y-%m-%dT%H:%M:%S"))


@pytest.mark.parametrize(
    ("lines", "nodes"),
    [
        pytest.param([STARTED], set(), id="none"),
        pytest.param([STARTED, COMPLAINT.format(1, "n1"), COMPLAINT.format(2, "n2")], {"n1", "n2"}, id="two"),
        pytest.param([COMPLAINT.format(1, "n1"), STARTED], set(), id="before slurmctld started"),
        pytest.param(
            [COMPLAINT.format(1, "n1"), "Processing Reconfiguration Request"], set(), id="before it read anew"
        ),
        pytest.param(
            [COMPLAINT.format(1, "n1"), STARTED, RELINQUISHED],
            set(),
            id="before its successor",
        ),
        pytest.param(
            [STARTED, COMPLAINT.format(1, "n1"), RELINQUISHED],
            {"n1"},
            id="by its successor, before the last line of the old process",
        ),
    ],
)
def test_complaints_count_since_slurmctld_has_read_its_files(lines: list[str], nodes: set[str]) -> None:
    assert set(hash_complaints("\n".join(lines))) == nodes


@pytest.mark.parametrize(
    ("started", "changed", "complained", "reason"),
    [
        pytest.param(at("2026-11-21T10:00:01"), at("2026-11-21T10:00:00"), 0.0, "", id="younger"),
        pytest.param(
            at("2026-11-21T09:00:00"),
            at("2026-11-21T10:00:00"),
            0.0,
            "slurmd started before the files changed",
            id="older",
        ),
        pytest.param(at("2026-11-21T09:59:57"), at("2026-11-21T10:00:00"), 0.0, "", id="a clock that is behind"),
        pytest.param(None, 0.0, 0.0, "not registered yet", id="unknown"),
        pytest.param(5.0, 0.0, 5.2, "its slurm.conf differs from slurmctld's", id="complained of since"),
        pytest.param(5.0, 0.0, 4.0, "", id="complained of before it started anew"),
    ],
)
def test_a_slurmd_has_the_files_when_it_is_younger_and_nobody_complains(
    started: float | None, changed: float, complained: float, reason: str
) -> None:
    assert FILES.reason(started, changed, complained) == reason


def test_a_slurmd_that_reads_files_anew_may_be_older_than_they() -> None:
    old = CarriedFiles(("n1",), ("/etc/slurm/slurm.conf",), "", renews=False)
    assert old.reason(at("2026-11-21T09:00:00"), at("2026-11-21T10:00:00"), 0.0) == ""


def test_times_are_read_as_slurm_prints_them() -> None:
    assert moment("2026-11-21T10:00:00") == at("2026-11-21T10:00:00")
    assert (moment("None"), moment("Unknown"), moment("")) == (None, None, None)


def test_many_nodes_are_told_by_their_reason() -> None:
    late = {f"n{number}": "not registered yet" for number in range(1, 8)}
    assert format_outdated({**late, "m1": "other"}) == "m1 (other); n1..n7 (7) (not registered yet)"


class Registering(CarriedFiles):
    """Nodes that lack the files, one answer of slurmctld after the other; the last one stays."""

    def late(self, context: Context) -> dict[str, str]:  # noqa: ARG002
        return ANSWERS.pop(0) if len(ANSWERS) > 1 else ANSWERS[0]


ANSWERS: list[dict[str, str]] = []


@pytest.mark.parametrize(
    ("answers", "files"),
    [
        pytest.param([{"n1": OTHER}, {"n1": OTHER}, {}], EVERYWHERE, id="registers"),
        pytest.param([{"n1": OTHER}], f"not loaded by n1 ({OTHER})", id="stays so"),
        pytest.param(
            [{"n1": "not registered yet"}, {}], "not loaded by n1 (not registered yet)", id="others wait later"
        ),
    ],
)
def test_a_node_whose_slurmd_has_just_started_when_it_registers_a_moment_later_then_has_the_files(
    answers: list[dict[str, str]], files: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carried_files, "is_active", lambda *_: True)
    monkeypatch.setattr(carried_files, "START_SECONDS", 0.3)
    ANSWERS[:] = answers
    nodes = Registering(FILES.nodes, FILES.watches, FILES.log, FILES.renews)
    assert nodes.actual(Context()) == {"files": files}


@pytest.mark.parametrize(
    ("answers", "is_told", "reconfigures"),
    [
        pytest.param([{}], False, 0, id="has-them"),
        pytest.param([{}, {"n1": OTHER}], True, 2, id="late-and-stays-so"),
        pytest.param([{}, *[{"n1": OTHER}] * 40, {}], False, 1, id="late-and-takes-them-when-slurmctld-reconfigures"),
    ],
)
def test_a_node_that_registers_with_other_files_after_all_had_them_then_is_carried_to_again_or_named_with_what_to_try(
    answers: list[dict[str, str]], is_told: bool, reconfigures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[object] = []

    def reconfigure(_: Context, argv: object) -> str:
        told.append(argv)
        ANSWERS[:] = ANSWERS[-1:]
        return ""

    monkeypatch.setattr(carried_files, "is_active", lambda *_: True)
    monkeypatch.setattr(Context, "must", reconfigure)
    for name in ("START_SECONDS", "REGISTER_SECONDS", "CARRY_SECONDS", "AGAIN_SECONDS"):
        monkeypatch.setattr(carried_files, name, 0.1)
    ANSWERS[:] = answers
    nodes = Registering(FILES.nodes, FILES.watches, FILES.log, FILES.renews)
    with pytest.raises(ResourceFailed, match=r"have not loaded them: n1 \(.*Try: ") if is_told else nullcontext():
        nodes.converge(Context(), frozenset({"files"}))
    assert len(told) == reconfigures
