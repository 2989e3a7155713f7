"""The password file of an external database: what it may be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory.accounting import Database
from slurmfab.core.engine import passwords


def database(path: Path) -> Database:
    return Database(host="c1", external="db", password_file=str(path))


def test_the_password_is_the_word_in_its_file(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("correct-horse\n")
    path.chmod(0o600)
    assert passwords.database_password(database(path)) == "correct-horse"


def test_there_is_no_password_without_an_external_database() -> None:
    assert passwords.database_password(None) == passwords.database_password(Database(host="c1")) == ""


@pytest.mark.parametrize(
    ("text", "mode", "reason"),
    [
        ("", 0o600, "is empty"),
        ("two words", 0o600, "more than one word"),
        ("a#b", 0o600, "cannot hold"),
        ('a"b', 0o600, "cannot hold"),
        ("a'b", 0o600, "cannot hold"),
        ("a,b", 0o600, "cannot hold"),
        ("a\\b", 0o600, "cannot hold"),
        ("päss", 0o600, "cannot hold"),
        ("fine", 0o640, "mode 0640"),
        ("fine", 0o604, "chmod 600"),
    ],
)
def test_a_password_that_slurmdbd_conf_cannot_hold_or_others_can_read_is_refused(
    tmp_path: Path, text: str, mode: int, reason: str
) -> None:
    path = tmp_path / "password"
    path.write_text(text)
    path.chmod(mode)
    with pytest.raises(InputError, match=reason) as error:
        passwords.database_password(database(path))
    assert not text or text not in str(error.value)


def test_a_password_file_that_is_a_pipe_is_refused_and_nobody_waits(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "password", 0o600)
    with pytest.raises(InputError, match="it is not a regular file"):
        passwords.database_password(database(tmp_path / "password"))


def test_a_missing_password_file_is_named_with_its_purpose(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must hold the password of slurm at db"):
        passwords.database_password(database(tmp_path / "none"))
