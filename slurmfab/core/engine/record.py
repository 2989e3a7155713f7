"""The record of each run, JSON beside the cluster file, begun before the first host is changed, ended at last."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cache
from getpass import getuser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

from pydantic import ConfigDict, Field

from slurmfab import __version__
from slurmfab.base import atomic_file, strict_json
from slurmfab.base.answers import STRICT_BUT_OPEN, Phrase, Text
from slurmfab.base.errors import BrokenFile, InputError
from slurmfab.base.exit_codes import DONE
from slurmfab.base.json_output import as_json
from slurmfab.cluster.inventory import loading, shared_files
from slurmfab.core.engine.report import NOT_DEPLOYING, Mark, Step
from slurmfab.core.engine.run import Run

if TYPE_CHECKING:
    from pydantic import TypeAdapter

MOST_BYTES = 256 << 20  # size of the largest record that is read; it has the cluster file and the lock
MOST_RECORDS = 100  # so many records are kept; the oldest are removed first

CONVERGING = ("deploy", "rollback")
"""Commands that bring all hosts to the wanted state, also if they find nothing to do."""

IMPORT = "import"  # the command whose record has the cluster as it was found, with all its daemons

UNFINISHED: Final = "unfinished"
FINISHED: Final = "finished"


@dataclass(frozen=True)
class Record:
    """A recorded run."""

    run: str  # its id
    command: str  # name of the command, such as `deploy`
    by: str  # who ran it, as `ann@laptop`
    begun: datetime  # when the run began
    ended: datetime | None = None  # when it ended; `None` while it is unfinished
    pid: int = 0  # the process id of the deployer; 0 where it is unknown
    hosts: tuple[str, ...] = ()  # the hosts that it was for
    exit_code: int = 0  # exit code of the run; without meaning while it is unfinished
    seconds: float = 0.0  # how long it took; while it is unfinished, until the record was written
    error: str = ""  # why it stopped early; empty where it did not
    steps: tuple[Step, ...] = ()  # phases by host, as far as something differed there
    timeline: tuple[Mark, ...] = ()
    lost: Mapping[str, str] = field(default_factory=dict)  # the hosts that were left out, each with the reason
    undoes: str = ""  # the id of the run that it undid; empty for other commands
    only: tuple[str, ...] = ()  # words for the phases that it was about; empty for all
    # the text of the cluster file that was deployed; null if it could not be read
    cluster_file: str | None = field(default=None, repr=False)
    # the content of the lock; null if it could not be read
    lock: Mapping[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class StoredMark:
    """A line of a stored timeline."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_BUT_OPEN

    at: float
    doing: Phrase


@dataclass(frozen=True, kw_only=True)
class StoredRecord:
    """The values in the file of a record; see `Record`. A newer slurmfab may have written more."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_BUT_OPEN

    state: Literal["unfinished", "finished"] = FINISHED
    command: Phrase
    by: Phrase
    begun: datetime | None = None
    ended: datetime | None = None
    pid: Annotated[int, Field(ge=0, lt=1 << 31)] = 0
    hosts: tuple[Phrase, ...]
    exit_code: Annotated[int, Field(ge=-255, le=255)]
    seconds: Annotated[float, Field(ge=0)] = 0.0
    error: Text = ""
    steps: tuple[Step, ...]
    timeline: tuple[StoredMark, ...] = ()
    lost: Mapping[Phrase, Text]
    undoes: Phrase = ""
    only: tuple[Phrase, ...] = ()
    cluster_file: str | None = None
    lock: Mapping[str, Any] | None = None


def directory(cluster_file: Path) -> Path:
    """The directory of a cluster's records: `cluster.runs/` beside `cluster.yaml`."""
    return cluster_file.with_name(f"{cluster_file.stem}.runs")


def path_of(run: Run) -> Path:
    """The file of a run's record."""
    return directory(run.inventory.path) / f"{run.id}.json"


def begin(run: Run) -> None:
    """Write the record of a run that is going on. Raises InputError if the record cannot be written."""
    write(run, UNFINISHED)


def finish(run: Run, error: str = "") -> None:
    """Write the record of a run that has ended, and remove the oldest records.

    A run without any effect gets no record, unless it shows that one which was interrupted or failed left nothing
    undone. Raises InputError if the record cannot be written.
    """
    if not (run.steps or run.failed_hosts or completes_interrupted(run)):
        atomic_file.remove(path_of(run))
        return
    write(run, FINISHED, error)
    atomic_file.keep_newest(directory(run.inventory.path), MOST_RECORDS)


