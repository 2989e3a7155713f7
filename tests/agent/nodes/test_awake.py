"""Nodes that are switched on again, on a Slurm in memory."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from outcomes import failure
from slurm_in_memory import Slurm

from slurmfab.on_hosts.agent.core.resource import CHANGED, OK, apply
from slurmfab.on_hosts.agent.nodes.awake import NodesAwake


class Sleeping(Slurm):
    """A Slurm that switches nodes on at once, as far as they come back."""

    broken: tuple[str, ...] = ()

    def update(self, settings: Mapping[str, str]) -> None:
        assert settings["State"] == "POWER_UP"
        for name in settings["NodeName"].split(","):
            state, reason, by = self.nodes[name]
            failed = ("DOWN+POWERED_DOWN", "ResumeTimeout reached", "slurm")
            self.nodes[name] = failed if name in self.broken else (state.replace("+POWERED_DOWN", ""), reason, by)


@pytest.mark.parametrize(
    ("states", "status", "told"),
    [
        ({"n1": "IDLE", "n2": "IDLE+DRAIN"}, OK, []),
        ({"n1": "IDLE+POWERED_DOWN", "n2": "IDLE"}, CHANGED, ["NodeName=n1"]),
        ({"n1": "IDLE+DRAIN+POWERED_DOWN", "n2": "IDLE+POWERED_DOWN"}, CHANGED, ["NodeName=n1,n2"]),
    ],
)
def test_sleeping_nodes_are_switched_on_and_others_left_alone(
    states: dict[str, str], status: str, told: list[str]
) -> None:
    slurm = Sleeping(nodes={name: (state, "", "") for name, state in states.items()})
    assert apply(NodesAwake(("n1", "n2"), 5.0), slurm).status == status
    assert [update[0] for update in slurm.updates] == told


def test_a_node_when_it_does_not_come_back_then_slurms_reason_is_told() -> None:
    slurm = Sleeping(nodes={"n1": ("IDLE+POWERED_DOWN", "", "")})
    slurm.broken = ("n1",)
    assert "ResumeTimeout reached" in failure(NodesAwake(("n1",), 5.0), slurm)


def test_nodes_when_slurm_does_not_switch_them_then_its_words_are_told() -> None:
    slurm = Sleeping(nodes={"n1": ("IDLE+POWERED_DOWN", "", "")}, refuses="Invalid node state specified")
    assert "Invalid node state" in apply(NodesAwake(("n1",), 5.0), slurm).message
