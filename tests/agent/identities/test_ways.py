"""The way to a directory: directories above it that keep its user out are named, and opened if they are root's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurmfab.on_hosts.agent.core.resource import Context, apply
from slurmfab.on_hosts.agent.files.directory import Directory
from slurmfab.on_hosts.agent.identities.ways import closed_ways, parents, passes

LOGS = Directory("/var/log/slurm", "slurm", "slurm", 0o755, ("slurm*.log",))
needs_root = pytest.mark.needs_root("only root can give files to another user")


def test_the_way_to_a_path_begins_at_the_top() -> None:
    assert list(parents("/var/log/slurm")) == ["/", "/var", "/var/log"]


@pytest.mark.parametrize(
    ("mode", "passed"), [(0o711, (True, True, True)), (0o750, (True, True, False)), (0o600, (False, False, False))]
)
def test_who_may_pass_a_directory_is_its_owner_its_group_or_everybody(
    tmp_path: Path, mode: int, passed: tuple[bool, ...]
) -> None:
    tmp_path.chmod(mode)
    uid, gid = os.getuid(), os.getgid()
    accounts = ((uid, gid), (uid + 1, gid), (uid + 1, gid + 1))
    assert tuple(passes(str(tmp_path), *account) for account in accounts) == passed


def test_a_directory_that_is_missing_keeps_nobody_out(tmp_path: Path) -> None:
    assert passes(str(tmp_path / "missing"), 1, 1)


@needs_root
def test_a_closed_directory_of_root_above_is_named_and_opened(root: Path, context: Context) -> None:
    for name in ("passwd", "group"):
        text = (root / "etc" / name).read_text()
        (root / "etc" / name).write_text(
            text.replace("slurm:x:0:0", "slurm:x:4711:4711").replace("slurm:x:0", "slurm:x:4711")
        )
    (root / "var/log/slurm").mkdir(parents=True)
    os.chown(root / "var/log/slurm", 4711, 4711)
    for path in (root, root / "var", root / "var/log/slurm"):
        path.chmod(0o755)
    (root / "var/log").chmod(0o700)
    assert closed_ways(context, "/var/log/slurm", "slurm") == "/var/log is root:root 0700"
    outcome = apply(LOGS, context)
    assert [(change.name, change.actual) for change in outcome.changes] == [("way", "/var/log is root:root 0700")]
    assert outcome.status == "changed"
    assert (root / "var/log").stat().st_mode & 0o7777 == 0o711
