"""The record of each run, as a JSON file beside the cluster file: who did what, when, and what came of it."""

from __future__ import annotations

import contextlib
import getpass
import json
import socket
from datetime import datetime, timezone
from pathlib import Path

from slurmfab import __version__, atomic_file
from slurmfab.report import Report

KEPT = 100
"""How many records are kept; the oldest go first."""


def directory(cluster_file: Path) -> Path:
    """Where the records of a cluster lie: `cluster.runs/` beside `cluster.yaml`."""
    return cluster_file.with_name(f"{cluster_file.stem}.runs")


def write(report: Report, cluster_file: Path, now: datetime | None = None) -> Path:
    """Write a run's record and remove the oldest ones.

    Args:
        report: the run; nothing secret is in it.
        cluster_file: whose record it is.
        now: when the run ended.

    Returns:
        The file that was written.

    Raises:
        InputError: it cannot be written there.
    """
    ended = now or datetime.now(timezone.utc)
    folder = directory(cluster_file)
    path = folder / f"{ended:%Y%m%dT%H%M%S.%fZ}-{report.command}.json"
    about = {
        "slurmfab": __version__,
        "ended": ended.isoformat(timespec="seconds"),
        "by": f"{getpass.getuser()}@{socket.gethostname()}",
    }
    atomic_file.write(path, json.dumps({**about, **report.as_json()}, indent=2) + "\n")
    for old in sorted(folder.glob("*.json"))[:-KEPT]:
        with contextlib.suppress(OSError):
            old.unlink()
    return path
