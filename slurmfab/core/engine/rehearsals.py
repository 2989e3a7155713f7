"""The rehearsals of a cluster's changes, kept beside its cluster file, so that a deployment can tell of them."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pydantic import ConfigDict

from slurmfab.base import atomic_file, strict_json
from slurmfab.base.answers import STRICT_BUT_OPEN, Phrase, Text
from slurmfab.base.errors import BrokenFile
from slurmfab.base.program_name import FAB
from slurmfab.core.engine.saved_plan import Files

if TYPE_CHECKING:
    from pydantic import TypeAdapter

MOST_FILES = 20  # so many are kept; the oldest are removed first
MOST_BYTES = 1 << 20

_NAME = "%Y%m%dT%H%M%S.%fZ"


@dataclass(frozen=True)
class Rehearsed:
    """A rehearsal as it is kept."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_BUT_OPEN

    command: Phrase  # the command line that was rehearsed, without the program's name
    begun: datetime
    verdict: Phrase  # how it went, in a few words
    cause: Text  # the first thing that was found; empty for none
    cluster: Phrase  # SHA-256 of the cluster file
    lock: Phrase  # SHA-256 of the lock; empty where there was none


def directory(cluster_file: Path) -> Path:
    """The directory of a cluster's rehearsals: `cluster.rehearsals/` beside `cluster.yaml`."""
    return cluster_file.with_name(f"{cluster_file.stem}.rehearsals")


def keep(cluster_file: Path, one: Rehearsed) -> None:
    """Write a rehearsal, and remove the oldest ones. Raises InputError if the file cannot be written."""
    path = directory(cluster_file) / f"{one.begun.astimezone(timezone.utc).strftime(_NAME)}.json"
    values = {**asdict(one), "begun": one.begun.isoformat()}
    atomic_file.write_private(path, json.dumps(values, indent=1) + "\n", cluster_file)
    atomic_file.keep_newest(path.parent, MOST_FILES)


def newest(cluster_file: Path, command: str) -> Rehearsed | None:
    """The newest rehearsal of a command, such as `deploy`; `None` if there is none that can be read."""
    for path in reversed(atomic_file.kept(directory(cluster_file), cluster_file)):
        with contextlib.suppress(OSError, BrokenFile):
            one = strict_json.checked(atomic_file.read_private(path, MOST_BYTES, cluster_file), path, adapter())
            if one.command.split()[:1] == [command]:
                return one
    return None


def sentence(cluster_file: Path, command: str) -> str:
    """When a command was rehearsed and how that went, and whether it is stale; empty if it was not."""
    one = newest(cluster_file, command)
    if one is None:
        return ""
    when = one.begun.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    told = f"Rehearsed {when}: {one.verdict}{f': {one.cause}' if one.cause else ''}."
    if Files.of(cluster_file) == Files(one.cluster, one.lock):
        return told
    return f"{told} That is stale: the files have changed since. To rehearse it again: {FAB} rehearse -- {command}."


@cache
def adapter() -> TypeAdapter[Rehearsed]:
    """The pydantic adapter that reads them."""
    from pydantic import TypeAdapter  # 55 ms that `fab --list` need not pay

    return TypeAdapter(Rehearsed)
