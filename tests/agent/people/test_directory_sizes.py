"""What directories hold: measured on disk, without following links, within a time limit."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from slurmfab.base.answers import values
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.people.directory_sizes import DU, GENTLY, read

KIB = 1024


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory with ann's and bob's homes; ann has a link to bob's."""
    place = tmp_path / "home"
    for name, count in (("ann", 64), ("bob", 512)):
        (place / name / "data").mkdir(parents=True)
        (place / name / "data" / "file").write_bytes(b"x" * count * KIB)
        os.utime(place / name / "data" / "file", (0, 4_000_000_000))
    (place / "ann" / "link").symlink_to(place / "bob")
    (place / "link").symlink_to(place / "bob")
    (place / "file").write_text("no directory")
    return tmp_path


def asked(context: Context, *places: str, seconds: float = 60) -> dict[str, Any]:
    """The answer, which its model accepts."""
    answer = read({"op": "directory-sizes", "places": list(places), "seconds": seconds}, context)
    model = values("directory_sizes")
    assert model is not None
    model.validate_python(answer)
    return answer


def test_homes_are_measured_with_their_last_change_and_links_are_not_followed(home: Path) -> None:
    rows = asked(Context(str(home)), "/home", "/none")["rows"]
    assert [(row[0], row[1], row[4], row[5]) for row in rows] == [
        ("/home", "ann", 4_000_000_000, ""),
        ("/home", "bob", 4_000_000_000, ""),
    ]
    sizes = {row[1]: row[3] for row in rows}
    assert 64 * KIB <= sizes["ann"] < 512 * KIB <= sizes["bob"] < 1024 * KIB


def test_a_place_that_is_a_link_is_left_alone(home: Path) -> None:
    (home / "other").symlink_to(home / "home")
    assert asked(Context(str(home)), "/other")["rows"] == []


def test_a_name_that_would_forge_lines_is_escaped(home: Path) -> None:
    (home / "home" / "a\nb\x1b[2J").mkdir()
    assert asked(Context(str(home)), "/home")["rows"][0][1] == "a\\nb\\x1b[2J"


class Slow(Context):
    """A host on which du of ann's home does not end in time, and bob's cannot be read whole."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self.limits: list[float] = []

    def run(
        self, argv: Sequence[str], _stdin: bytes = b"", seconds: float = 60.0, *_: Any, **__: Any
    ) -> subprocess.CompletedProcess[bytes]:
        assert tuple(argv[:-1]) == (*GENTLY, *DU, "--")
        self.limits.append(seconds)
        if argv[-1].endswith("ann"):
            raise ResourceFailed("du did not end")
        return subprocess.CompletedProcess(list(argv), 1, b"4096\t1700000000\tbob\n", b"cannot read")


def test_each_directory_gets_its_part_of_the_time_and_the_others_are_measured_all_the_same(home: Path) -> None:
    slow = Slow(home)
    rows = asked(slow, "/home", seconds=40)["rows"]
    assert [row[3:] for row in rows] == [[0, 0, "late"], [4096, 1700000000, "partly"]]
    assert slow.limits[0] == pytest.approx(20, abs=1)
    assert slow.limits[1] == pytest.approx(40, abs=1)
    assert [row[5] for row in asked(slow, "/home", seconds=0)["rows"]] == ["late", "late"]
