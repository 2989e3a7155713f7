"""Draining and resuming by the health check, as a table: node state and causes in, action out."""

from __future__ import annotations

from typing import Any

import pytest

from slurmfab.on_hosts.agent.nodes.states import FOR_CHANGE, HEALTH, NodeState, our_reason, record, state_of
from slurmfab.on_hosts.programs.health.node import LONGEST_REASON, decide, reason_of

FULL = {"full /tmp": "/tmp is full (1 MiB of 9 GiB free)"}
TOLD = {"told": ["full /tmp"]}
OURS = HEALTH + "/tmp is full (2 MiB of 9 GiB free)"


def node(flags: str, reason: str = "") -> NodeState:
    return NodeState(frozenset(flags.split("+")), reason)


@pytest.mark.parametrize(
    ("state", "causes", "memory", "action"),
    [
        pytest.param(node("IDLE"), {}, {}, "keep", id="well"),
        pytest.param(node("IDLE"), FULL, {}, "drain", id="something-is-wrong"),
        pytest.param(node("MIXED"), FULL, {}, "drain", id="also-with-jobs"),
        pytest.param(node("IDLE", OURS), FULL, TOLD, "drain", id="a-reason-that-stayed-is-no-drain"),
        pytest.param(node("IDLE+DRAIN", OURS), FULL, TOLD, "keep", id="drained-and-told"),
        pytest.param(node("IDLE+DRAIN", OURS), FULL, {"told": ["clock"]}, "drain", id="another-cause-than-told"),
        pytest.param(node("IDLE+DRAIN", reason_of(FULL)), FULL, {}, "keep", id="told-before-a-boot"),
        pytest.param(node("IDLE+DRAIN", OURS), {}, TOLD, "keep", id="well-once"),
        pytest.param(node("IDLE+DRAIN", OURS), {}, {**TOLD, "well": 1}, "resume", id="well-twice"),
        pytest.param(node("IDLE+DRAIN", f"{OURS} : Not responding"), {}, {"well": 1}, "resume", id="was-lost"),
        pytest.param(node("IDLE+DRAIN", f"{OURS} : Kill task failed"), {}, {"well": 1}, "keep", id="slurm-found-more"),
        pytest.param(node("IDLE+DRAIN", "broken fan"), {}, {"well": 5}, "keep", id="an-admins"),
        pytest.param(node("IDLE+DRAIN", "broken fan"), FULL, {}, "keep", id="an-admins-with-a-cause"),
        pytest.param(node("IDLE+DRAIN", f"fan : {OURS}"), {}, {"well": 5}, "keep", id="an-admins-first"),
        pytest.param(
            node("IDLE+DRAIN", our_reason("broken fan", "ann@laptop 2026-11-21T09:00")), {}, {"well": 5}, "keep",
            id="fab-drain",
        ),
        pytest.param(
            node("IDLE+DRAIN", our_reason(f"{FOR_CHANGE}Gres", "ann@laptop 2026-11-21T09:00")), FULL, {},
            "keep", id="a-deployments",
        ),
        pytest.param(node("IDLE+DRAIN", "Prolog error"), {}, {"well": 5}, "keep", id="slurms-own"),
        pytest.param(node("DOWN+DRAIN", OURS), {}, {"well": 5}, "keep", id="down"),
        pytest.param(node("DOWN"), FULL, {}, "keep", id="down-with-a-cause"),
        pytest.param(node("IDLE+REBOOT_ISSUED+DRAIN", OURS), {}, {"well": 5}, "keep", id="on-its-way"),
        pytest.param(node("MAINT"), FULL, {}, "keep", id="in-maintenance"),
    ],
)  # fmt: skip
def test_a_node_is_taken_out_while_something_is_wrong_and_only_what_was_taken_is_given_back(
    state: NodeState, causes: dict[str, str], memory: dict[str, Any], action: str
) -> None:
    assert decide(state, causes, dict(memory)) == action


def test_a_node_when_it_is_ill_again_between_two_good_looks_then_they_count_anew() -> None:
    memory: dict[str, Any] = dict(TOLD)
    drained = node("IDLE+DRAIN", OURS)
    looks = [{}, FULL, {}, {}]
    assert [decide(drained, causes, memory) for causes in looks] == ["keep", "keep", "keep", "resume"]


def test_a_node_when_an_admin_drains_it_between_two_good_looks_then_it_stays() -> None:
    memory: dict[str, Any] = dict(TOLD)
    assert decide(node("IDLE+DRAIN", OURS), {}, memory) == "keep"
    assert decide(node("IDLE+DRAIN", "broken fan"), {}, memory) == "keep"
    assert memory == {}


def test_a_reason_names_all_causes_in_one_line_that_slurm_can_bear() -> None:
    causes = {"b": 'a "quoted"\nword', "a": "one : two [x@y]"}
    assert reason_of(causes) == f"{HEALTH}one, two (x@y); a 'quoted' word"
    many = reason_of({str(number): f"cause number {number}" for number in range(100)})
    assert (len(many), many.endswith("...")) == (LONGEST_REASON, True)


@pytest.mark.parametrize("reason", [reason_of(FULL), reason_of({"a": "x : y"})])
def test_a_reason_when_slurm_shows_it_then_it_is_known_as_ours(reason: str) -> None:
    line = f"NodeName=n1 State=IDLE+DRAIN Partitions=main Reason={reason} [root@2026-11-21T18:00:13]"
    state = state_of(record(line))
    assert (state.is_for_health, state.is_ours, state.is_set_by_person, state.is_for_change) == (
        True,
        True,
        False,
        False,
    )
