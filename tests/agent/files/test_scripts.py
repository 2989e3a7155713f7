"""A directory of scripts, in a scratch root."""

from __future__ import annotations

import os
from pathlib import Path

from slurmfab.on_hosts.agent.core.resource import CHANGED, FAILED, OK, Context, apply
from slurmfab.on_hosts.agent.files.scripts import Scripts

PROLOG = "/etc/slurm/prolog.d"
TWO = (("10-first", "#!/bin/sh\ntrue\n"), ("20-second", "#!/bin/sh\nexit 0\n"))


def test_scripts_when_missing_are_written_and_executable(context: Context, root: Path) -> None:
    assert apply(Scripts(PROLOG, TWO), context).status == CHANGED
    assert apply(Scripts(PROLOG, TWO), context).status == OK
    place = root / PROLOG[1:]
    assert sorted(path.name for path in place.iterdir()) == ["10-first", "20-second"]
    assert [path.stat().st_mode & 0o777 for path in (place, place / "10-first")] == [0o755, 0o755]


def test_scripts_when_other_files_are_in_the_directory_then_these_are_removed(context: Context, root: Path) -> None:
    place = root / PROLOG[1:]
    (place / "directory").mkdir(parents=True)
    (place / "directory/inside").write_text("")
    (place / "99-mine").write_text("#!/bin/sh\n")
    (place / ".slurmfab-10-first.0123abcd").write_text("half a scr")
    (place / "link").symlink_to("/etc/passwd")
    (place / "10-first").symlink_to(root / "etc/passwd")
    before = (root / "etc/passwd").read_text()
    outcome = apply(Scripts(PROLOG, TWO), context)
    assert outcome.status == CHANGED
    assert {"99-mine", "directory", "link"} <= {change.name for change in outcome.changes}
    assert sorted(path.name for path in place.iterdir()) == ["10-first", "20-second"]
    assert (root / "etc/passwd").read_text() == before


def test_a_script_when_its_text_or_mode_differs_then_no_other_script_is_replaced(context: Context, root: Path) -> None:
    apply(Scripts(PROLOG, TWO), context)
    place = root / PROLOG[1:]
    other = (place / "20-second").stat()
    (place / "10-first").write_text("#!/bin/sh\nfalse\n")
    outcome = apply(Scripts(PROLOG, TWO), context)
    assert [change.name for change in outcome.changes] == ["10-first"]
    assert Scripts(PROLOG, TWO).touches(frozenset({"10-first"})) == (f"{PROLOG}/10-first",)
    (place / "10-first").chmod(0o644)
    assert [change.name for change in apply(Scripts(PROLOG, TWO), context).changes] == ["10-first access"]
    assert os.access(place / "10-first", os.X_OK)
    assert (place / "20-second").stat() == other


def test_a_directory_when_no_scripts_are_wanted_is_removed(context: Context, root: Path) -> None:
    assert apply(Scripts(PROLOG, ()), context).status == OK
    apply(Scripts(PROLOG, TWO), context)
    assert apply(Scripts(PROLOG, ()), context).status == CHANGED
    assert not (root / PROLOG[1:]).exists()
    assert apply(Scripts(PROLOG, ()), context).status == OK


def test_scripts_when_their_directory_is_a_link_then_nothing_is_changed(context: Context, root: Path) -> None:
    (root / "etc/slurm").mkdir()
    (root / "others").mkdir()
    (root / "others/file").write_text("theirs")
    (root / PROLOG[1:]).symlink_to(root / "others")
    for context.dry_run in (True, False):
        outcome = apply(Scripts(PROLOG, TWO), context)
        assert (outcome.status, "not a directory" in outcome.message) == (FAILED, True)
    assert outcome.changes == ()
    assert [path.name for path in (root / "others").iterdir()] == ["file"]
