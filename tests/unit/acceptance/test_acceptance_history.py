"""The history of acceptance jobs: what is kept, what is skipped, and with what a figure is compared."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from json_shapes import assert_fits
from ruled_shells import RuledShell

from slurmfab.base.json_output import as_json
from slurmfab.commands.accept import listing
from slurmfab.commands.accept.listing import Entry, History, last_runs, middle_of, parse
from slurmfab.commands.checks.hosts import CheckedHost

ENTRY = Entry("r1", "2026-11-23T08:15:00Z", "speed", "", "n1", "n1", "GB/s", "passed", "", "slurm", 100.0, 90.0, 3.0)


def line(**said: object) -> bytes:
    return json.dumps({**ENTRY.__dict__, **said}).encode()


def test_an_entry_is_read_as_it_was_written() -> None:
    assert parse(line()) == ENTRY
    assert parse(line(value=None, target=None)) is not None


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"[]",
        b"{}",
        b"{" * 100_000,
        line(value="100"),
        line(value=True),
        line(value=float("inf")),
        line(job=3),
        line(seconds=None),
        line()[:-9],
    ],
)
def test_a_damaged_line_is_skipped(damaged: bytes) -> None:
    assert parse(damaged) is None


def test_a_figure_is_compared_with_those_of_its_own_job_place_and_unit() -> None:
    found = [parse(line(**said)) for said in ({}, {"place": "n2"}, {"value": None}, {"value": 120}, {"unit": "MB/s"})]
    entries = [one for one in found if one is not None]
    assert middle_of(entries, ENTRY.key) == (110.0, 2)
    assert middle_of((), ENTRY.key) == (None, 0)


def test_the_list_has_the_last_runs_of_each_place_with_their_changes() -> None:
    values = [100, 100, 100, 90, 80, 100, 50]
    shown = last_runs([one for value in values if (one := parse(line(value=value))) is not None])
    assert [one.entry.value for one in shown] == [100, 90, 80, 100, 50]
    assert [one.change for one in shown] == [0.0, -10.0, -20.0, 0.0, -50.0]
    assert_fits("accept-history", as_json(History(1, "lab", shown)))
    assert shown[1].cells() == ("2026-11-23 08:15", "speed", "n1", "90 GB/s", "90", "-10.0 %", "passed")


def test_lines_are_added_behind_a_line_that_was_cut_and_old_ones_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "acceptance"
    command = (
        listing.ADD.replace("/var/lib/slurmfab/acceptance", str(place))
        .replace(str(2 * listing.MOST_BYTES), "4000")
        .replace(str(listing.MOST_BYTES), "2000")
    )
    monkeypatch.setattr(listing, "ADD", command)

    class Here:
        """A shell on this machine."""

        def run(self, command: str, stdin: str = "", seconds: float = 0) -> object:  # noqa: ARG002
            done = subprocess.run(["sh", "-c", command], input=stdin.encode(), capture_output=True, check=False)
            return history_result(done)

    host = CheckedHost("c1", Here())  # type: ignore[arg-type]
    place.mkdir()
    (place / "lock").touch(0o644)  # as an earlier slurmfab left it
    assert listing.add_history(host, [ENTRY]) == ""
    file = place / "history.jsonl"
    file.write_bytes(file.read_bytes()[:-20])
    for _ in range(30):
        assert listing.add_history(host, [ENTRY, ENTRY]) == ""
    assert len(file.read_bytes()) <= 4000
    assert all(parse(one) == ENTRY for one in file.read_bytes().splitlines())
    modes = {one.name: one.stat().st_mode & 0o777 for one in place.iterdir()}
    assert modes == {"lock": 0o600, "history.jsonl": 0o644}  # whoever can open the lock can take it


def history_result(done: subprocess.CompletedProcess[bytes]) -> object:
    from slurmfab.commands.checks.shell import CommandResult

    return CommandResult(done.returncode, done.stdout, done.stderr)


def test_a_history_that_cannot_be_written_says_why() -> None:
    shell = RuledShell({})
    assert "not found" in listing.add_history(CheckedHost("c1", shell), [ENTRY])
    assert listing.read_history(CheckedHost("c1", RuledShell({"tail": "damaged\n" + line().decode() + "\n"}))) == (
        ENTRY,
    )
