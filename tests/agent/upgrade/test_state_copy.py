"""slurmctld's state, copied before a newer slurmctld reads it."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from slurmfab.on_hosts.agent.core.resource import Context, Outcome, apply
from slurmfab.on_hosts.agent.slurm.state_versions import FIRST_PROTOCOL, SERIES, TITLE
from slurmfab.on_hosts.agent.upgrade.state_copy import StateCopy

STATE = "/var/lib/slurm/slurmctld"
COPY = ".before-upgrade-to-26.05"


def job_state(series: str, last: int = 7) -> bytes:
    """The beginning of a list of jobs as slurmctld of a series writes it."""
    protocol = FIRST_PROTOCOL + SERIES.index(series) << 8
    return struct.pack(">I", len(TITLE)) + TITLE + struct.pack(">HQI", protocol, 1_795_000_000, last)


@pytest.fixture
def state(root: Path) -> Path:
    """A state of 24.11 with a job's script, and what is no state."""
    directory = root / STATE[1:]
    (directory / "hash.1/job.1").mkdir(parents=True)
    (directory / "hash.1/job.1/script").write_text("#!/bin/sh\n")
    (directory / "job_state").write_bytes(job_state("24.11"))
    (directory / "heartbeat").write_text("now")
    (directory / ".before-restore-x").mkdir()
    return directory


def copied(context: Context, series: str = "26.05") -> Outcome:
    return apply(StateCopy(STATE, series), context)


def test_a_state_when_an_upgrade_begins_then_is_copied_whole_beside_itself(state: Path, context: Context) -> None:
    os.utime(state / "job_state", (1000, 1000))
    assert copied(context).status == "changed"
    found = sorted(str(path.relative_to(state / COPY)) for path in (state / COPY).rglob("*") if path.is_file())
    assert found == ["hash.1/job.1/script", "job_state"]
    assert (state / COPY / "job_state").read_bytes() == job_state("24.11")
    assert (state / COPY / "job_state").stat().st_mtime == 1000
    assert copied(context).status == "ok"


def test_a_copy_when_the_old_slurmctld_went_on_then_is_made_anew(state: Path, context: Context) -> None:
    copied(context)
    (state / "job_state").write_bytes(job_state("24.11", 8) + b"more")
    assert copied(context).status == "changed"
    assert (state / COPY / "job_state").read_bytes() == job_state("24.11", 8) + b"more"


def test_a_copy_when_the_state_is_of_the_new_series_then_stays(state: Path, context: Context) -> None:
    copied(context)
    (state / "job_state").write_bytes(job_state("26.05", 9))
    assert copied(context).status == "ok"
    assert (state / COPY / "job_state").read_bytes() == job_state("24.11")


def test_a_controller_when_it_has_no_state_yet_then_needs_no_copy(context: Context) -> None:
    assert copied(context).status == "ok"


def test_a_copy_when_the_disk_is_too_full_then_is_refused_with_the_numbers(
    state: Path, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slurmfab.on_hosts.agent.upgrade.state_copy.MARGIN", 1 << 60)
    outcome = copied(context)
    assert outcome.status == "failed"
    assert "has no room for a copy of the state" in outcome.message
    assert not (state / COPY).exists()
