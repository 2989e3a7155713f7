"""The record of each run, a JSON file beside the cluster file: who did what and when, and the result.

The record is begun before the first host is changed and replaced at the end. So an interrupted run has a record too.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timezone
from getpass import getuser
from pathlib import Path
from typing import Any

from slurmfab import __version__, atomic_file
from slurmfab.agent.core.resource import Change, Outcome
from slurmfab.engine.report import Step
from slurmfab.engine.run import Run
from slurmfab.errors import InputError
from slurmfab.inventory import loading

MOST_RECORDS = 100
"""So many records are kept; the oldest are removed first."""

CONVERGING = ("deploy", "rollback")
"""Commands that bring all hosts to the wanted state, also if they find nothing to do."""

UNFINISHED, FINISHED = "unfinished", "finished"

NEW_MODE = 0o600
"""Permissions of a record where there is no cluster file; otherwise it gets those of the cluster file."""


@dataclass(frozen=True)
class Record:
    """A recorded run.

    Args:
        run: the run's id.
        command: name of the command, such as `deploy`.
        by: user and machine, such as `ann@laptop`.
        begun: when the run began.
        ended: when it ended; `None` while it is unfinished.
        pid: the process id of the deployer; 0 where it is unknown.
        hosts: the hosts that the run was about.
        exit_code: exit code of the run; without meaning while it is unfinished.
        error: why it stopped early; empty where it did not.
        steps: what was done.
        lost: the hosts that were excluded, each with the reason.
        undoes: id of the run that a rollback undoes; empty for other commands.
        cluster_file: text of the cluster file at the end of the run; `None` where the record does not have it.
        lock: JSON of the lock at the end of the run; `None` where the record does not have it.
    """

    run: str
    command: str
    by: str
    begun: datetime
    ended: datetime | None = None
    pid: int = 0
    hosts: tuple[str, ...] = ()
    exit_code: int = 0
    error: str = ""
    steps: tuple[Step, ...] = ()
    lost: Mapping[str, str] = field(default_factory=dict)
    undoes: str = ""
    cluster_file: str | None = field(default=None, repr=False)
    lock: Mapping[str, Any] | None = field(default=None, repr=False)


def directory(cluster_file: Path) -> Path:
    """The directory of a cluster's records: `cluster.runs/` beside `cluster.yaml`."""
    return cluster_file.with_name(f"{cluster_file.stem}.runs")


def path_of(run: Run) -> Path:
    """The file of a run's record."""
    return directory(run.inventory.path) / f"{run.id}.json"


def begin(run: Run) -> None:
    """Write the record of a run that is going on.

    Raises:
        InputError: the record cannot be written.
    """
    write(run, UNFINISHED)


def finish(run: Run, error: str = "") -> None:
    """Write the record of a run that has ended, and remove the oldest records.

    A run without any effect gets no record, unless it shows that an interrupted run left nothing undone.

    Args:
        run: the run.
        error: why it stopped early; empty where it did not.

    Raises:
        InputError: the record cannot be written.
    """
    if not (run.steps or run.failed_hosts or completes_interrupted(run)):
        with contextlib.suppress(OSError):
            path_of(run).unlink()
        return
    write(run, FINISHED, error)
    for old in sorted(directory(run.inventory.path).glob("*.json"))[:-MOST_RECORDS]:
        with contextlib.suppress(OSError):
            old.unlink()


def completes_interrupted(run: Run) -> bool:
    """Whether the run before was interrupted, and this one brought all hosts to the wanted state or found them so."""
    if run.options.command not in CONVERGING or set(run.hosts) != set(run.inventory.cluster.hosts):
        return False
    before = [path for path in sorted(directory(run.inventory.path).glob("*.json")) if path != path_of(run)][-1:]
    try:
        return any(json.loads(path.read_bytes())["state"] == UNFINISHED for path in before)
    except (OSError, ValueError, TypeError, KeyError):
        return False


