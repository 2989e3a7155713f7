"""Which Slurm reads whose state, and what is said where it does not."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from slurmfab.on_hosts.agent.core.resource import Context, apply
from slurmfab.on_hosts.agent.slurm.state_access import StateAccess
from slurmfab.on_hosts.agent.slurm.state_versions import TITLE, refusal, written_by


def header(protocol: int) -> bytes:
    """The beginning of a list of jobs."""
    return struct.pack(">I", len(TITLE)) + TITLE + struct.pack(">HQI", protocol, 1795272422, 18) + b"jobs"


@pytest.mark.parametrize(
    ("content", "series"),
    [
        (header(9728), "22.05"),
        (header(10240), "23.11"),
        (header(10752), "24.11"),
        (header(11520), "26.05"),
        (header(256), ""),
        (b"", ""),
        (b"something else that is long enough", ""),
    ],
)
def test_a_list_of_jobs_tells_which_slurm_wrote_it(content: bytes, series: str) -> None:
    assert written_by(content) == series


@pytest.mark.parametrize(
    ("wrote", "installed"),
    [
        ("22.05", "22.05.8"),
        ("22.05", "23.11.4"),
        ("23.02", "24.11.5"),
        ("24.11", "26.05.5"),
        ("", "24.11"),
        ("22.05", ""),
    ],
)
def test_state_of_the_series_before_is_read(wrote: str, installed: str) -> None:
    assert refusal("/s", wrote, installed) == ""


@pytest.mark.parametrize(
    ("wrote", "installed", "words"),
    [
        ("22.05", "24.11.5", ("reads that of 23.02 to 24.11", "slurmctld of Slurm 23.02 or 23.11 with it once", "-i")),
        ("21.08", "23.11.4", ("reads that of 22.05 to 23.11", "Slurm 22.05 or 23.02 with it")),
        ("24.11", "22.05", ("install Slurm 24.11 or newer again", "mv /s /s-24.11")),
        ("20.02", "26.05", ("install Slurm 20.02 again",)),
    ],
)
def test_state_of_another_series_is_refused_with_the_way_out(
    wrote: str, installed: str, words: tuple[str, ...]
) -> None:
    text = refusal("/s", wrote, installed)
    assert [word for word in words if word not in text] == []


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_state_that_the_installed_slurm_does_not_read_is_refused_before_slurmctld_starts(
    root: Path, dry_run: bool
) -> None:
    place = root / "var/lib/slurm/slurmctld"
    place.mkdir(parents=True)
    (place / "job_state").write_bytes(header(9728))
    outcome = apply(StateAccess("/var/lib/slurm/slurmctld", "24.11.5"), Context(str(root), dry_run))
    assert (outcome.status, "was written by Slurm 22.05" in outcome.message) == ("failed", True)
