"""Public keys told from private ones and from what sshd would not read."""

from __future__ import annotations

import base64

import pytest

from slurmfab.cluster.inventory.public_keys import in_text, key_of, mistake


def blob(kind: str, rest: bytes = b"\0\0\0\x03abc") -> str:
    return base64.b64encode(len(kind).to_bytes(4, "big") + kind.encode() + rest).decode()


GOOD = f"ssh-ed25519 {blob('ssh-ed25519')} ann@laptop"


@pytest.mark.parametrize(
    "line",
    [
        GOOD,
        f"ssh-rsa {blob('ssh-rsa')}",
        f"ecdsa-sha2-nistp256 {blob('ecdsa-sha2-nistp256')} a comment of words",
        f"sk-ssh-ed25519@openssh.com {blob('sk-ssh-ed25519@openssh.com')}",
        f'from="10.0.0.0/8",no-pty {GOOD}',
    ],
)
def test_a_line_of_authorized_keys_is_a_public_key(line: str) -> None:
    assert mistake(line) == ""


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("-----BEGIN OPENSSH PRIVATE KEY-----", "this is a private key"),
        ("-----BEGIN RSA PRIVATE KEY-----", "this is a private key"),
        ("---- BEGIN SSH2 PUBLIC KEY ----", "RFC 4716"),
        ("ssh-dss AAAAB3NzaC1kc3M=", "sshd no longer accepts"),
        ("ann", "not a public SSH key"),
        ("ssh-ed25519 AAAA", "not a key of this type; is a part of it missing?"),
        ("ssh-ed25519 not*base64", "is not base64"),
        (f"ssh-rsa {blob('ssh-ed25519')}", "not a key of this type"),
        (f"{GOOD}\nssh-rsa x", "one line"),
    ],
)
def test_what_sshd_would_not_read_is_a_mistake_and_none_of_it_is_shown(line: str, reason: str) -> None:
    assert reason in mistake(line)
    assert "*" not in mistake(line)


def test_keys_are_the_same_whatever_their_options_and_comments() -> None:
    assert key_of(GOOD) == key_of(f"no-pty {GOOD.rpartition(' ')[0]} another@place")


def test_comments_and_empty_lines_of_a_file_are_no_keys() -> None:
    assert in_text(f"# mine\n\n{GOOD}\r\n  {GOOD}\n") == (GOOD, GOOD)
