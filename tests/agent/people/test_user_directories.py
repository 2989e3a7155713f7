"""A directory of each user on the host's disk: made by root, each its user's own, and never through a link."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hostile_directory import give_away
from outcomes import told_of

from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.people.user_directories import UserDirectories


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A scratch root with ann and bob."""
    etc = tmp_path / "etc"
    etc.mkdir()
    etc.joinpath("passwd").write_text(
        "root:x:0:0::/root:/bin/sh\nann:x:2001:2001::/:/bin/sh\nbob:x:2002:100::/:/bin/sh\n"
    )
    etc.joinpath("group").write_text("root:x:0:\nann:x:2001:\nusers:x:100:\n")
    return tmp_path


def outcome(root: Path, *users: str, dry: bool = False) -> tuple[str, str]:
    """Apply the directories as a request that came over the wire, and return status and message."""
    return told_of(UserDirectories("/var/images", users), Context(str(root), dry_run=dry))


def access(path: Path) -> tuple[int, int, int]:
    status = path.lstat()
    return status.st_uid, status.st_gid, status.st_mode & 0o7777


needs_root = pytest.mark.needs_root("only root gives directories to users")


@needs_root
def test_directories_when_missing_then_each_user_has_one_and_files_stay(root: Path) -> None:
    images = root / "var/images"
    assert outcome(root, "ann", "bob", "nobody-here", dry=True)[0] == "would change"
    assert not images.exists()
    assert outcome(root, "ann", "bob", "nobody-here")[0] == "changed"
    assert access(images) == (0, 0, 0o755)
    assert [access(images / name) for name in ("2001", "2002")] == [(2001, 2001, 0o700), (2002, 100, 0o700)]
    (images / "2001/image").write_text("mine")
    (images / "2002").chmod(0o755)
    assert outcome(root, "ann", "bob")[0] == "changed"
    assert outcome(root, "ann", "bob")[0] == "ok"
    assert outcome(root)[0] == "ok"
    assert (images / "2001/image").read_text() == "mine"
    assert access(images / "2002") == (2002, 100, 0o700)


def test_directories_when_a_user_s_is_a_link_then_is_refused_and_not_followed(root: Path) -> None:
    (root / "var/images").mkdir(parents=True)
    (root / "elsewhere").mkdir()
    (root / "var/images/2001").symlink_to(root / "elsewhere")
    status, message = outcome(root, "ann")
    assert (status, "is not a directory" in message) == ("failed", True)
    assert access(root / "elsewhere")[0] == os.geteuid()


@needs_root
def test_directories_when_others_can_change_theirs_then_is_refused(root: Path) -> None:
    images = root / "var/images"
    (images / "2001").mkdir(parents=True)
    give_away(images)
    status, message = outcome(root, "ann")
    assert (status, "can change it" in message) == ("failed", True)
