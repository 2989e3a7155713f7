"""Options of add-user: keys from files, and what is new for an existing user."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import pytest

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.people.users import AddUserOptions, grown_text, read_keys


def key(number: int) -> str:
    return "ssh-ed25519 " + base64.b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0\x01%d" % number).decode() + f" k{number}"


FILE = f"""\
cluster: lab
controllers: [c1]
database: c1
nodes: [{{hosts: n1}}]
accounts: [{{name: physics}}, {{name: bio}}]
users:
  - name: ann
    uid: 2000
    comment: Ann
    accounts: [physics]
    keys: ["{key(1)}"]
"""


@pytest.fixture
def known(tmp_path: Path) -> Inventory:
    path = tmp_path / "cluster.yaml"
    path.write_text(FILE)
    return Inventory(loading.parse(FILE, str(path)), Lock(), path)


def test_keys_come_from_several_files_and_standard_input(tmp_path: Path) -> None:
    file = tmp_path / "ann.pub"
    file.write_text(f"# mine\n{key(1)}\n\n{key(2)}\n")
    assert read_keys([str(file), "-"], io.StringIO(key(3) + "\n")) == (key(1), key(2), key(3))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0\n-----END OPENSSH PRIVATE KEY-----\n", "a private key"),
        (b"# nothing\n", "it has no key"),
        (b"\xff\xfe", "not text"),
        (None, "No such file"),
    ],
    ids=["private", "empty", "binary", "missing"],
)
def test_a_file_without_public_keys_is_refused_and_its_content_is_not_shown(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    file = tmp_path / "key"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InputError, match=reason) as refused:
        read_keys([str(file)], io.StringIO())
    assert "c2VjcmV0" not in str(refused.value)


def test_all_options_of_a_new_user_are_written(known: Inventory) -> None:
    wish = AddUserOptions(accounts=("bio", "physics"), groups=("ml",), uid=3000, comment="Bob Example", sudo=True)
    bob = loading.parse(grown_text(known, "bob", wish, [key(2), key(2)]), "c.yaml").users[-1]
    assert (bob.name, bob.uid, bob.comment, bob.groups, bob.accounts, bob.sudo, bob.keys) == (
        "bob", 3000, "Bob Example", ("ml",), ("bio", "physics"), True, (key(2),)
    )  # fmt: skip


def test_new_options_are_added_to_an_existing_user(known: Inventory) -> None:
    wish = AddUserOptions(accounts=("physics", "bio"), uid=2000, comment="Ann", sudo=True)
    same_key = key(1).replace("k1", "another comment")
    (ann,) = loading.parse(grown_text(known, "ann", wish, [same_key, key(2)]), "c.yaml").users
    assert (ann.accounts, ann.keys, ann.sudo) == (("physics", "bio"), (key(1), key(2)), True)


def test_the_file_is_unchanged_if_the_user_has_all_options(known: Inventory) -> None:
    assert grown_text(known, "ann", AddUserOptions(accounts=("physics",)), [key(1)]) == FILE


@pytest.mark.parametrize(
    ("wish", "reason"),
    [
        (AddUserOptions(uid=2001), "--uid 2001: .* has 2000"),
        (AddUserOptions(comment="Anna"), "--comment Anna: .* has Ann"),
        (AddUserOptions(accounts=("physik",)), r"--account physik: no such account in .* \(known: physics, bio\)"),
    ],
)
def test_options_that_differ_from_the_file_are_refused(known: Inventory, wish: AddUserOptions, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        grown_text(known, "ann", wish, ())
