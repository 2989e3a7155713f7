"""SSH for the slurm user: from the controller to every host and back, without a question."""

from __future__ import annotations

from slurmfab.checks.hosts import CheckedHost, last_words
from slurmfab.checks.wanted import deploy

SSH = "cd / && exec runuser -u slurm -- ssh -o BatchMode=yes -o StrictHostKeyChecking=yes -o ConnectTimeout=5 %s true"


def test_controller_gets_in(other: CheckedHost, controller: CheckedHost) -> None:
    """the slurm user comes by SSH from the controller"""
    assert_gets_in(controller, other)


def test_host_gets_to_the_controller(other: CheckedHost, controller: CheckedHost) -> None:
    """the slurm user goes by SSH to the controller"""
    assert_gets_in(other, controller)


def assert_gets_in(start: CheckedHost, goal: CheckedHost) -> None:
    """Fail unless the slurm user gets from one host to another."""
    done = start.run(SSH, goal.name)
    assert done.rc == 0, (
        f"slurm on {start.name} does not get to {goal.name}: {last_words(done)}. "
        f"Repair: {deploy(start.name, goal.name)}"
    )