def write(run: Run, state: str, error: str = "") -> None:
    """Write the record of a run as of now, with the permissions of the cluster file, whose text is in it.

    Args:
        run: the run.
        state: `UNFINISHED` or `FINISHED`.
        error: why it stopped early; empty where it did not.

    Raises:
        InputError: the record cannot be written.
    """
    path = run.inventory.path
    about = {
        "run": run.id,
        "state": state,
        "slurmfab": __version__,
        "by": f"{getuser()}@{socket.gethostname()}",
        "pid": os.getpid(),
        "begun": run.started.isoformat(timespec="seconds"),
        "ended": datetime.now(timezone.utc).isoformat(timespec="seconds") if state == FINISHED else None,
        "error": error,
        "undoes": run.options.undoes,
    }
    text = json.dumps({**about, **run.report().as_json(), **deployed_files(path)}, indent=2) + "\n"
    mode = path.stat().st_mode & 0o666 if path.exists() else NEW_MODE
    atomic_file.write(path_of(run), text, mode)


def deployed_files(cluster_file: Path) -> dict[str, Any]:
    """The text of the cluster file and the JSON of the lock, which hold no secrets of hosts.

    Returns:
        The values of the record's keys `cluster_file` and `lock`; `None` for a file that cannot be read.
    """
    texts: dict[str, Any] = {"cluster_file": None, "lock": None}
    with contextlib.suppress(InputError):
        texts["cluster_file"] = loading.read_text(cluster_file)
    with contextlib.suppress(OSError, ValueError):
        texts["lock"] = json.loads(loading.lock_path(cluster_file).read_bytes())
    return texts


def load_all(cluster_file: Path) -> tuple[tuple[Record, ...], tuple[str, ...]]:
    """All records of a cluster, oldest first, and a message for each file that is not a record."""
    records, complaints = [], []
    for path in sorted(directory(cluster_file).glob("*.json")):
        try:
            records.append(record_from(json.loads(path.read_bytes()), path.stem))
        except OSError as error:
            complaints.append(f"{path}: cannot be read: {error.strerror}")
        except (ValueError, TypeError, KeyError, AttributeError):
            complaints.append(f"{path}: this file is not the record of a run and was ignored")
    return tuple(records), tuple(complaints)


def record_from(plain: Mapping[str, Any], name: str) -> Record:
    """A record from its JSON values.

    Args:
        plain: the values; older records have no beginning, and the time in their name is the end.
        name: name of the file without `.json`.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: the values are not those of a record.
    """
    named = datetime.strptime(f"{name.partition('-')[0]}+0000", "%Y%m%dT%H%M%S.%fZ%z")
    is_finished = plain.get("state", FINISHED) == FINISHED
    return Record(
        run=name,
        command=str(plain["command"]),
        by=str(plain["by"]),
        begun=datetime.fromisoformat(plain["begun"]) if "begun" in plain else named,
        ended=datetime.fromisoformat(plain["ended"]) if is_finished else None,
        pid=int(plain.get("pid", 0)),
        hosts=tuple(map(str, plain["hosts"])),
        exit_code=int(plain["exit_code"]),
        error=str(plain.get("error", "")),
        steps=tuple(step_from(step) for step in plain["steps"]),
        lost=dict(plain["lost"]),
        undoes=str(plain.get("undoes", "")),
        cluster_file=plain.get("cluster_file"),
        lock=plain.get("lock"),
    )


def step_from(plain: Mapping[str, Any]) -> Step:
    """A step from a record's JSON values."""
    outcomes = []
    for one in plain["outcomes"]:
        changes = tuple(Change(**fields_of(Change, change)) for change in one["changes"])
        outcomes.append(Outcome(**{**fields_of(Outcome, one), "changes": changes}))
    return Step(plain["phase"], plain["host"], tuple(outcomes), plain["seconds"])


def fields_of(kind: type[Any], plain: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON values that are fields of a dataclass; a newer slurmfab may have written more."""
    names = {one.name for one in fields(kind)}
    return {name: value for name, value in plain.items() if name in names}
