"""What leaves no secret in a text, and leaves the rest readable."""

from __future__ import annotations

import base64
import gzip
import json
import os
import random
import string
import sys
import textwrap
import time
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from slurmfab.commands.support_bundle.redaction import HIDDEN, Filter

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
    for digits in (secret.hex(), secret.hex().upper(), base64.b32encode(secret).decode().rstrip("=")):
        assert digits[:-2] not in clean.text(f"dump: {digits}.")
    dumped = secret.hex(" ", 2)
    assert dumped not in clean.text(f"0000: {dumped}\n") or len(secret) < 16
    swapped = " ".join(f"{second:02x}{first:02x}" for first, second in zip(secret[::2], secret[1::2], strict=False))
    assert swapped not in clean.text(f"0000: {swapped}\n") or len(secret) < 16


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


SLOW = (
    *("-----BEGIN RSA PRIVATE KEY-----", "pass", "a", "eyJ", "$6$", "://a:", "a=", "ab ", "mysql -p ", "--password "),
    *(
        "ghp_",
        "sk-",
        "\\n",
        "\n",
        "%41",
        "\\x41",
        "&#65;",
        "\\",
        '"',
        "'",
        "aB3 ",
        "curl -u a:b ",
        "basic ",
        "0a:",
        "key>",
    ),
    *(
        "authorization: ",
        "=",
        "SHA256:",
        "login a password ",
        "aB3\n",
        "webhooks/",
        "12345678:AA",
        f"{'x' * 63}\n",
        "A1b",
    ),
    *(
        "password=x user ",
        "mysql -px -p y 'a ",
        "token: x ",
        "identified by x ",
        '"a=b" ',
        "echo a ",
        "htpasswd -b a ",
        "password is a",
        "-----BEGIN PRIVATE KEY-----a",
    ),
)
"""What texts repeat, in one line or in very many."""


@pytest.mark.parametrize("unit", SLOW)
def test_a_text_made_to_be_slow_takes_time_in_proportion_to_its_length(unit: str) -> None:
    assert calls(unit, TIMES * 1_000) < 1.2 * TIMES * calls(unit, 1_000)
    # Inside of a regular expression there are no calls to count. A square of the length would be TIMES times TIMES.
    assert seconds(unit, TIMES * 10_000) < 3 * TIMES * seconds(unit, 10_000)


TIMES = 8


