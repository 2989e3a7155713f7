"""Ranges of further UIDs and GIDs: written beside those of others, never taken from them, and taken back."""

from __future__ import annotations

from pathlib import Path

import pytest
from outcomes import told_of

from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.people.subordinate_ids import RECORD, SubordinateIds

ANN, BOB = ("ann", 2001 * 65536), ("bob", 2002 * 65536)
ANNS, BOBS = "ann:131137536:65536\n", "bob:131203072:65536\n"


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    """A scratch root's /etc with ann, bob and carl, of whom useradd has given ann and carl numbers."""
    etc = tmp_path / "etc"
    etc.mkdir()
    people = "ann:x:2001:2001::/home/ann:/bin/sh\nbob:x:2002:2002::/home/bob:/bin/sh\ncarl:x:1000:1000::/:/bin/sh\n"
    (etc / "passwd").write_text("root:x:0:0::/root:/bin/sh\n" + people)
    (etc / "group").write_text("root:x:0:\nann:x:2001:\nbob:x:2002:\ncarl:x:1000:\n")
    for name in ("subuid", "subgid"):
        (etc / name).write_text("carl:100000:65536\nann:165536:65536\n")
    return etc


def outcome(etc: Path, *ranges: tuple[str, int]) -> tuple[str, str]:
    """Apply ranges as a request that came over the wire, and return status and message."""
    return told_of(SubordinateIds(ranges), Context(str(etc.parent)))


def texts(etc: Path) -> list[str]:
    return [(etc / name).read_text() for name in ("subuid", "subgid")]


def test_ranges_when_users_have_others_then_are_replaced_and_come_back(etc: Path) -> None:
    before = texts(etc)
    assert outcome(etc, ANN, BOB)[0] == "changed"
    assert texts(etc) == [f"carl:100000:65536\n{ANNS}{BOBS}"] * 2
    assert outcome(etc, ANN, BOB)[0] == "ok"
    assert outcome(etc)[0] == "changed"
    assert texts(etc) == before
    assert not (etc.parent / RECORD.lstrip("/")).exists()
    assert outcome(etc)[0] == "ok"


def test_ranges_when_a_user_leaves_then_only_that_line_goes(etc: Path) -> None:
    outcome(etc, ANN, BOB)
    assert outcome(etc, ANN)[0] == "changed"
    assert texts(etc) == [f"carl:100000:65536\n{ANNS}"] * 2


def test_ranges_when_a_former_user_is_gone_from_the_host_then_no_line_comes_back(etc: Path) -> None:
    outcome(etc, ANN, BOB)
    (etc / "passwd").write_text("bob:x:2002:2002::/home/bob:/bin/sh\n")
    (etc / "subuid").write_text(f"carl:100000:65536\n{BOBS}")
    assert outcome(etc, BOB)[0] == "changed"
    assert texts(etc) == [f"carl:100000:65536\n{BOBS}"] * 2


def test_ranges_when_a_uid_changes_then_the_earlier_range_is_not_kept(etc: Path) -> None:
    outcome(etc, BOB)
    outcome(etc, ("bob", 2003 * 65536))
    assert texts(etc)[0].endswith("bob:131268608:65536\n")
    outcome(etc)
    assert "bob" not in texts(etc)[0]


def test_ranges_when_the_files_are_missing_then_are_made(etc: Path) -> None:
    for name in ("subuid", "subgid"):
        (etc / name).unlink()
    assert outcome(etc, ANN)[0] == "changed"
    assert texts(etc) == [ANNS] * 2
    assert (etc / "subuid").stat().st_mode & 0o7777 == 0o644


@pytest.mark.parametrize(
    ("file", "line", "reason"),
    [
        ("subuid", "dora:131137536:65536", "/etc/subuid: dora has numbers from 131137536 on"),
        ("subgid", "dora:131000000:137537", "/etc/subgid: dora has numbers from 131000000 on"),
        ("subuid", "dora:0:4294967295", "/etc/subuid: dora has numbers from 0 on"),
        ("passwd", "eve:x:131203071:100::/:/bin/sh", "/etc/subuid: eve (UID) has numbers from 131203071 on"),
        ("group", "team:x:131137536:", "/etc/subgid: team (GID) has numbers from 131137536 on"),
    ],
)
def test_ranges_when_somebody_else_has_one_of_the_numbers_then_nothing_is_changed(
    etc: Path, file: str, line: str, reason: str
) -> None:
    with (etc / file).open("a") as there:
        there.write(f"{line}\n")
    before = texts(etc)
    status, message = outcome(etc, ANN)
    assert (status, reason in message, "among the subordinate" in message) == ("failed", True, True)
    assert texts(etc) == before


def test_ranges_when_others_are_just_below_and_above_then_they_are_no_clash(etc: Path) -> None:
    with (etc / "subuid").open("a") as there:
        there.write("dora:131137535:1\neve:131203072:1\nnot a line\n")
    assert outcome(etc, ANN)[0] == "changed"
    assert "not a line\n" in texts(etc)[0]
