"""What the checks of people find wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.checks import test_people as people
from slurmfab.commands.checks.applies import DoesNotApply
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.shell import CommandResult

HEAD = 'cluster: tiny\ncontrollers: [ctl]\nnodes: [{hosts: "n[1-2]"}]\n'
LOCAL = loading.parse(HEAD + "users: [{name: ann, shell: /bin/zsh}, {name: bob}]\n", "tiny.yaml")
ELSEWHERE = loading.parse(HEAD + "users: [{name: ann}]\nunix_users: false\n", "tiny.yaml")
LOCK = Lock(ids={"ann.uid": 2000, "ann.gid": 2000, "bob.uid": 2001, "bob.gid": 2001})
ANN, BOB = "ann:x:2000:2000::/home/ann:/bin/zsh\n", "bob:x:2001:2001::/home/bob:/bin/bash\n"


@pytest.fixture
def hosts(shells: dict[str, Any]) -> dict[str, CheckedHost]:
    for shell in shells.values():
        shell.rules |= {"getent passwd": ANN + BOB, "^stat ": "2000 700 /home/ann\n2001 700 /home/bob\n", "test -x": ""}
    return {name: CheckedHost(name, shell) for name, shell in shells.items()}


@pytest.mark.parametrize("cluster", [LOCAL, ELSEWHERE], ids=["local", "directory service"])
def test_equal_numbers_are_right(hosts: dict[str, CheckedHost], cluster: Cluster) -> None:
    people.test_users_have_their_numbers(hosts["n1"], hosts["ctl"], cluster, LOCK)


@pytest.mark.parametrize(
    ("cluster", "said", "words"),
    [
        (LOCAL, ANN, r"there is no user bob\. Repair: fab deploy --hosts n1"),
        (LOCAL, ANN.replace("2000:2000", "1001:2000") + BOB, "ann has UID and GID 1001 and 2000, not 2000 and 2000"),
        (ELSEWHERE, "", "there is no user ann. Repair: check the directory service"),
        (ELSEWHERE, ANN.replace("2000:2000", "5:5"), "ann has UID and GID 5 and 5, not 2000 and 2000"),
    ],
    ids=["missing", "another number", "unknown to the directory service", "another number there"],
)
def test_other_numbers_are_told(
    hosts: dict[str, CheckedHost], shells: dict[str, Any], cluster: Cluster, said: str, words: str
) -> None:
    shells["n1"].rules["getent passwd"] = said
    with pytest.raises(AssertionError, match=words):
        people.test_users_have_their_numbers(hosts["n1"], hosts["ctl"], cluster, LOCK)


def test_a_number_that_was_not_chosen_yet_is_not_judged(hosts: dict[str, CheckedHost]) -> None:
    people.test_users_have_their_numbers(hosts["n1"], hosts["ctl"], LOCAL, replace(LOCK, ids={}))


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("2000 700 /home/ann\n", "there is no /home/bob"),
        ("2000 700 /home/ann\n0 700 /home/bob\n", "/home/bob belongs to UID 0 instead of bob"),
        ("2000 777 /home/ann\n2001 700 /home/bob\n", "others can write to /home/ann, so sshd rejects the SSH keys"),
    ],
    ids=["missing", "somebody else's", "open"],
)
def test_homes_that_are_not_their_users_are_told(
    hosts: dict[str, CheckedHost], shells: dict[str, Any], said: str, words: str
) -> None:
    people.test_homes_are_their_users(hosts["n1"], LOCAL, LOCK)
    shells["n1"].rules["^stat "] = said
    with pytest.raises(AssertionError, match=words):
        people.test_homes_are_their_users(hosts["n1"], LOCAL, LOCK)


def test_a_shell_that_is_missing_is_told_with_those_who_have_it(
    hosts: dict[str, CheckedHost], shells: dict[str, Any]
) -> None:
    people.test_shells_are_there(hosts["n1"], LOCAL)
    shells["n2"].rules = {"test -x /bin/zsh": CommandResult(1), **shells["n2"].rules}
    with pytest.raises(AssertionError, match="there is no /bin/zsh, so ann cannot log in"):
        people.test_shells_are_there(hosts["n2"], LOCAL)


RSA = (
    "AAAAB3NzaC1yc2EAAAADAQABAAABAQCdKCC+bdetqgwIf0tO+eOCEwS73F3dk8x5Fq1Deaww4NioLQ9bYx2D6P0+lynvR+TW1xkx"
    "yKGAhR94qxhHe9Pj8S30LU+LBTA1yHen0YGSwvEktBA9CKcH39t5lx6sSGCPA8UXuZlvDBiBukuM92awFIC1n/UJ3hpTCSU6YKfM"
    "SPe3/yjnq03QKBiqEdV4KS0s6f63uVV/8zn10gyzWHNhhh/5rPVFIZp/Tiexk1yYHdUN4hVRqM5LgJMor8rxKRmS+FFALO8M/4/Q"
    "Pd5eN4KGSg9uNtw41i5ybfy/cfeWPn35hO2i3Ih2I9TpguG0o1XxrpWsTTq4phnYxYgsP5qB"
)
"""A public key of 2048 bits."""
ED25519 = "AAAAC3NzaC1lZDI1NTE5AAAAIK0wmN/Cr3JXqmLW7u+g9pTh+wyqDHpSQEIQczXkVx9q"
WITH_KEYS = loading.parse(
    HEAD + f"users: [{{name: ann, keys: ['ssh-ed25519 {ED25519} ann']}}, {{name: bob, keys: ['ssh-rsa {RSA} bob']}}]\n",
    "tiny.yaml",
)
DEFAULT = "pubkeyacceptedalgorithms ssh-ed25519,rsa-sha2-256,ecdsa-sha2-nistp256\n"
NO_EDWARDS = "no keys of the type ssh-ed25519, as ann has"
SMALL_RSA = "no RSA keys of less than 3072 bits, as bob has"


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        (DEFAULT, ""),
        ("", ""),  # an sshd that does not tell
        (DEFAULT + "requiredrsasize 2048\npolicy DEFAULT\n", ""),
        (DEFAULT.replace("ssh-ed25519,", "") + "policy FIPS\n", rf"sshd accepts {NO_EDWARDS} \(crypto-policy FIPS\)"),
        (DEFAULT + "rsaminsize 3072\npolicy FUTURE\n", rf"sshd accepts {SMALL_RSA} \(crypto-policy FUTURE\)"),
        ("pubkeyacceptedkeytypes ssh-dss\n", rf"{NO_EDWARDS}; no keys of the type ssh-rsa, as bob has"),
    ],
)
def test_keys_of_users_when_sshd_refuses_their_type_or_size_then_it_is_told_by_which_policy(
    hosts: dict[str, CheckedHost], shells: dict[str, Any], shown: str, words: str
) -> None:
    shells["n1"].rules["^sshd -T"] = shown
    if words:
        with pytest.raises(AssertionError, match=words):
            people.test_keys_are_accepted(hosts["n1"], WITH_KEYS)
    else:
        people.test_keys_are_accepted(hosts["n1"], WITH_KEYS)


def test_users_without_keys_when_checked_then_nothing_is_said(hosts: dict[str, CheckedHost]) -> None:
    with pytest.raises(DoesNotApply):
        people.test_keys_are_accepted(hosts["n1"], LOCAL)