def calls(unit: str, size: int) -> int:
    """The number of calls of functions that a text takes which repeats a unit."""
    count = 0

    def hear(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    clean, text = Filter([HEX.encode(), KEY]), unit * (size // len(unit))
    before = sys.getprofile()
    sys.setprofile(hear)
    try:
        clean.text(text)
    finally:
        sys.setprofile(before)
    return count


def seconds(unit: str, size: int) -> float:
    """Seconds of a processor that a text takes which repeats a unit."""
    text = unit * (size // len(unit))
    clean = Filter([HEX.encode(), KEY])
    begin = time.process_time()
    clean.text(text)
    return time.process_time() - begin


UNKNOWN = "Zx9-hunter2-Qq"
TOKEN = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6"
COMMANDS = (
    "mysql -uroot -p{} slurm_acct_db",
    "/usr/bin/mysqldump --password={} slurm_acct_db",
    "sh -c 'mariadb -p{} -e x'",
    "sshpass -p {} ssh n1",
    "sshpass -p{} ssh n1",
    "curl -s -u ann:{} https://x",
    "curl --user=ann:{} https://x",
    'curl -H "Authorization: Bearer {}" https://x',
    "ipmitool -H bmc -U admin -P {} power on",
    "ldapsearch -x -D cn=a -w {} uid=ann",
    "backup --password {} --now",
    'backup --api-token "{}" --now',
    "backup --db-passwd={}",
    "openssl rsa -passin pass:{}",
    "PGPASSWORD={} psql",
    "postgres://slurm:{}@db/x",
    "machine db login slurm password {}",
    "password => '{}'",
    "<password>{}</password>",
    "X-Auth-Token: {}",
    "SET PASSWORD FOR slurm = PASSWORD('{}')",
    "echo ann:{} | chpasswd",
    "printf '{}' | sudo -S id",
    "echo {} | docker login -u ann --password-stdin",
    "htpasswd -bB /etc/registry ann {}",
    "olcRootDN bindpw={}",
    "psk={}",
    "Kennwort: {}",
    "the password is {}",
    "('password', '{}')",
)
TOKENS = (
    *(
        f"ghp_{TOKEN}",
        f"github_pat_{TOKEN}",
        f"glpat-{TOKEN[:20]}",
        f"hf_{TOKEN[:34]}",
        f"xoxb-1234567890-{TOKEN[:24]}",
    ),
    *("AKIAIOSFODNN7EXAMPLE", f"sk-ant-api03-{TOKEN}", f"sk-proj-{TOKEN}", f"npm_{TOKEN}", f"nvapi-{TOKEN}"),
    *(f"hvs.{TOKEN}", f"AIza{TOKEN[:35]}", f"SG.{TOKEN[:22]}.{TOKEN}", f"dckr_pat_{TOKEN[:27]}", f"wandb_v1_{TOKEN}"),
)
PLACES: tuple[Callable[[str], str], ...] = (
    lambda line: line,
    lambda line: f"[2026-11-24T04:00:00.000] error: {line}",
    lambda line: f"2026-11-24T04:00:00+00:00 n1 slurmd[12]: {line}",
    lambda line: json.dumps({"error": f"one\n{line}\ntwo"}),
    lambda line: f"+{line}",
)
FORMS: dict[str, Callable[[str], str]] = {
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 twice": lambda text: base64.b64encode(base64.b64encode(text.encode())).decode(),
    "base64 of another alignment": lambda text: base64.b64encode(f"x{text}".encode()).decode(),
    "for URLs": lambda text: "".join(f"%{one:02x}" for one in text.encode()),
    "for URLs, twice": lambda text: quote(quote(text, safe=""), safe=""),
    "hexadecimal": lambda text: text.encode().hex(),
    "escapes": lambda text: "".join(f"\\x{one:02x}" for one in text.encode()),
    "gzip": lambda text: base64.b64encode(gzip.compress(text.encode())).decode(),
    "base32": lambda text: base64.b32encode(text.encode()).decode(),
    "entities": lambda text: "".join(f"&#{one};" for one in text.encode()),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("command", COMMANDS)
def test_the_secret_of_a_command_line_is_replaced_wherever_that_is(command: str, place: Callable[[str], str]) -> None:
    shown = Filter([]).text(f"before\n{place(command.format(UNKNOWN))}\nafter\n")
    assert UNKNOWN[4:] not in shown
    assert HIDDEN in shown
    assert shown.startswith("before\n")


@pytest.mark.parametrize("place", PLACES[:3])
@pytest.mark.parametrize("token", TOKENS)
def test_a_token_of_a_known_service_is_replaced_also_when_a_line_break_splits_it(
    token: str, place: Callable[[str], str]
) -> None:
    half = len(token) // 2
    assert token[-8:] not in Filter([]).text(place(f"token {token} expired"))
    split = f"{place(f'token {token[:half]}')}\n{place(f'{token[half:]} expired')}"
    shown = Filter([]).text(split)
    assert token[6:half] not in shown
    assert token[-8:] not in shown


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("secret", [f"password={UNKNOWN}", f"ghp_{TOKEN}", "of the site 4711"])
def test_a_secret_that_is_encoded_is_replaced(secret: str, form: str) -> None:
    coded = FORMS[form](secret)
    shown = Filter([b"of the site 4711"]).text(f"error: {coded} was refused\n")
    assert coded not in shown
    assert shown == f"error: {HIDDEN} was refused\n"


@pytest.mark.parametrize("columns", [64, 70, 76])
def test_the_body_of_a_key_without_its_header_is_replaced(columns: int) -> None:
    body = base64.b64encode(random.Random(7).randbytes(600)).decode()
    shown = Filter([]).text(f"key:\n{textwrap.fill(body, columns)}\n[2026-11-24T04:00:00.000] error: n1 is down\n")
    assert not any(body[first : first + 12] in shown for first in range(len(body) - 12))
    assert shown.endswith("[2026-11-24T04:00:00.000] error: n1 is down\n")


def test_a_secret_that_was_wrapped_at_a_usual_width_is_replaced_in_both_lines() -> None:
    line = f"{'x' * 45} backup --password Zx9"
    line = f"{'x' * (76 - len(line))}{line}"
    shown = Filter([]).text(f"{line}\nhunter2 went on\n")
    assert shown.endswith(f"--password {HIDDEN}\n{HIDDEN} went on\n")


def test_equal_digests_have_equal_numbers_and_a_line_of_nothing_else_is_counted() -> None:
    one, other = "5f" * 32, "6e" * 32
    clean = Filter([])
    assert clean.text(f"{one} {other} {one}") == "(digest-1) (digest-2) (digest-1)"
    assert clean.clean(f"a\n{base64.b64encode(random.Random(7).randbytes(90)).decode()}\n") == (f"a\n{HIDDEN}\n", 1)


@pytest.mark.parametrize(
    "line",
    [
        "[2026-11-24T04:07:28.536] error: Could not open node state file /var/lib/slurm/node_state: No such file",
        "SelectTypeParameters=CR_Core_Memory AccountingStorageTRES=gres/gpu,billing MaxJobCount=10000",
        "_slurm_rpc_allocate_resources JobId=1 NodeList=n[1-2] usec=1149 TaskPluginParam=AutoBind",
        "/usr/lib/x86_64-linux-gnu/slurm-wlm/accounting_storage_slurmdbd.so: GLIBC_2.34",
        "ConditionPathExists=/sys/firmware/efi/efivars/StubPcrKernelImage-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f",
        "Reached target basic.target - Basic System. Failed password for invalid user bob from 10.0.0.1 port 22 ssh2",
        "the password is expired; password was changed. echo done | docker ps upw: 3",
        "NVIDIA-A100-SXM4-80GB GPU 0: 00000000:3B:00.0 driver 535.104.05",
    ],
)
def test_ordinary_lines_stay_as_they_are(line: str) -> None:
    assert Filter([b"of the site 4711"]).text(f"{line}\n{line}\n") == f"{line}\n{line}\n"


SECRETS = st.text(string.ascii_letters + string.digits + "#%+/=!?._ -", min_size=10, max_size=40).filter(
    lambda text: text.strip() == text and "  " not in text and len(set(text)) > 5
)


@settings(max_examples=60, deadline=None)
@given(
    secret=SECRETS,
    form=st.sampled_from(("as it is", *FORMS)),
    cut=st.integers(1, 400),
    break_=st.sampled_from(("\n", "\n    ", "\\n", "\n2026-11-24T04:00:00+00:00 n1 slurmd[12]: ", "\r\n")),
)
def test_no_known_secret_remains_in_any_form_split_anywhere(secret: str, form: str, cut: int, break_: str) -> None:
    coded = FORMS[form](secret) if form in FORMS else secret
    at = 1 + cut % (len(coded) - 1)
    # A backslash at the end of a line says that it goes on: it is not taken for the begin of an escape.
    assume(coded[at - 1] != "\\")
    clean = Filter([secret.encode()])
    assert coded not in clean.text(f"error: {coded} refused")
    shown = clean.text(f"error: {coded[:at]}{break_}{coded[at:]} refused")
    rest = shown.removeprefix("error: ").removesuffix(" refused").replace(HIDDEN, "").replace(break_, "")
    assert len(rest) < max(8, len(coded) // 2), (coded, shown)
