"""What the last mail told, so that only news are told again: a file beside the cluster file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from slurmfab.base import atomic_file, bounded_file, strict_json
from slurmfab.base.errors import BrokenFile, InputError
from slurmfab.commands.drift.findings import Findings
from slurmfab.core.engine import record

MOST_BYTES = 64 * 1024 * 1024

Problem = tuple[str, str]  # a host, and what is wrong there; an empty host stands for the whole cluster

UNCOMPARED: Problem = ("", "the hosts could not be compared")
NOT_COMPARED = "not compared"
_Text = Annotated[str, Field(max_length=10_000)]


class _Stored(BaseModel):
    """What is in the file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    version: Literal[1]
    problems: list[Annotated[list[_Text], Field(min_length=2, max_length=2)]]


@dataclass(frozen=True)
class News:
    """What is wrong now, and what was at the last mail."""

    before: frozenset[Problem]  # the problems that the last mail told
    now: frozenset[Problem]  # the problems of this comparison

    @property
    def appeared(self) -> tuple[Problem, ...]:
        """What is wrong since then, sorted."""
        return tuple(sorted(self.now - self.before))

    @property
    def gone(self) -> tuple[Problem, ...]:
        """What is right again, sorted."""
        return tuple(sorted(self.before - self.now))

    @property
    def remaining(self) -> tuple[Problem, ...]:
        """What is wrong as before, sorted."""
        return tuple(sorted(self.now & self.before))

    @property
    def is_any(self) -> bool:
        """Whether there is something to tell."""
        return self.now != self.before


def problems_of(findings: Findings, before: frozenset[Problem]) -> frozenset[Problem]:
    """What is wrong now; of hosts that were not compared, what was wrong there by the last mail."""
    unseen = {*findings.not_compared, *findings.asleep}
    return frozenset(
        {
            *((one.host, one.text) for one in findings.found),
            *((host, NOT_COMPARED) for host in findings.not_compared),
            *((host, text) for host, text in before if host in unseen and text != NOT_COMPARED),
        }
    )


def path_of(cluster_file: Path) -> Path:
    """The file of a cluster's alarm, among the records of its runs, with another name than these."""
    return record.directory(cluster_file) / "drift-alarm"


def load(cluster_file: Path) -> frozenset[Problem]:
    """The problems that the last mail told; none without such a file. Raises InputError if the file cannot be read."""
    path = path_of(cluster_file)
    try:
        stored = strict_json.checked(bounded_file.read(path, MOST_BYTES), path, TypeAdapter(_Stored))
    except FileNotFoundError:
        return frozenset()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    except BrokenFile:
        return frozenset()  # the next mail then tells everything anew, and writes the file again
    return frozenset((host, text) for host, text in stored.problems)


def save(cluster_file: Path, problems: frozenset[Problem]) -> None:
    """Keep the problems that a mail has told. Raises InputError if the file cannot be written."""
    text = json.dumps({"version": 1, "problems": sorted(map(list, problems))}, indent=1) + "\n"
    atomic_file.write_private(path_of(cluster_file), text, cluster_file)
