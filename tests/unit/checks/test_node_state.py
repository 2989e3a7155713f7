"""Slurm's words about a node, and what to do about them."""

from __future__ import annotations

import pytest

from slurmfab.commands.checks.node_state import complaint, is_ready
from slurmfab.on_hosts.agent.nodes.states import flags, record

READY = ["IDLE", "MIXED", "ALLOCATED", "IDLE+CLOUD", "MIXED+PLANNED", "ALLOCATED+COMPLETING", "IDLE-"]


@pytest.mark.parametrize("state", READY)
def test_node_that_takes_jobs_is_no_trouble(state: str) -> None:
    assert is_ready({"State": state})
    assert complaint("n1", {"State": state}, "") == ""


@pytest.mark.parametrize(
    ("state", "reason", "words"),
    [
        ("DOWN*", "Not responding", "slurmctld gets no answer from its slurmd"),
        ("IDLE*", "", "Repair: fab deploy --hosts n1"),
        ("IDLE+NOT_RESPONDING", "", "a firewall blocks it"),
        ("IDLE+DRAIN", "Low RealMemory (reported:7000 < 90.00% of configured:8000)", "less than slurm.conf says"),
        ("INVAL", "gres/gpu count reported lower than configured (0 < 2)", "less than slurm.conf says"),
        ("DOWN+INVALID_REG", "", "does not match slurm.conf"),
        ("DOWN", "Node unexpectedly rebooted", "Repair: scontrol update NodeName=n1 State=RESUME"),
        ("IDLE+DRAIN", "fan is broken [root@2026-01-01T00:00:00]", "fan is broken"),
        ("MIXED+DRAIN", "fan", "when the cause is fixed, scontrol update NodeName=n1 State=RESUME"),
        ("IDLE+DRAIN", "slurmfab: fan (ann@mn 2026-01-01T10:00)", "when the cause is fixed, fab resume n1"),
        ("UNKNOWN*", "", "no answer from its slurmd"),
        ("UNKNOWN", "", "has not registered since slurmctld started"),
        ("IDLE+POWERED_DOWN", "", "wait until it is back"),
        ("IDLE@", "", "wait until it is back"),
        ("DOWN", "", "slurmctld.log"),
    ],
)
def test_node_that_takes_no_jobs_is_told_with_state_cause_and_repair(state: str, reason: str, words: str) -> None:
    told = complaint("n1", {"State": state, "Reason": reason}, "accept it")
    assert told.startswith(f"its state in Slurm is {state}")
    assert words in told
    assert " Repair: " in told


def test_flags_are_read_from_words_and_from_signs() -> None:
    assert flags("IDLE*+DRAIN") == {"IDLE", "NOT_RESPONDING", "DRAIN"}


def test_node_with_a_reason_is_told_with_who_set_it_and_when() -> None:
    fields = record("NodeName=n1 State=IDLE+DRAIN CPUTot=4 Reason=fan State=IDLE CPUTot=8 [root@2026-01-01T00:00:00]")
    assert fields["CPUTot"] == "4"
    assert "“fan State=IDLE CPUTot=8 [root@2026-01-01T00:00:00]”" in complaint("n1", fields, "accept it")
