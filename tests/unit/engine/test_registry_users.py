"""The file with the users of the image registry: what it may be."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory.registry import Registry
from slurmfab.core.engine import passwords

REGISTRY = Registry(host="c1")
HASH = "$2y$10$abcdefghijklmnopqrstuuqflPDzB6gcMhKa1rZqKiun2YGL5sa2u"


def write(directory: Path, text: str, mode: int = 0o600) -> None:
    (directory / "registry.htpasswd").write_text(text)
    (directory / "registry.htpasswd").chmod(mode)


def test_users_are_the_lines_of_the_file_without_comments(tmp_path: Path) -> None:
    write(tmp_path, f"# who may send images\n\nann:{HASH}\nci-bot:{HASH}\n")
    assert passwords.registry_users(REGISTRY, tmp_path) == f"ann:{HASH}\nci-bot:{HASH}\n"
    assert passwords.registry_users(None, tmp_path) == ""


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [
        (f"ann:{HASH}\n", 0o644, "has mode 0644, so other users can read or change"),
        ("\n", 0o600, "is empty. It must hold a line USER:HASH for each user"),
        ("# nobody\n", 0o600, "has no user. It must hold a line USER:HASH"),
        ("ann:secret\n", 0o600, "registry.htpasswd:1: it is not USER:HASH with a hash of bcrypt"),
        ("ann:$apr1$x$y\n", 0o600, "registry.htpasswd:1: it is not USER:HASH"),
        (f"ann:{HASH}\nbob {HASH}\n", 0o600, "registry.htpasswd:2: it is not USER:HASH"),
        (f"ann:{HASH}\nann:{HASH}\n", 0o600, "registry.htpasswd:2: ann is already in line 1"),
        (f"ann:{HASH.replace('$10$', '$17$')}\n", 0o600, "the cost of the hash is 17"),
    ],
)
def test_what_the_registry_would_not_take_is_refused_without_its_text(
    tmp_path: Path, text: str, mode: int, why: str
) -> None:
    write(tmp_path, text, mode)
    with pytest.raises(InputError) as refused:
        passwords.registry_users(REGISTRY, tmp_path)
    assert why in str(refused.value)
    assert "secret" not in str(refused.value)
    assert HASH[7:] not in str(refused.value)


def test_a_missing_file_is_refused_with_the_command_that_makes_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot be read: .*; to add one: htpasswd -B .*registry.htpasswd USER"):
        passwords.registry_users(REGISTRY, tmp_path)