def earlier(run: Run) -> list[Path]:
    """The files of the records of the runs before, the newest first."""
    there = atomic_file.kept(directory(run.inventory.path), run.inventory.path)
    return [path for path in reversed(there) if path != path_of(run)]


def completes_interrupted(run: Run) -> bool:
    """Whether the deployment before was interrupted or failed, and this one brought its hosts to the wanted state."""
    if run.options.command not in CONVERGING or run.options.only:
        return False
    for path in earlier(run):
        try:
            one = stored(path, run.inventory.path)
        except (OSError, BrokenFile):
            return False
        if one.command in NOT_DEPLOYING:
            continue
        if one.state == UNFINISHED:
            return set(run.hosts) == set(run.inventory.cluster.hosts)
        return bool(one.error or one.exit_code) and not set(run.hosts).isdisjoint(one.hosts)
    return False


def completes_first(run: Run) -> bool:
    """Whether runs before have begun to make the hosts a cluster, and none of them came to its end on all hosts."""
    has_begun = False
    for path in earlier(run):
        with contextlib.suppress(OSError, BrokenFile):
            one = stored(path, run.inventory.path)
            if one.state == FINISHED and one.exit_code == DONE and not one.error:
                return False
            has_begun = has_begun or one.command in CONVERGING
    return has_begun


def write(run: Run, state: str, error: str = "") -> None:
    """Write the run's record as of now, `UNFINISHED` or `FINISHED`, for those who may change the file."""
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
    text = json.dumps({**about, **as_json(run.report()), **deployed_files(path)}, indent=2) + "\n"
    atomic_file.write_private(path_of(run), text, path)


def deployed_files(cluster_file: Path) -> dict[str, Any]:
    """The texts of cluster file and lock, without secrets of hosts, by the record's keys; `None` if unreadable."""
    texts: dict[str, Any] = {"cluster_file": None, "lock": None}
    with contextlib.suppress(InputError):
        texts["cluster_file"] = loading.read_text(cluster_file)
    with contextlib.suppress(InputError):
        lock = loading.lock_path(cluster_file)
        texts["lock"] = strict_json.parse(shared_files.content(lock) or b"null", lock)
    return texts


def load_all(cluster_file: Path) -> tuple[tuple[Record, ...], tuple[str, ...]]:
    """All records of a cluster, oldest first, and a message for each file that is not a record."""
    records, complaints = [], []
    try:
        with contextlib.suppress(OSError), atomic_file.reading(directory(cluster_file), cluster_file):
            pass
    except BrokenFile as error:
        return (), (f"{directory(cluster_file)}: the records of runs there were ignored: {error.reason}",)
    for path in atomic_file.kept(directory(cluster_file), cluster_file):
        try:
            records.append(record_from(stored(path, cluster_file), path.stem))
        except OSError as error:
            complaints.append(f"{path}: cannot be read: {error.strerror}")
        except BrokenFile as error:
            complaints.append(f"{path}: this file is not the record of a run and was ignored: {error.reason}")
    return tuple(records), tuple(complaints)


def stored(path: Path, cluster_file: Path) -> StoredRecord:
    """What is in the file of a record of a cluster.

    Raises BrokenFile if it is not a record, or of somebody who may not change the cluster file: what a record has of
    it is deployed again. Raises OSError if it cannot be read.
    """
    return strict_json.checked(atomic_file.read_private(path, MOST_BYTES, cluster_file), path, adapter())


@cache
def adapter() -> TypeAdapter[StoredRecord]:
    """The pydantic adapter that reads records."""
    from pydantic import TypeAdapter  # 55 ms that `fab --list` need not pay

    return TypeAdapter(StoredRecord)


def record_from(values: StoredRecord, name: str) -> Record:
    """A record from the values in its file.

    `values`: the values; older records have no beginning, and the time in their name is the end. `name`: name of the
    file without `.json`. Raises BrokenFile if the name or the values are not those of a record.
    """
    try:
        named = datetime.strptime(f"{name.partition('-')[0]}+0000", "%Y%m%dT%H%M%S.%fZ%z")
    except ValueError as error:
        raise BrokenFile(name, "its name does not begin with a time") from error
    if values.state == FINISHED and values.ended is None:
        raise BrokenFile(name, "ended: Field required")
    known = {key: value for key, value in vars(values).items() if key != "state"}
    known["begun"] = values.begun or named
    known["ended"] = values.ended if values.state == FINISHED else None
    known["timeline"] = tuple(Mark(mark.at, mark.doing) for mark in values.timeline)
    return Record(run=name, **known)
