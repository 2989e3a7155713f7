"""The password file of an external database: what it may be."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmfab.accounting import password as database_password
from slurmfab.clusterfile.accounting import Database
from slurmfab.errors import InputError


def database(path: Path) -> Database:
    return Database(host="c1", external="db", password_file=str(path))


def test_a_password_is_the_one_word_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("correct-horse\n")
    path.chmod(0o600)
    assert database_password.read(database(path)) == "correct-horse"


def test_there_is_none_without_a_database_or_for_one_of_ours() -> None:
    assert database_password.read(None) == database_password.read(Database(host="c1")) == ""


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
def test_what_slurm_cannot_write_or_others_can_read_is_refused(
    tmp_path: Path, text: str, mode: int, reason: str
) -> None:
    path = tmp_path / "password"
    path.write_text(text)
    path.chmod(mode)
    with pytest.raises(InputError, match=reason) as error:
        database_password.read(database(path))
    assert not text or text not in str(error.value)


def test_a_file_that_is_missing_is_named_with_what_it_should_hold(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds, on one line, the password of slurm at db"):
        database_password.read(database(tmp_path / "none"))
