"""What doctor has looked at: one line each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from slurmfab.base.json_output import shows
from slurmfab.base.terminal import in_one_line

State = Literal["ok", "warning", "failure"]
OK: State = "ok"
WARNING: State = "warning"
FAILURE: State = "failure"


@shows("subject", "state", "text")
@dataclass(frozen=True)
class Finding:
    """A thing that doctor has looked at."""

    subject: str  # what it is, in a word or two; a host's name for one about the way to it
    state: State  # `ok`, `warning` (it works, but not well or not always) or `failure`
    text: str  # what was found, for people; for anything but `ok` with its cause and its repair
    is_host: bool = False  # whether it says that one host cannot be reached or used


@dataclass(frozen=True)
class Diagnosis:
    """The results of `fab doctor`."""

    version: int  # of this format: 1
    exit_code: int  # of the task
    cluster_file: str  # path of the cluster file, which may not exist
    findings: tuple[Finding, ...]  # what was looked at


def ok(subject: str, text: str) -> Finding:
    """A finding that needs nothing."""
    return Finding(subject, OK, text)


def warning(subject: str, text: str, repair: str = "") -> Finding:
    """A finding that somebody should look at."""
    return Finding(subject, WARNING, " ".join(filter(None, (text, repair))))


def failure(subject: str, text: str, repair: str = "", *, is_host: bool = False) -> Finding:
    """A finding that keeps slurmfab from working."""
    return Finding(subject, FAILURE, " ".join(filter(None, (text, repair))), is_host)


def guarded(subject: str, look: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """The findings of a function; here, and only here, any error becomes a finding itself."""
    try:
        yield from look()
    except Exception as error:
        yield warning(subject, f"could not be looked at: {in_one_line(str(error)) or type(error).__name__}.")
