"""Which nodes are switched off, as a table of node states."""

from __future__ import annotations

import time
from typing import Any

import pytest

from slurmfab.on_hosts.agent.nodes.states import NodeState, flags
from slurmfab.on_hosts.programs.power.main import LAST_BUSY, choose_sleepers, why_not

NOW = time.mktime(time.strptime("2026-11-22T10:00:00", LAST_BUSY))
SETTINGS: dict[str, Any] = {"nodes": ["n1", "n2", "n3"], "always_on": [], "after": 600, "keep": 0, "rate": 60}


def node(name: str, state: str = "IDLE", idle: int = 3600) -> dict[str, str]:
    busy = time.strftime(LAST_BUSY, time.localtime(NOW - idle))
    return {"NodeName": name, "State": state, "LastBusyTime": busy}


@pytest.mark.parametrize(
    "state",
    [
        "IDLE+DRAIN", "IDLE+RESERVED", "RESERVED", "IDLE+MAINTENANCE+RESERVED", "IDLE+PLANNED", "IDLE*", "DOWN",
        "MIXED", "ALLOCATED", "IDLE+COMPLETING", "IDLE+POWERED_DOWN", "IDLE+POWERING_DOWN", "IDLE+POWERING_UP",
        "IDLE#", "IDLE~", "IDLE+REBOOT_REQUESTED", "UNKNOWN", "IDLE+INVALID_REG", "FUTURE",
    ],
)  # fmt: skip
def test_a_node_when_it_is_anything_but_idle_then_it_stays_on(state: str) -> None:
    assert choose_sleepers([node("n1", state)], SETTINGS, NOW) == []


@pytest.mark.parametrize(
    ("nodes", "differing", "chosen"),
    [
        ([node("n1"), node("n2", idle=7200)], {}, ["n2", "n1"]),
        ([node("n1", idle=599)], {}, []),
        ([node("n1", idle=600)], {}, ["n1"]),
        ([node("n1", "IDLE+CLOUD")], {}, ["n1"]),
        ([node("n9")], {}, []),
        ([node("n1"), node("n2")], {"always_on": ["n1"]}, ["n2"]),
        ([node("n1"), node("n2"), node("n3")], {"keep": 2}, ["n1"]),
        ([node("n1"), node("n2", "MIXED"), node("n3", "ALLOCATED")], {"keep": 2}, ["n1"]),
        ([node("n1"), node("n2", "IDLE+DRAIN"), node("n3", "DOWN")], {"keep": 1}, []),
        ([node("n1"), node("n2"), node("n3")], {"rate": 2}, ["n1", "n2"]),
        ([{"NodeName": "n1", "State": "IDLE", "LastBusyTime": "Unknown"}], {}, []),
        ([{"NodeName": "n1", "State": "IDLE"}], {}, []),
    ],
)
def test_idle_nodes_are_chosen_as_the_settings_say(
    nodes: list[dict[str, str]], differing: dict[str, Any], chosen: list[str]
) -> None:
    assert choose_sleepers(nodes, {**SETTINGS, **differing}, NOW) == chosen


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("IDLE+POWERING_DOWN", ""),
        ("IDLE+DRAIN+POWERING_DOWN", "loose cable"),
        ("IDLE+RESERVED+POWERING_DOWN", "left on"),
        ("DOWN+POWERING_DOWN", "left on"),
        ("MIXED", "left on"),
    ],
)
def test_a_node_when_it_was_taken_since_it_was_chosen_then_it_is_left_on_with_the_reason(
    state: str, words: str
) -> None:
    reason = why_not(SETTINGS, "n1", NodeState(flags(state), "loose cable"))
    assert words in reason
    assert bool(words) == bool(reason)


def test_a_node_when_it_may_not_sleep_then_it_is_left_on() -> None:
    idle = NodeState(flags("IDLE"))
    assert "power.nodes" in why_not(SETTINGS, "n9", idle)
    assert "power.keep" in why_not({**SETTINGS, "always_on": ["n1"]}, "n1", idle)
    assert "does not know it" in why_not(SETTINGS, "n1", None)
