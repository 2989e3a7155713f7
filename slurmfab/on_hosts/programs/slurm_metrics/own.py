"""Figures of slurmfab itself: the newest backup, the last GPU check, and the last comparison with the cluster file."""

from __future__ import annotations

import calendar
import os
import time
from typing import Any, Mapping, Optional

from slurmfab.on_hosts.agent.core import json_objects
from slurmfab.on_hosts.agent.core.reading import names, read_bytes
from slurmfab.on_hosts.programs.gpu_check import history
from slurmfab.on_hosts.programs.slurm_metrics.figures import Figures, label

RUN_TIME = "%Y%m%dT%H%M%SZ"  # the name of a GPU check: when it began, in UTC
MOST_WORDS = 20  # the most states, or kinds, that are told


def collect_backups(figures: Figures, settings: Mapping[str, str]) -> None:
    """Put time and size of the newest backup in `directory`, whose name begins with `cluster`."""
    newest: Optional[os.stat_result] = None
    for name in names(settings["directory"]):
        if name.startswith(settings["cluster"] + "-") and name.endswith(".tar"):
            try:
                status = os.lstat(os.path.join(settings["directory"], name))
            except OSError:
                continue
            newest = status if newest is None or status.st_mtime > newest.st_mtime else newest
    if newest is not None:
        figures.put("slurmfab_backup_last_timestamp_seconds", int(newest.st_mtime))
        figures.put("slurmfab_backup_last_bytes", newest.st_size)


def collect_gpu_checks(figures: Figures, directory: str) -> None:
    """Put when the last GPU check ended, and what it found."""
    last = next((entry for entry in reversed(history.entries(directory)) if entry.get("end")), None)
    if last is None:
        return
    when = seconds(last)
    if when is not None:
        figures.put("slurmfab_gpu_check_last_timestamp_seconds", when)
    for outcome, count in last.get("counts", {}).items():
        if isinstance(count, int):
            figures.put("slurmfab_gpu_check_nodes", count, label(str(outcome)).replace(" ", "_"))


def seconds(entry: Mapping[str, Any]) -> Optional[float]:
    """When the last entry of a check was written, or else when the check began, in seconds since 1970."""
    for text, form in ((entry.get("time", ""), "%Y-%m-%dT%H:%M:%SZ"), (entry.get("run", ""), RUN_TIME)):
        try:
            return float(calendar.timegm(time.strptime(str(text), form)))
        except ValueError:
            continue
    return None


def collect_drift(figures: Figures, path: str) -> None:
    """Put when the hosts were last compared with the cluster file, and what that found.

    `path`: a JSON file: `time` in seconds since 1970, `hosts`, numbers of hosts by state, and `resources`, numbers of
    what differs by kind.
    """
    found = json_objects.parse(read_bytes(path)) or {}
    when, hosts = found.get("time"), found.get("hosts")
    if isinstance(when, (int, float)) and isinstance(hosts, dict):
        figures.put("slurmfab_drift_last_run_timestamp_seconds", when)
        for name, key in (("slurmfab_drift_hosts", "hosts"), ("slurmfab_drift_resources", "resources")):
            counts = found.get(key)
            for word, count in sorted(counts.items())[:MOST_WORDS] if isinstance(counts, dict) else ():
                if isinstance(count, int):
                    figures.put(name, count, label(word))
