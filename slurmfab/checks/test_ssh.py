"""Checks of SSH logins of the slurm user between the controller and every host, as the cluster file wants them."""

from __future__ import annotations

import re
import time

from testinfra.backend.base import CommandResult

from slurmfab.checks.hosts import CheckedHost, last_words
from slurmfab.checks.wanted import deploy

TRIES = 4
PAUSE = 1.0
"""`TRIES` attempts to log in, with `PAUSE` seconds in between, while sshd drops connections because of MaxStartups."""

TURNED_AWAY = re.compile(r"kex_exchange_identification|Connection (reset|closed) by \S+ port")
"""Errors of ssh if the connection ended before authentication, as when sshd drops it because of MaxStartups."""

SSH = "cd / && exec runuser -u slurm -- ssh -o BatchMode=yes -o StrictHostKeyChecking=yes -o ConnectTimeout=5 %s true"


def test_controller_gets_in(to_slurm: CheckedHost, controller: CheckedHost) -> None:
    """the slurm user can log in by SSH from the controller"""
    assert_gets_in(controller, to_slurm)


def test_host_gets_to_the_controller(from_slurm: CheckedHost, controller: CheckedHost) -> None:
    """the slurm user can log in by SSH to the controller"""
    assert_gets_in(from_slurm, controller)


def test_controller_is_kept_out(not_to_slurm: CheckedHost, controller: CheckedHost) -> None:
    """the slurm user cannot log in by SSH from the controller"""
    assert_is_kept_out(controller, not_to_slurm)


def test_host_is_kept_out_of_the_controller(not_from_slurm: CheckedHost, controller: CheckedHost) -> None:
    """the slurm user cannot log in by SSH to the controller"""
    assert_is_kept_out(not_from_slurm, controller)


def assert_is_kept_out(start: CheckedHost, goal: CheckedHost) -> None:
    """Fail if the slurm user can log in from `start` to `goal` by SSH."""
    with goal.logins:
        done = logged_in(start, goal)
    assert done.rc != 0, (
        f"the slurm user on {start.name} can log in to {goal.name} by SSH, but slurm_ssh in the cluster file does not "
        f"allow that. Look at ~slurm/.ssh/authorized_keys there, and deploy: {deploy(start.name, goal.name)}"
    )


def assert_gets_in(start: CheckedHost, goal: CheckedHost) -> None:
    """Fail if the slurm user cannot log in from `start` to `goal` by SSH."""
    with goal.logins:
        done = logged_in(start, goal)
    assert done.rc == 0, (
        f"the slurm user on {start.name} cannot log in to {goal.name} by SSH: {last_words(done)}. "
        f"Repair: {deploy(start.name, goal.name)}"
    )


def logged_in(start: CheckedHost, goal: CheckedHost) -> CommandResult:
    """The result of an SSH login of the slurm user, repeated if sshd dropped the connection before authentication."""
    for _ in range(TRIES - 1):
        done = start.run(SSH, goal.name)
        if done.rc == 0 or not TURNED_AWAY.search(done.stderr):
            return done
        time.sleep(PAUSE)
    return start.run(SSH, goal.name)
