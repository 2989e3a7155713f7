"""The results of checks beside the cluster file: the newest are kept and read again."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from slurmfab.base.errors import InputError
from slurmfab.commands.checks import kept
from slurmfab.commands.checks.kept import CheckRun
from slurmfab.commands.checks.results import Result, Verdict

BEGUN = datetime(2026, 11, 23, 9, 30, tzinfo=timezone.utc)
RESULTS = (
    Result("munge", "key", "the key", "n1", "failed", "it differs\nby a <b>", "fab deploy", 0.5, drift="changed file"),
    Result("reachable", "host", "SSH works", "n2", "failed", "no answer", is_unreachable=True),
    Result("munge", "key", "the key", "n2", "not run", "n2 is unreachable"),
)


def run_at(minutes: int = 0) -> CheckRun:
    return CheckRun(BEGUN + timedelta(minutes=minutes), "ann@desk", Verdict("lab", RESULTS, 2.5))


def test_results_when_kept_then_the_last_ones_are_read_as_they_were(tmp_path: Path) -> None:
    kept.keep(tmp_path / "cluster.yaml", run_at(0))
    kept.keep(tmp_path / "cluster.yaml", run_at(1))
    assert kept.last(tmp_path / "cluster.yaml") == run_at(1)


def test_results_when_never_kept_then_there_are_none(tmp_path: Path) -> None:
    assert kept.last(tmp_path / "cluster.yaml") is None


def test_results_when_many_are_kept_then_the_oldest_go(tmp_path: Path) -> None:
    for minutes in range(kept.MOST_FILES + 3):
        kept.keep(tmp_path / "cluster.yaml", run_at(minutes))
    names = sorted(path.name for path in (tmp_path / "cluster.checks").iterdir())
    assert (len(names), names[0]) == (kept.MOST_FILES, "20261123T093300.000000Z.json")


def test_results_when_kept_then_they_are_for_those_alone_who_may_change_the_cluster_file(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").touch(0o640)
    (tmp_path / "cluster.yaml").chmod(0o640)
    kept.keep(tmp_path / "cluster.yaml", run_at())
    [path] = (tmp_path / "cluster.checks").iterdir()
    assert [one.stat().st_mode & 0o777 for one in (path, path.parent)] == [0o600, 0o700]


@pytest.mark.parametrize("text", ["", "{}", '{"cluster": 1}', "[]"])
def test_results_when_the_file_is_broken_then_it_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "cluster.checks").mkdir()
    (tmp_path / "cluster.checks/20261123T093300.000000Z.json").write_text(text)
    with pytest.raises(InputError, match="20261123T093300"):
        kept.last(tmp_path / "cluster.yaml")


def test_what_the_last_check_found_is_told_behind_a_run_that_changed_nothing_since(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    assert kept.still_against(file) == ""
    kept.keep(file, run_at())
    told = kept.still_against(file)
    assert "munge: the key (n1), and 1 more. To check again: fab check-cluster" in told


@pytest.mark.parametrize(("minutes", "is_told"), [(-1, True), (1, False)])
def test_what_the_last_check_found_is_not_told_when_hosts_were_changed_after_it(
    tmp_path: Path, minutes: int, is_told: bool
) -> None:
    file = tmp_path / "cluster.yaml"
    kept.keep(file, run_at())
    (tmp_path / "cluster.runs").mkdir()
    name = (BEGUN + timedelta(minutes=minutes)).strftime("%Y%m%dT%H%M%S.%fZ")
    (tmp_path / f"cluster.runs/{name}-1a2b.json").write_text("{}")
    assert bool(kept.still_against(file)) == is_told
