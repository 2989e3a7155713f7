"""What add-user makes of the command line: keys from files, and what is new in what is wished."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import pytest

from slurmfab import inventory
from slurmfab.errors import InputError
from slurmfab.inventory import Inventory
from slurmfab.lock import Lock
from slurmfab.people.adding import Wish, grown_text, read_keys


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
    return Inventory(inventory.parse(FILE, str(path)), Lock(), path)


def test_keys_come_from_several_files_and_standard_input(tmp_path: Path) -> None:
    file = tmp_path / "ann.pub"
    file.write_text(f"# mine\n{key(1)}\n\n{key(2)}\n")
    assert read_keys([str(file), "-"], io.StringIO(key(3) + "\n")) == (key(1), key(2), key(3))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0\n-----END OPENSSH PRIVATE KEY-----\n", "a private key"),
        (b"# nothing\n", "there is no key in it"),
        (b"\xff\xfe", "no text"),
        (None, "No such file"),
    ],
    ids=["private", "empty", "binary", "missing"],
)
def test_a_file_without_public_keys_is_refused_and_none_of_it_is_shown(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    file = tmp_path / "key"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InputError, match=reason) as refused:
        read_keys([str(file)], io.StringIO())
    assert "c2VjcmV0" not in str(refused.value)


def test_of_a_new_user_all_that_is_wished_is_written(known: Inventory) -> None:
    wish = Wish(accounts=("bio", "physics"), groups=("ml",), uid=3000, comment="Bob Example", sudo=True)
    bob = inventory.parse(grown_text(known, "bob", wish, [key(2), key(2)]), "c.yaml").users[-1]
    assert (bob.name, bob.uid, bob.comment, bob.groups, bob.accounts, bob.sudo, bob.keys) == (
        "bob", 3000, "Bob Example", ("ml",), ("bio", "physics"), True, (key(2),)
    )  # fmt: skip


def test_of_a_user_who_is_there_what_is_new_is_added(known: Inventory) -> None:
    wish = Wish(accounts=("physics", "bio"), uid=2000, comment="Ann", sudo=True)
    same_key = key(1).replace("k1", "another comment")
    (ann,) = inventory.parse(grown_text(known, "ann", wish, [same_key, key(2)]), "c.yaml").users
    assert (ann.accounts, ann.keys, ann.sudo) == (("physics", "bio"), (key(1), key(2)), True)


def test_a_user_of_whom_all_is_said_leaves_the_file_as_it_is(known: Inventory) -> None:
    assert grown_text(known, "ann", Wish(accounts=("physics",)), [key(1)]) == FILE


@pytest.mark.parametrize(
    ("wish", "reason"),
    [
        (Wish(uid=2001), "--uid 2001: .* says 2000"),
        (Wish(comment="Anna"), "--comment Anna: .* says Ann"),
        (Wish(accounts=("physik",)), r"--account physik: no account in .* \(known: physics, bio\)"),
    ],
)
def test_what_the_file_says_otherwise_is_not_changed(known: Inventory, wish: Wish, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        grown_text(known, "ann", wish, ())
