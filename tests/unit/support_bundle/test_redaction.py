"""What leaves no secret in a text, and leaves the rest readable."""

from __future__ import annotations

import base64
import json
import os
import textwrap
import time

import pytest

from slurmfab.support_bundle.redaction import HIDDEN, Filter

PASSWORD = 'corr"ect horse #1'
HEX = "5f" * 8 + "a1b2c3d4e5f60718" * 3
KEY = bytes(range(256)) * 4
BODY = base64.b64encode(os.urandom(300)).decode()
PEM = f"-----BEGIN OPENSSH PRIVATE KEY-----\n{textwrap.fill(BODY, 70)}\n-----END OPENSSH PRIVATE KEY-----\n"


def encoded(value: bytes, shift: int) -> str:
    """Base64 of something that has a value at a byte 3n + shift."""
    return base64.b64encode(b"x" * shift + value + b"tail").decode()


@pytest.mark.parametrize("secret", [PASSWORD.encode(), HEX.encode(), b"hunter2", KEY, BODY.encode()])
@pytest.mark.parametrize("shift", [0, 1, 2])
def test_a_known_value_in_base64_at_any_alignment_is_replaced(secret: bytes, shift: int) -> None:
    clean = Filter([secret])
    text = f"login with {encoded(secret, shift)} refused\n"
    core = base64.b64encode(b"x" * shift + secret).decode()[4:-4]
    assert core in text
    assert core not in clean.text(text)
    assert clean.text(text).startswith("login with ")
    assert clean.text(text).endswith(" refused\n")


@pytest.mark.parametrize("secret", [PASSWORD.encode(), HEX.encode(), b"hunter2", KEY])
def test_a_known_value_in_hexadecimal_digits_is_replaced(secret: bytes) -> None:
    clean = Filter([secret])
    for digits in (secret.hex(), secret.hex().upper()):
        assert clean.text(f"dump: {digits}.") == f"dump: {HIDDEN}."
    dumped = secret.hex(" ", 2)
    assert dumped not in clean.text(f"0000: {dumped}\n") or len(secret) < 16


@pytest.mark.parametrize("form", [PASSWORD, json.dumps(PASSWORD)[1:-1], "corr%22ect%20horse%20%231", HEX, "hunter2"])
def test_a_known_value_as_text_is_replaced_also_within_a_word(form: str) -> None:
    clean = Filter([PASSWORD.encode(), HEX.encode(), b"hunter2"])
    assert clean.text(f"a error: x{form}y, n1 down\n") in (
        f"a error: x{HIDDEN}y, n1 down\n",
        f"a error: {HIDDEN}, n1 down\n",
    )


def test_a_short_value_is_replaced_as_a_word_alone() -> None:
    assert Filter([b"abc"]).text("abc abcd (abc) x-abc") == f"{HIDDEN} abcd ({HIDDEN}) x-abc"


def test_a_known_key_that_is_cut_or_wrapped_leaves_no_long_piece() -> None:
    text = textwrap.fill(base64.b64encode(KEY).decode(), 64) + "\n" + base64.b64encode(KEY).decode()[100:130]
    shown = Filter([KEY]).text(text)
    assert [word for word in shown.replace(HIDDEN, " ").split() if len(word) > 15] == []


def test_the_name_of_a_setting_stays_before_a_long_value() -> None:
    assert Filter([HEX.encode()]).text(f"StoragePass={HEX} DbdPort=6819") == f"StoragePass={HIDDEN} DbdPort=6819"


def test_a_public_key_stays_although_its_private_key_repeats_it() -> None:
    public = base64.b64encode(os.urandom(60)).decode()
    clean = Filter([f"{BODY[:60]}{public}{BODY[60:]}".encode()], [f"ssh-ed25519 {public} slurm@n1"])
    assert clean.text(f"host key {public}") == f"host key {public}"
    assert BODY[:60] not in clean.text(BODY)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("StoragePass=secret-1 # here", f"StoragePass={HIDDEN} # here"),
        ("AccountingStoragePass = abc", f"AccountingStoragePass = {HIDDEN}"),
        ("AccountingStoragePass = (null)", "AccountingStoragePass = (null)"),
        ('JobCompPass="a b c"', f'JobCompPass="{HIDDEN}"'),
        ("password: correct horse", f"password: {HIDDEN}"),
        ("WANDB_API_KEY: abc123", f"WANDB_API_KEY: {HIDDEN}"),
        ('{"db_password": "a,b", "n": 1}', f'{{"db_password": "{HIDDEN}", "n": 1}}'),
        (json.dumps('{"token": "a"}'), json.dumps(f'{{"token": "{HIDDEN}"}}')),
        ("mysql://slurm:pw@db:3306/x", f"mysql://slurm:{HIDDEN}@db:3306/x"),
        ("Authorization: Bearer abcdefgh.ijk", f"Authorization: Bearer {HIDDEN}"),
        ("IDENTIFIED BY 'a b' x", f"IDENTIFIED BY {HIDDEN} x"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx.c2ln sent", f"{HIDDEN} sent"),
        ("ann:$2y$05$abcdefghijklmnopqrstuv", f"ann:{HIDDEN}"),
        ("MUNGE:AwQDAAAabcdefgh0123456789==:", HIDDEN),
        ("password_file: mail-password", "password_file: mail-password"),
        ("NodeName=n[1-2] CPUs=4 Gres=gpu:2", "NodeName=n[1-2] CPUs=4 Gres=gpu:2"),
        ("AuthType=auth/munge", "AuthType=auth/munge"),
    ],
)
def test_what_looks_like_a_secret_is_replaced_and_other_lines_stay(line: str, shown: str) -> None:
    assert Filter([]).text(f"{line}\nnext line\n") == f"{shown}\nnext line\n"


@pytest.mark.parametrize("text", [PEM, PEM.replace("\n", "\\n"), PEM.partition("-----END")[0]])
def test_an_unknown_private_key_is_replaced_also_without_its_end(text: str) -> None:
    shown = Filter([]).text(f"before\n{text}")
    assert shown.startswith("before\n")
    assert not any(BODY[first : first + 12] in shown for first in range(0, len(BODY), 12))


def test_characters_that_control_a_terminal_are_replaced() -> None:
    assert Filter([]).text("a\x1b[2Jb\r\n\tc\x9b") == "a�[2Jb�\n\tc�"


@pytest.mark.parametrize("unit", ["-----BEGIN RSA PRIVATE KEY-----", "pass", "a", "eyJ", "$6$", "://a:", "a=", "ab "])
def test_a_text_made_to_be_slow_takes_no_long_time(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    begin = time.monotonic()
    Filter([HEX.encode(), KEY]).text(text)
    assert time.monotonic() - begin < 10
