"""The record of a run: a JSON file beside the cluster file, and not too many of them."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from support import MUNGE_KEY, FakeHosts, cluster, facts_of, prepared, run_over

from slurmfab import record
from slurmfab.deploy import deploy
from slurmfab.errors import InputError
from slurmfab.report import Report

NOON = datetime(2026, 1, 2, 12, tzinfo=timezone.utc)
REPORT = Report("deploy", "lab", ("c1",), (), {}, 1.0)


def test_a_record_lies_beside_its_cluster_file_and_tells_who_what_and_when(tmp_path: Path) -> None:
    path = record.write(REPORT, tmp_path / "lab.yaml", NOON)
    assert path == tmp_path / "lab.runs/20260102T120000.000000Z-deploy.json"
    plain = json.loads(path.read_text())
    assert (plain["command"], plain["cluster"], plain["ended"]) == ("deploy", "lab", "2026-01-02T12:00:00+00:00")
    assert "@" in plain["by"]


def test_only_the_newest_records_are_kept(tmp_path: Path) -> None:
    times = [NOON + timedelta(seconds=number) for number in range(record.KEPT + 3)]
    written = [record.write(REPORT, tmp_path / "lab.yaml", time) for time in times]
    assert sorted(record.directory(tmp_path / "lab.yaml").iterdir()) == written[3:]


def test_no_record_has_the_munge_key(tmp_path: Path) -> None:
    facts = facts_of(cluster(), prepared) | {"c1": prepared("c1", munge_key=MUNGE_KEY)}
    hosts = FakeHosts(
        facts,
        wrong={"n1": {"file:/etc/munge/munge.key"}, "n2": {"file:/etc/munge/munge.key"}},
        failing={"n2": {"file:/etc/munge/munge.key"}},
    )
    path = record.write(deploy(run_over(hosts, cluster())), tmp_path / "lab.yaml")
    text = path.read_text()
    assert "file:/etc/munge/munge.key" in text
    assert MUNGE_KEY not in text


def test_a_record_that_cannot_be_written_is_an_error_in_words(tmp_path: Path) -> None:
    (tmp_path / "lab.runs").write_text("in the way")
    with pytest.raises(InputError, match="cannot be written"):
        record.write(REPORT, tmp_path / "lab.yaml", NOON)
