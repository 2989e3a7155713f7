"""Node states and reasons, parsed from the output of real Slurm."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Any

import pytest
from slurm_output_files import VERSIONS, odd_nodes

from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.nodes.states import (
    NodeState,
    flags,
    node_states,
    our_reason,
    parse_reason,
    record,
    records,
    state_of,
)

STAMP = "ann@laptop 2026-11-21T09:00"
TAKES_NO_JOBS = ("*", "drain", "drng", "maint", "down", "inval", "!", "%")
"""What sinfo's short states of nodes hold that are given no new jobs."""


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("IDLE", {"IDLE"}),
        ("IDLE*", {"IDLE", "NOT_RESPONDING"}),
        ("DOWN*+DRAIN", {"DOWN", "NOT_RESPONDING", "DRAIN"}),
        ("MIXED+PLANNED", {"MIXED", "PLANNED"}),
        ("MIXED-", {"MIXED", "PLANNED"}),
        ("IDLE~", {"IDLE", "POWERED_DOWN"}),
        ("UNKNOWN+DRAIN+INVALID_REG", {"UNKNOWN", "DRAIN", "INVALID_REG"}),
        ("IDLE+CLOUD+POWERED_DOWN", {"IDLE", "CLOUD", "POWERED_DOWN"}),
    ],
)
def test_a_state_with_flags_and_signs_when_read_gives_their_words(state: str, words: set[str]) -> None:
    assert flags(state) == words


@pytest.mark.parametrize("version", VERSIONS)
def test_a_real_node_is_in_service_when_sinfo_has_it_in_a_state_that_takes_jobs(version: str) -> None:
    odd = [(short, state) for short, state in odd_nodes(version) if "POWER_DOWN" not in state.flags]
    assert len(odd) > 12
    for short, state in odd:
        # slurmctld marks a node as silent some moments before sinfo shows a star for it.
        is_out = any(word in short for word in TAKES_NO_JOBS) or "NOT_RESPONDING" in state.flags
        assert state.is_in_service is not is_out, (short, state)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_real_reason_of_ours_when_read_names_who_asked_slurmfab(version: str) -> None:
    ours = next(state for _, state in odd_nodes(version) if state.is_ours and "ALLOCATED" in state.flags)
    assert (ours.by, parse_reason(ours.reason)) == ("ann@laptop", ("new kernel", "ann@laptop"))
    assert (ours.is_set_by_person, ours.is_drained, ours.is_in_service) == (False, True, False)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_real_drain_by_a_person_when_read_is_theirs_and_keeps_its_odd_reason(version: str) -> None:
    drained = odd_nodes(version)[0][1]
    assert (drained.reason, drained.by) == ("disk is broken, ask Bob [x@y]", "root")
    assert drained.is_set_by_person


@pytest.mark.parametrize(
    ("state", "reason", "by", "is_set_by_person"),
    [
        ("DOWN+NOT_RESPONDING", "Not responding", "slurm", False),
        ("DOWN+NOT_RESPONDING", "old fan : Not responding", "slurm", False),
        ("IDLE+DRAIN", "old fan : Not responding", "slurm", True),
        ("IDLE+DRAIN", "Kill task failed", "root", False),
        ("IDLE+DRAIN", "Epilog error", "slurm", False),
        ("IDLE+DRAIN", "Low RealMemory (reported:1 < 100.00% of configured:2)", "slurm", False),
        ("UNKNOWN+DRAIN+INVALID_REG", "old fan", "root", False),
        ("DOWN", "psu", "root", True),
        ("IDLE", "an old reason that Slurm kept", "root", False),
        ("DOWN", "", "", False),
        ("IDLE+DRAIN", our_reason("x", STAMP), "root", False),
    ],
)
def test_a_node_out_of_service_is_somebodys_only_when_a_person_gave_the_reason(
    state: str, reason: str, by: str, is_set_by_person: bool
) -> None:
    assert NodeState(flags(state), reason, by).is_set_by_person is is_set_by_person


