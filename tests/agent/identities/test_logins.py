"""What keeps the slurm user out of a host besides its keys: its account's expiry, /etc/nologin, lists of sshd's."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from outcomes import failure

from slurmfab.on_hosts.agent.core.resource import Change, Context, apply, compare
from slurmfab.on_hosts.agent.identities.logins import SshLogin, barred, lists, refused_type
from slurmfab.on_hosts.agent.identities.user import User, expiry_of

DAY = 86400
SLURM = User("slurm", os.getuid(), "slurm", "/var/lib/slurm", "/bin/sh")
MUNGE = User("munge", os.getuid(), "munge", "/nonexistent", "/usr/sbin/nologin")


@pytest.mark.parametrize(
    ("line", "expires"),
    [
        ("slurm:*:::::::", "never"),
        ("slurm:!:20000:0:99999:7:::", "never"),
        ("slurm:*:20000:0:365:7:::", "never"),
        ("slurm:*:::::::1", "never"),
        ("slurm:*::::::1:", "1970-01-02"),
        ("slurm:*::::::30000:", "2052-02-20"),
        ("slurm:*:0:0:99999:7:::", "at once, unless its password is changed"),
        ("slurm:*:19000:0:90:7:::", "since 2022-04-08, with its password"),
        ("slurm:*", "never"),
    ],
)
def test_the_expiry_of_an_account_is_a_day_or_never(line: str, expires: str) -> None:
    assert expiry_of(line.split(":"), 20100.0 * DAY) == expires


def test_an_account_that_expires_differs_if_its_user_logs_in(root: Path, context: Context) -> None:
    (root / "etc/shadow").write_text("slurm:*::::::1:\nmunge:*::::::1:\n")
    assert compare(SLURM, context) == (Change("expires", "1970-01-02", "never"),)
    assert [change.name for change in compare(MUNGE, context)] == ["shell"]


def test_a_host_with_etc_nologin_lets_nobody_in_and_says_its_text_and_the_repair(root: Path, context: Context) -> None:
    (root / "etc/nologin").write_text("moving\nhouse\n")
    message = failure(SshLogin("slurm", "10.0.0.1"), context)
    assert "/etc/nologin exists (it says: moving house)" in message
    assert "Repair: rm /etc/nologin" in message


def test_a_host_without_lists_lets_the_user_in_and_asks_no_program(root: Path, context: Context) -> None:
    (root / "etc/ssh/sshd_config.d").mkdir(parents=True)
    (root / "etc/ssh/sshd_config").write_text("# AllowUsers ann\nMatch User ann\n  PermitTTY no\n")
    assert apply(SshLogin("slurm", "10.0.0.1"), context).status == "ok"


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        ("", ()),
        ("allowusers ann\nallowusers slurm@10.0.0.*\n", ()),
        ("allowusers sl*\n", ()),
        ("allowgroups ops slurm\n", ()),
        ("denyusers slurm@192.168.0.1\n", ()),
        (
            "allowusers ann\nallowusers bob\n",
            ("AllowUsers ann bob", "echo 'AllowUsers slurm' > /etc/ssh/"),
        ),
        ("allowusers slurm\nallowgroups ops\n", ("AllowGroups ops", "echo 'AllowGroups slurm' > /etc/ssh/")),
        ("denyusers slurm\nallowusers slurm\n", ("DenyUsers slurm", "remove that from")),
        ("denygroups *\n", ("DenyGroups *", "remove that from")),
    ],
)
def test_lists_of_sshd_keep_a_user_out_who_is_denied_or_not_allowed(shown: str, words: tuple[str, ...]) -> None:
    refusal = barred("slurm", ["slurm"], lists(f"usepam yes\n{shown}"))
    assert bool(refusal) == bool(words)
    assert all(word in " ".join(refusal or ()) for word in words)


@pytest.mark.parametrize(
    ("accepted", "policy", "words"),
    [
        ("ssh-ed25519,rsa-sha2-256", "DEFAULT\n", ()),
        (
            "rsa-sha2-256,ecdsa-sha2-nistp256",
            "# of the site\nFIPS\n",
            ("the crypto-policy FIPS leaves it out", "--set"),
        ),
        ("rsa-sha2-256", "", ("PubkeyAcceptedAlgorithms in sshd's files leaves it out", "slurm_ssh: none")),
    ],
)
def test_a_policy_of_sshds_when_it_refuses_the_type_of_slurms_keys_then_it_is_named_with_a_repair(
    accepted: str, policy: str, words: tuple[str, ...]
) -> None:
    refusal = refused_type(f"port 22\npubkeyacceptedalgorithms {accepted}\n", policy)
    assert bool(refusal) == bool(words)
    assert all(word in " ".join(refusal or ()) for word in words)


def test_a_host_with_a_crypto_policy_when_compared_then_sshd_is_asked_and_its_refusal_fails_the_login(
    root: Path, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "etc/crypto-policies").mkdir()
    (root / "etc/crypto-policies/config").write_text("FIPS\n")
    shown = b"pubkeyacceptedalgorithms rsa-sha2-256\n"
    monkeypatch.setattr(context, "run", lambda argv: subprocess.CompletedProcess(argv, 0, shown, b""))
    assert "the crypto-policy FIPS leaves it out" in failure(SshLogin("slurm", "10.0.0.1"), context)
