"""What the check of the commands for users finds on stand-in hosts, and on which hosts it runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from ruled_shells import Rule, RuledShell
from support import THREE_HOSTS, cluster

from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.checks import test_tools
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.places_of_checks import places_of
from slurmfab.commands.checks.shell import CommandResult
from slurmfab.commands.checks.slurm import Slurm

HOSTS = "login: [l1]\ndatabase: d1\n"
"""Further hosts."""


def checked(answer: Rule) -> None:
    slurm = Slurm(CheckedHost("c1", RuledShell({"": ""})), cluster(THREE_HOSTS))
    test_tools.test_sstatus_answers_users(CheckedHost("l1", RuledShell({"sstatus": answer})), slurm)


def test_a_user_who_is_answered_is_enough() -> None:
    checked('{"version": 1, "jobs": []}')


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (CommandResult(127, b"", b"runuser: failed to execute sstatus: No such file"), "failed to execute sstatus"),
        (CommandResult(1, b"", b"sstatus: Slurm does not answer (timeout)."), "Slurm does not answer"),
        ("GPU usage 1/2\n", "something else than the state"),
        ('{"version": 2}', "something else than the state"),
        ("[]", "something else than the state"),
    ],
)
def test_a_user_who_is_not_answered_is_told_with_the_reason(answer: Rule, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        checked(answer)


@pytest.mark.parametrize(("more", "hosts"), [("user_tools: true\n", ("c1", "l1")), ("", ())])
def test_it_runs_on_login_hosts_and_controllers(more: str, hosts: tuple[str, ...]) -> None:
    whole = cluster(THREE_HOSTS + HOSTS + more)
    assert places_of(Inventory(whole, Lock(), Path("c.yaml")), whole.hosts)["helping_host"] == hosts
