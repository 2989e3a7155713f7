"""The results of `check-cluster` beside the cluster file, so that a report can show the last ones."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cache
from getpass import getuser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import ConfigDict, Field

from slurmfab import __version__
from slurmfab.base import atomic_file, strict_json
from slurmfab.base.answers import STRICT_BUT_OPEN, Phrase
from slurmfab.base.errors import BrokenFile, InputError
from slurmfab.base.hostlist import fold
from slurmfab.base.json_output import as_json
from slurmfab.base.program_name import FAB
from slurmfab.commands.checks.results import FAILED, Result, Verdict, by_check
from slurmfab.core.engine import record

if TYPE_CHECKING:
    from pydantic import TypeAdapter

MOST_FILES = 10  # so many results are kept; the oldest are removed first
MOST_BYTES = 256 << 20  # size of the largest file that is read

_NAME = "%Y%m%dT%H%M%S.%fZ"


@dataclass(frozen=True)
class CheckRun:
    """One run of `check-cluster`."""

    begun: datetime  # when it began
    by: str  # user and machine, such as `ann@laptop`
    verdict: Verdict


@dataclass(frozen=True, kw_only=True)
class StoredChecks:
    """The values in a file of results. A newer slurmfab may have written more."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_BUT_OPEN

    cluster: Phrase
    by: Phrase
    begun: datetime
    seconds: Annotated[float, Field(ge=0)]
    checks: tuple[Result, ...]


def directory(cluster_file: Path) -> Path:
    """The directory of a cluster's results: `cluster.checks/` beside `cluster.yaml`."""
    return cluster_file.with_name(f"{cluster_file.stem}.checks")


def this_run(verdict: Verdict, begun: datetime) -> CheckRun:
    """A run of the checks by this process."""
    return CheckRun(begun, f"{getuser()}@{socket.gethostname()}", verdict)


def keep(cluster_file: Path, run: CheckRun) -> None:
    """Write the results of a run, and remove the oldest ones. Raises InputError if the file cannot be written."""
    about = {"slurmfab": __version__, "by": run.by, "begun": run.begun.isoformat()}
    told = as_json(run.verdict)
    checks = [
        {**one, "is_unreachable": result.is_unreachable}
        for one, result in zip(told["checks"], run.verdict.results, strict=True)
    ]
    values = {**told, "checks": checks}
    path = directory(cluster_file) / f"{run.begun.astimezone(timezone.utc).strftime(_NAME)}.json"
    atomic_file.write_private(path, json.dumps({**about, **values}, indent=1) + "\n", cluster_file)
    atomic_file.keep_newest(path.parent, MOST_FILES)


def last(cluster_file: Path) -> CheckRun | None:
    """The last run that was kept, if any; InputError if its file cannot be read, or is not one of results."""
    path = max(atomic_file.kept(directory(cluster_file), cluster_file), default=None)
    if path is None:
        return None
    try:
        stored = strict_json.checked(atomic_file.read_private(path, MOST_BYTES, cluster_file), path, adapter())
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}.") from error
    if stored.begun.tzinfo is None:
        raise BrokenFile(path, "begun: it has no time zone")
    return CheckRun(stored.begun, stored.by, Verdict(stored.cluster, stored.checks, stored.seconds))


def still_against(cluster_file: Path) -> str:
    """What the last run had against the cluster, in a line; empty for nothing, or if hosts were changed since."""
    checked = max(atomic_file.kept(directory(cluster_file), cluster_file), default=None)
    changed = max((path.name for path in atomic_file.kept(record.directory(cluster_file), cluster_file)), default="")
    if checked is None or changed > checked.name:
        return ""
    try:
        run = last(cluster_file)
    except InputError:
        return ""
    failed = by_check(run.verdict.having(FAILED)) if run else {}
    if not run or not failed:
        return ""
    (group, _), first = next(iter(failed.items()))
    more = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
    when = run.begun.astimezone().strftime("%Y-%m-%d %H:%M")
    return (
        f"But the last check ({when}, {run.by}) failed, and this run changed nothing about it: {group}: "
        f"{first[0].title} ({fold(result.host for result in first)}){more}. To check again: {FAB} check-cluster"
    )


@cache
def adapter() -> TypeAdapter[StoredChecks]:
    """The pydantic adapter that reads results."""
    from pydantic import TypeAdapter  # 55 ms that `fab --list` need not pay

    return TypeAdapter(StoredChecks)
