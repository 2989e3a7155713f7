"""What the checks of Podman find on stand-in hosts."""

from __future__ import annotations

import pytest
from ruled_shells import RuledShell, timer
from support import THREE_HOSTS, cluster

from slurmfab.base.paths import PRUNE_UNIT
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.checks import test_podman
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.shell import CommandResult

PODMAN = cluster(f"{THREE_HOSTS}containers: [podman]\nusers: [{{name: ann}}]\n")
LOCK = Lock(ids={"ann.uid": 2001, "ann.gid": 2001})
RIGHT = "carl:100000:65536\nann:131137536:65536\n"


def host(**rules: str | CommandResult) -> CheckedHost:
    return CheckedHost("n1", RuledShell({"^test -e": "", **rules}))


def test_subordinate_ids_that_follow_from_uids_pass() -> None:
    test_podman.test_users_have_their_subordinate_ids(host(cat=RIGHT), PODMAN, LOCK)


def test_ranges_of_others_beside_those_of_users_pass() -> None:
    beside = f"{RIGHT}bob:131000000:137536\n1005:131203072:65536\n\n# of the site\n"
    test_podman.test_users_have_their_subordinate_ids(host(cat=beside), PODMAN, LOCK)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ann:100000:65536\n", "ann lacks the right numbers in /etc/subuid"),
        (RIGHT + "ann:1000000:65536\n", "ann has further numbers in /etc/subuid"),
        (RIGHT + "bob:131137600:10\n", r"bob has subordinate IDs of ann \(bob:131137600:10\), by /etc/subuid"),
        (RIGHT + "1005:131000000:137537\n", r"1005 has subordinate IDs of ann"),
    ],
)
def test_other_subordinate_ids_are_told(text: str, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        test_podman.test_users_have_their_subordinate_ids(host(cat=text), PODMAN, LOCK)


def test_a_directory_that_its_user_cannot_enter_is_told() -> None:
    test_podman.test_users_have_a_directory_for_images(host(runuser=""), PODMAN, LOCK)
    with pytest.raises(AssertionError, match="ann cannot write to /var/lib/podman-users/2001"):
        test_podman.test_users_have_a_directory_for_images(host(runuser=CommandResult(1)), PODMAN, LOCK)


@pytest.mark.parametrize(
    ("state", "result", "why"),
    [("inactive", "success", "timer is not active"), ("active", "exit-code", "the last run failed")],
)
def test_a_timer_that_does_not_work_is_told(state: str, result: str, why: str) -> None:
    test_podman.test_images_are_pruned(CheckedHost("n1", RuledShell(timer(PRUNE_UNIT))))
    with pytest.raises(AssertionError, match=why):
        test_podman.test_images_are_pruned(CheckedHost("n1", RuledShell(timer(PRUNE_UNIT, state, result))))