@pytest.mark.parametrize(
    ("state", "reason", "is_for_health"),
    [
        ("IDLE+DRAIN", "slurmfab: health: /tmp is full", True),
        ("IDLE+DRAIN", "slurmfab: health: /tmp is full : Not responding", True),
        ("IDLE+DRAIN", "slurmfab: health: /tmp is full : Prolog error", False),
        ("IDLE+DRAIN", "old fan : slurmfab: health: /tmp is full", False),
        ("IDLE+DRAIN", our_reason("health: look at its disk", STAMP), False),
        ("IDLE", "slurmfab: health: /tmp is full", False),
    ],
)
def test_a_node_is_its_health_checks_only_when_nobody_has_said_more(
    state: str, reason: str, is_for_health: bool
) -> None:
    assert NodeState(flags(state), reason, "root").is_for_health is is_for_health


def test_a_reason_of_the_health_check_when_read_tells_the_cause_alone() -> None:
    assert parse_reason("slurmfab: health: /tmp is full : Not responding") == ("/tmp is full", "health check")


@pytest.mark.parametrize("text", ["new disks", "fan (left) (b@c 2026)", "a : b", "State=IDLE [x@y]"])
def test_a_reason_of_ours_when_read_again_gives_what_was_said_and_who(text: str) -> None:
    assert parse_reason(our_reason(text, STAMP)) == (text, "ann@laptop")
    assert parse_reason(our_reason(text, STAMP) + " : Not responding") == (text, "ann@laptop")


def test_a_reason_of_somebody_else_when_read_is_what_it_is() -> None:
    assert parse_reason("slurmfab is great") == ("slurmfab is great", "")


def test_a_node_whose_reason_looks_like_fields_when_read_keeps_its_own_fields() -> None:
    line = "NodeName=n1 State=DOWN CPUTot=2 AllocTRES=  Reason=State=IDLE CPUTot=9 [x@y] [root@2026-11-21T08:00:00]"
    fields = record(line)
    assert (fields["State"], fields["CPUTot"], fields["AllocTRES"]) == ("DOWN", "2", "")
    assert (fields["Reason"], fields["ReasonBy"]) == ("State=IDLE CPUTot=9 [x@y]", "root")


def test_a_reason_without_who_and_when_is_read_up_to_the_comment() -> None:
    fields = record("NodeName=n1 State=DOWN Reason=fan is loud Comment=hello there")
    assert (fields["Reason"], fields["ReasonBy"]) == ("fan is loud", "")
    assert state_of(fields).is_set_by_person


def test_lines_that_are_no_nodes_when_read_are_left_out() -> None:
    assert records("No nodes in the system\nNodeName=n1 State=IDLE\nrest of a reason\n") == [
        {"NodeName": "n1", "State": "IDLE"}
    ]


REAL = "NodeName=%s Arch=x86_64 CPUTot=2 OS=%s RealMemory=1000 State=IDLE ThreadsPerCore=1 Partitions=main"
FORGED = "x \nNodeName=n1 State=DOWN+DRAIN Reason=fan_is_broken"
"""The version of a kernel, as root of n2 has slurmd tell it."""


class OddKernel(Context):
    """A controller on which the slurmd of n2 tells a text with a line of n1."""

    def run(self, argv: Sequence[str], *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        asked = argv[argv.index("node") + 1 :] or ["n1", "n2", "n3"]
        lines = [REAL % (name, FORGED if name == "n2" else "Linux") for name in asked if name in ("n1", "n2", "n3")]
        return subprocess.CompletedProcess(argv, 0 if lines else 1, "\n".join(lines).encode(), b"")

    def must(self, argv: Sequence[str], *rest: Any, **more: Any) -> str:
        return self.run(argv, *rest, **more).stdout.decode()


def test_a_line_of_another_node_in_a_text_of_a_nodes_when_states_are_asked_then_that_nodes_own_line_counts() -> None:
    found = node_states(OddKernel("/"), ("n1", "n2", "n3"))
    assert {name: state.description for name, state in found.items()} == {"n1": "idle", "n2": "unknown", "n3": "idle"}


def test_a_line_of_another_node_in_a_text_of_a_nodes_when_it_is_read_alone_then_neither_counts() -> None:
    shown = OddKernel("/").must(("scontrol", "show", "node"))
    assert [one["NodeName"] for one in records(shown)] == ["n2", "n3"]
