"""Users, groups and their keys, in a scratch root."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path

import pytest
from local_agent import snapshot
from outcomes import failure

from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed, apply
from slurmfab.on_hosts.agent.identities.passwd_files import wait_for_lock
from slurmfab.on_hosts.agent.identities.ssh_key import SshKey
from slurmfab.on_hosts.agent.identities.user import Group, User
from slurmfab.on_hosts.agent.munge.key import MungeKey

needs_root = pytest.mark.needs_root("useradd and groupadd want root, also in a scratch root")
needs_ssh_keygen = pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="ssh-keygen is not installed")

ALICE = User("alice", 4711, "alice", "/home/alice", "/bin/bash")


@needs_root
def test_a_user_and_group_when_missing_are_made_as_wanted(root: Path, context: Context) -> None:
    for name in ("shadow", "gshadow"):
        (root / "etc" / name).touch()
    assert apply(Group("alice", 4712), context).status == "changed"
    assert apply(ALICE, context).status == "changed"
    assert "alice:x:4711:4712::/home/alice:/bin/bash" in (root / "etc/passwd").read_text().splitlines()
    assert (root / "etc/shadow").read_text().startswith("alice:*:")
    assert not (root / "home").exists()
    assert [apply(one, context).status for one in (Group("alice", 4712), ALICE)] == ["ok", "ok"]


@needs_root
def test_a_user_when_home_and_shell_differ_gets_them(root: Path, context: Context) -> None:
    with (root / "etc/passwd").open("a") as file:
        file.write("alice:x:4711:4712:A:/nonexistent:/bin/false\n")
    with (root / "etc/group").open("a") as file:
        file.write("alice:x:4712:\n")
    assert apply(ALICE, context).status == "changed"
    assert "alice:x:4711:4712:A:/home/alice:/bin/bash" in (root / "etc/passwd").read_text().splitlines()


def test_a_user_who_does_not_log_in_when_there_already_keeps_home_and_shell(root: Path, context: Context) -> None:
    with (root / "etc/passwd").open("a") as file:
        file.write("alice:x:4711:4712:A:/nonexistent:/bin/false\n")
    with (root / "etc/group").open("a") as file:
        file.write("alice:x:4712:\n")
    before = (root / "etc/passwd").read_text()
    assert apply(User("alice", 4711, "alice", "/home/alice", "/bin/bash", kept=True), context).status == "ok"
    assert (root / "etc/passwd").read_text() == before


def test_a_busy_user_when_rewritten_keeps_every_other_line(root: Path, context: Context) -> None:
    before = (root / "etc/passwd").read_text()
    with (root / "etc/passwd").open("a") as file:
        file.write("alice:x:4711:4712:A:/nonexistent:/bin/false\n# last\n")
    ALICE.edit_passwd(context)
    assert (root / "etc/passwd").read_text() == before + "alice:x:4711:4712:A:/home/alice:/bin/bash\n# last\n"


def test_the_passwd_lock_when_held_by_another_program_is_not_broken(root: Path) -> None:
    path = root / "etc/.pwd.lock"
    ready, done = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
        fcntl.lockf(descriptor, fcntl.LOCK_EX)
        os.write(ready[1], b"x")
        os.close(done[1])
        os.read(done[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    descriptor = os.open(path, os.O_WRONLY)
    with pytest.raises(ResourceFailed, match="another program has held the lock"):
        wait_for_lock(descriptor, 0.01)
    os.close(done[1])
    os.waitpid(child, 0)
    wait_for_lock(descriptor, 0.01)


@pytest.mark.parametrize(
    ("resource", "numbers"),
    [
        (User("slurm", 70000, "slurm", "/var/lib/slurm", "/bin/sh"), ("70000", str(os.getuid()))),
        (Group("slurm", 70000), ("70000", str(os.getgid()))),
        (User("slurm", os.getuid(), "other", "/var/lib/slurm", "/bin/sh"), ("4713", str(os.getgid()))),
    ],
)
def test_an_account_when_its_number_differs_is_not_changed_and_both_numbers_are_named(
    root: Path, context: Context, resource: User | Group, numbers: tuple[str, str]
) -> None:
    with (root / "etc/group").open("a") as file:
        file.write("other:x:4713:\n")
    before = snapshot(root)
    assert all(number in failure(resource, context) for number in numbers)
    assert snapshot(root) == before


def test_a_munge_key_when_missing_is_made_once(root: Path, context: Context) -> None:
    (root / "etc/munge").mkdir()
    first = apply(MungeKey(), context)
    key = (root / "etc/munge/munge.key").read_bytes()
    second = apply(MungeKey(), context)
    assert (root / "etc/munge/munge.key").read_bytes() == key
    assert (first.status, second.status) == ("changed", "ok")
    assert len(key) == 128
    assert (root / "etc/munge/munge.key").stat().st_mode & 0o7777 == 0o400


def test_a_munge_key_when_usable_is_kept_and_closed_to_others(root: Path, context: Context) -> None:
    (root / "etc/munge").mkdir()
    key = root / "etc/munge/munge.key"
    key.write_bytes(b"k" * 64)
    outcome = apply(MungeKey(), context)
    assert [change.name for change in outcome.changes] == ["mode"]
    assert key.read_bytes() == b"k" * 64
    assert key.stat().st_mode & 0o7777 == 0o400


def test_a_munge_key_when_too_short_for_munged_is_replaced(root: Path, context: Context) -> None:
    (root / "etc/munge").mkdir()
    key = root / "etc/munge/munge.key"
    key.write_bytes(b"")
    outcome = apply(MungeKey(), context)
    assert outcome.changes[0].actual == "unusable: 0 bytes"
    assert len(key.read_bytes()) == 128


KEY = SshKey("slurm", "/var/lib/slurm")


def public_key(root: Path) -> str:
    return (root / "var/lib/slurm/.ssh/id_ed25519.pub").read_text().strip()


@needs_ssh_keygen
def test_a_key_pair_when_missing_is_made_once_with_its_home(root: Path, context: Context) -> None:
    first, second = apply(KEY, context), apply(KEY, context)
    assert (first.status, second.status) == ("changed", "ok"), first.message
    folder = root / "var/lib/slurm/.ssh"
    assert {path.name: path.stat().st_mode & 0o7777 for path in (folder.parent, folder, *folder.iterdir())} == {
        "slurm": 0o750, ".ssh": 0o700, "id_ed25519": 0o600, "id_ed25519.pub": 0o644
    }  # fmt: skip
    public = (folder / "id_ed25519.pub").read_text().strip()
    assert public.split()[2] == f"slurm@{os.uname().nodename.split('.')[0]}"


@needs_ssh_keygen
def test_a_public_key_when_lost_is_derived_from_the_private_one(root: Path, context: Context) -> None:
    apply(KEY, context)
    before = public_key(root)
    private = (root / "var/lib/slurm/.ssh/id_ed25519").read_bytes()
    (root / "var/lib/slurm/.ssh/id_ed25519.pub").unlink()
    outcome = apply(KEY, context)
    assert [change.name for change in outcome.changes] == ["public key"]
    assert public_key(root) == before
    assert (root / "var/lib/slurm/.ssh/id_ed25519").read_bytes() == private


@needs_ssh_keygen
def test_a_private_key_when_open_to_others_is_closed_and_kept(root: Path, context: Context) -> None:
    apply(KEY, context)
    before = public_key(root)
    (root / "var/lib/slurm/.ssh/id_ed25519").chmod(0o644)
    (root / "var/lib/slurm").chmod(0o777)
    outcome = apply(KEY, context)
    assert (outcome.status, public_key(root)) == ("changed", before)
    assert {change.name for change in outcome.changes} == {"home", "private key"}
    assert (root / "var/lib/slurm").stat().st_mode & 0o7777 == 0o750


@needs_ssh_keygen
def test_a_key_pair_of_an_interrupted_run_is_made_again(root: Path, context: Context) -> None:
    folder = root / "var/lib/slurm/.ssh"
    folder.mkdir(parents=True)
    (folder / "id_ed25519.slurmfab").write_text("half a key")
    (folder / "id_ed25519.pub").write_text("ssh-ed25519 of-another-pair\n")
    outcome = apply(KEY, context)
    assert outcome.status == "changed", outcome.message
    assert "of-another-pair" not in public_key(root)
    assert sorted(path.name for path in folder.iterdir()) == ["id_ed25519", "id_ed25519.pub"]


def test_a_home_with_another_but_safe_mode_is_not_changed(root: Path, context: Context) -> None:
    home = root / "var/lib/slurm"
    home.mkdir(parents=True, mode=0o755)
    assert KEY.actual(context)["home"] == KEY.wanted(context)["home"]
