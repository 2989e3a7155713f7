"""The password file of a relay: what it may be."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory.mail import Mail
from slurmfab.core.engine import passwords

RELAY = Mail(relay="smtp", sender="slurm@example.org", user="slurm", password_file="secret")


def write(directory: Path, text: str, mode: int = 0o600) -> None:
    (directory / "secret").write_text(text)
    (directory / "secret").chmod(mode)


def test_the_password_is_the_line_in_the_file_beside_the_cluster_file(tmp_path: Path) -> None:
    write(tmp_path, 'two "words" # here\n')
    assert passwords.of_mail(RELAY, tmp_path) == 'two "words" # here'


def test_there_is_no_password_without_a_login(tmp_path: Path) -> None:
    assert passwords.of_mail(None, tmp_path) == ""
    assert passwords.of_mail(Mail(relay="smtp", sender="a@b.org"), tmp_path) == ""


@pytest.mark.parametrize(
    ("text", "mode", "reason"),
    [
        ("", 0o600, "is empty"),
        ("two\nlines", 0o600, "more than one line"),
        ("päss", 0o600, "not ASCII"),
        ("x" * 401, 0o600, "more than 400"),
        ("fine", 0o640, "chmod 600"),
    ],
)
def test_a_password_that_msmtp_cannot_hold_or_others_can_read_is_refused(
    tmp_path: Path, text: str, mode: int, reason: str
) -> None:
    write(tmp_path, text, mode)
    with pytest.raises(InputError, match=reason) as error:
        passwords.of_mail(RELAY, tmp_path)
    assert not text or text not in str(error.value)
