"""/dev/null, in a scratch root."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from slurmfab.on_hosts.agent.core.resource import Context, apply
from slurmfab.on_hosts.agent.files.null_device import NullDevice

needs_root = pytest.mark.needs_root("only root makes devices")


def broken_by_mode(null: Path) -> None:
    os.mknod(null, stat.S_IFCHR | 0o600, os.makedev(1, 3))


def replaced_by_a_file(null: Path) -> None:
    null.write_text("lost output")


def removed(null: Path) -> None:
    null.unlink(missing_ok=True)


@needs_root
@pytest.mark.parametrize("breaks", [broken_by_mode, replaced_by_a_file, removed])
def test_what_somebody_did_to_the_null_device_is_mended(root: Path, breaks: object) -> None:
    null = root / "dev/null"
    null.parent.mkdir()
    assert callable(breaks)
    breaks(null)
    assert apply(NullDevice(), Context(str(root))).status == "changed"
    found = null.lstat()
    assert (stat.S_ISCHR(found.st_mode), stat.S_IMODE(found.st_mode), found.st_rdev) == (True, 0o666, os.makedev(1, 3))
    assert apply(NullDevice(), Context(str(root))).status == "ok"
