"""SSH for the slurm user: from the controller to every host and back, without a question."""

from __future__ import annotations

import re
import time

from testinfra.backend.base import CommandResult

from slurmfab.checks.hosts import CheckedHost, last_words
from slurmfab.checks.wanted import deploy

TRIES = 4
PAUSE = 1.0
"""How often a login is tried, and seconds in between, while the other side's sshd turns connections away."""

TURNED_AWAY = re.compile(r"kex_exchange_identification|Connection (reset|closed) by \S+ port")
"""What ssh says of a connection that ended before anybody was asked who he is, as of one over MaxStartups."""

SSH = "cd / && exec runuser -u slurm -- ssh -o BatchMode=yes -o StrictHostKeyChecking=yes -o ConnectTimeout=5 %s true"


def test_controller_gets_in(other: CheckedHost, controller: CheckedHost) -> None:
    """the slurm user comes by SSH from the controller"""
    assert_gets_in(controller, other)


def test_host_gets_to_the_controller(other: CheckedHost, controller: CheckedHost) -> None:
    """the slurm user goes by SSH to the controller"""
    assert_gets_in(other, controller)


def assert_gets_in(start: CheckedHost, goal: CheckedHost) -> None:
    """Fail unless the slurm user gets from one host to another."""
    with goal.logins:
        done = logged_in(start, goal)
    assert done.rc == 0, (
        f"slurm on {start.name} does not get to {goal.name}: {last_words(done)}. "
        f"Repair: {deploy(start.name, goal.name)}"
    )


def logged_in(start: CheckedHost, goal: CheckedHost) -> CommandResult:
    """What a login leaves, which is tried again where the sshd was too busy to judge it at all."""
    for _ in range(TRIES - 1):
        done = start.run(SSH, goal.name)
        if done.rc == 0 or not TURNED_AWAY.search(done.stderr):
            return done
        time.sleep(PAUSE)
    return start.run(SSH, goal.name)
