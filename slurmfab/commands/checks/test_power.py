"""Checks of nodes that sleep while they are idle."""

from __future__ import annotations

from slurmfab.base.paths import POWER_FAILURES, POWER_UNIT
from slurmfab.commands.checks.daemons import timer_of
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.slurm import Slurm
from slurmfab.commands.checks.wanted import deploy
from slurmfab.on_hosts.agent.nodes.states import flags

READ_FAILURES = f'cd {POWER_FAILURES} && for node in *; do if [ -f "$node" ]; then echo "$node: $(cat $node)"; fi; done'
"""Prints each node that could not be switched, with the reason."""

JOURNAL = "See: journalctl -t slurmfab-power"


def test_idle_nodes_are_looked_for(switcher: CheckedHost) -> None:
    """the timer that switches off idle nodes is active, and its last run succeeded"""
    active, result = timer_of(switcher, POWER_UNIT)
    assert active == "active", f"{POWER_UNIT}.timer is {active}. Repair: {deploy(switcher.name)}"
    assert result == "success", f"the last choice of idle nodes failed ({result}). {JOURNAL}"


def test_nodes_could_be_switched(switcher: CheckedHost) -> None:
    """every node was switched off and on when Slurm wanted it"""
    failures = switcher.ask(READ_FAILURES).strip().splitlines()
    assert not failures, (
        f"{'; '.join(failures)}. {JOURNAL}; Repair: fix the cause; the next switch of the node that succeeds clears "
        f"this, and so does removing its file in {POWER_FAILURES}"
    )


def test_node_is_not_taken_for_switched_off(sleeper: CheckedHost, slurm: Slurm) -> None:
    """a node that is on is not powered down for Slurm"""
    states = flags(slurm.node(sleeper.name).get("State", ""))
    assert "POWERED_DOWN" not in states, (
        f"Slurm has it as powered down ({'+'.join(sorted(states))}), but it is on. {JOURNAL} on the controller; "
        "Repair: systemctl restart slurmd there, which registers it"
    )
