"""Files that something has to read: read once after each change, told when they do not work, and when they go."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurmfab.on_hosts.agent.core.resource import Context, apply
from slurmfab.on_hosts.agent.files import in_effect
from slurmfab.on_hosts.agent.files.in_effect import RECORD, InEffect

PATH = "/etc/sysctl.d/90-hpc.conf"
SEEN = "/tmp-seen"


@pytest.fixture(autouse=True)
def _readers(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    """A program that notes each reading, and one that fails."""
    seen = root / SEEN.lstrip("/")
    note = ("sh", "-c", f"echo %s >>{seen}")
    monkeypatch.setattr(
        in_effect, "READERS", (("/etc/sysctl.d/", ".conf", note), ("/etc/tmpfiles.d/", ".conf", ("false",)))
    )
    (root / "etc/sysctl.d").mkdir()
    (root / PATH.lstrip("/")).write_text("a = 1\n")


def readings(root: Path) -> int:
    seen = root / SEEN.lstrip("/")
    return len(seen.read_text().splitlines()) if seen.exists() else 0


def test_a_file_when_it_is_newer_than_its_last_reading_is_read_once(root: Path, context: Context) -> None:
    assert apply(InEffect((PATH,)), context).status == "changed"
    assert apply(InEffect((PATH,)), context).status == "ok"
    assert readings(root) == 1
    (root / PATH.lstrip("/")).write_text("a = 22\n")
    assert apply(InEffect((PATH,)), context).status == "changed"
    assert readings(root) == 2


def test_a_file_that_is_older_than_the_boot_is_not_read_again(root: Path, context: Context) -> None:
    os.utime(root / PATH.lstrip("/"), (1, 1))
    assert apply(InEffect((PATH,)), context).status == "ok"
    assert readings(root) == 0


def test_a_file_that_is_about_to_change_is_planned_to_be_read(root: Path) -> None:
    os.utime(root / PATH.lstrip("/"), (1, 1))
    context = Context(str(root), dry_run=True)
    context.touched.add(PATH)
    outcome = apply(InEffect((PATH,)), context)
    assert outcome.status == "would change"
    assert [(one.actual, one.wanted) for one in outcome.changes] == [("no, before its change", "yes")]


def test_a_file_that_its_program_does_not_take_is_named_and_the_others_are_in_effect(
    root: Path, context: Context
) -> None:
    wrong = "/etc/tmpfiles.d/x.conf"
    outcome = apply(InEffect((wrong, PATH)), context)
    assert outcome.status == "ok"
    assert outcome.message.startswith(f"{wrong} is not in effect: false ended with exit code 1")
    assert readings(root) == 1


def test_a_former_file_is_told_once_with_what_stays(root: Path, context: Context) -> None:
    apply(InEffect((PATH,)), context)
    (root / PATH.lstrip("/")).unlink()
    outcome = apply(InEffect(()), context)
    assert (outcome.status, outcome.message) == (
        "changed",
        f"{PATH} is gone, and what it has set stays until the next boot",
    )
    assert not (root / RECORD.lstrip("/")).exists()
    assert apply(InEffect(()), context).status == "ok"
