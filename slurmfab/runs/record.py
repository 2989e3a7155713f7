"""The record of each run, as a JSON file beside the cluster file: who did what, when, and what came of it.

It is begun before the first host is changed and replaced at the end, so that a run that was cut off is known as well.
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

from slurmfab import __version__, atomic_file, inventory
from slurmfab.agent.resource import Change, Outcome
from slurmfab.errors import InputError
from slurmfab.report import Step
from slurmfab.run import Run

KEPT = 100
"""How many records are kept; the oldest go first."""

SETTLING = ("deploy", "rollback")
"""Commands that leave all hosts as wanted, also where they find nothing to do."""

UNFINISHED, FINISHED = "unfinished", "finished"

NEW_MODE = 0o600
"""Permission bits of a record while there is no cluster file to take them from."""


@dataclass(frozen=True)
class Record:
    """What is known of a run.

    Args:
        run: its id.
        command: what was asked for, such as `deploy`.
        by: who, from where, such as `ann@laptop`.
        begun: when.
        ended: when; `None` while the run is unfinished.
        pid: the deployer's process, 0 where that is not known.
        hosts: those that the run was about.
        exit_code: of the run's report; it means nothing while the run is unfinished.
        error: why it stopped early; empty where it did not.
        steps: what was done.
        lost: why hosts were left out, by name.
        undoes: the id of the run that it undoes, for a rollback; empty otherwise.
        cluster_file: the cluster file's text as the run left it; `None` where the record does not have it.
        lock: the lock's JSON, likewise.
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
    """Where the records of a cluster lie: `cluster.runs/` beside `cluster.yaml`."""
    return cluster_file.with_name(f"{cluster_file.stem}.runs")


def path_of(run: Run) -> Path:
    """The file of a run's record."""
    return directory(run.inventory.path) / f"{run.id}.json"


def begin(run: Run) -> None:
    """Write the record of a run that is about to change something, or has got on with that.

    Raises:
        InputError: it cannot be written there.
    """
    write(run, UNFINISHED)


def finish(run: Run, error: str = "") -> None:
    """Write the record of a run that has ended, and remove the oldest ones; none of a run without any effect.

    What a run that was cut off left undone, though, may be nothing: then the next one says so.

    Args:
        run: what it was.
        error: why it stopped early.

    Raises:
        InputError: it cannot be written there.
    """
    if not (run.steps or run.lost or settles(run)):
        with contextlib.suppress(OSError):
            path_of(run).unlink()
        return
    write(run, FINISHED, error)
    for old in sorted(directory(run.inventory.path).glob("*.json"))[:-KEPT]:
        with contextlib.suppress(OSError):
            old.unlink()


def settles(run: Run) -> bool:
    """Whether a run has found all hosts as wanted where the one before was cut off, maybe while it changed them."""
    if run.command not in SETTLING or set(run.hosts) != set(run.inventory.cluster.hosts):
        return False
    before = [path for path in sorted(directory(run.inventory.path).glob("*.json")) if path != path_of(run)][-1:]
    try:
        return any(json.loads(path.read_bytes())["state"] == UNFINISHED for path in before)
    except (OSError, ValueError, TypeError, KeyError):
        return False


def write(run: Run, state: str, error: str = "") -> None:
    """Write a run's record as of now; whoever may read the cluster file may read it, for the file's text is in it.

    Raises:
        InputError: it cannot be written there.
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
        "undoes": run.undoes,
    }
    text = json.dumps({**about, **run.report().as_json(), **deployed(path)}, indent=2) + "\n"
    mode = path.stat().st_mode & 0o666 if path.exists() else NEW_MODE
    atomic_file.write(path_of(run), text, mode)


def deployed(cluster_file: Path) -> dict[str, Any]:
    """The cluster file's text and the lock's JSON, `None` for what cannot be read; neither holds a secret of a host."""
    texts: dict[str, Any] = {"cluster_file": None, "lock": None}
    with contextlib.suppress(InputError):
        texts["cluster_file"] = inventory.read_text(cluster_file)
    with contextlib.suppress(OSError, ValueError):
        texts["lock"] = json.loads(inventory.lock_path(cluster_file).read_bytes())
    return texts


def load_all(cluster_file: Path) -> tuple[tuple[Record, ...], tuple[str, ...]]:
    """All records of a cluster, oldest first, and complaints in words of files that are none."""
    records, complaints = [], []
    for path in sorted(directory(cluster_file).glob("*.json")):
        try:
            records.append(record_from(json.loads(path.read_bytes()), path.stem))
        except OSError as error:
            complaints.append(f"{path}: cannot be read: {error.strerror}")
        except (ValueError, TypeError, KeyError, AttributeError):
            complaints.append(f"{path}: this is no record of a run; it is passed over")
    return tuple(records), tuple(complaints)


def record_from(plain: Mapping[str, Any], name: str) -> Record:
    """A record from its JSON values.

    Args:
        plain: the values; older ones know neither id nor beginning, and their file's name tells the end.
        name: of the file, without `.json`.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: they are none.
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
        changes = tuple(Change(**known(Change, change)) for change in one["changes"])
        outcomes.append(Outcome(**{**known(Outcome, one), "changes": changes}))
    return Step(plain["phase"], plain["host"], tuple(outcomes), plain["seconds"])


def known(kind: type[Any], plain: Mapping[str, Any]) -> dict[str, Any]:
    """Those of some JSON values that are fields of a dataclass; a newer slurmfab may have written more."""
    names = {one.name for one in fields(kind)}
    return {name: value for name, value in plain.items() if name in names}
