"""What doctor has looked at: one line each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypedDict

from slurmfab.base.terminal import in_one_line

State = Literal["ok", "warning", "failure"]
OK: State = "ok"
WARNING: State = "warning"
FAILURE: State = "failure"


@dataclass(frozen=True)
class Finding:
    """A thing that was looked at."""

    subject: str  # what it is, in a word or two; a host's name for one about the way to it
    state: State  # `OK`, `WARNING` (it works, but not well or not always) or `FAILURE`
    text: str  # what was found; for anything but `OK` with its cause and its repair
    is_host: bool = False  # whether it says that one host cannot be reached or used


class FindingJson(TypedDict):
    """A thing that doctor has looked at.

    Args:
        subject: what it is; a host's name for one about the way to it.
        state: how it is.
        text: what was found, with cause and repair, for people.
    """

    subject: str
    state: State
    text: str


class DoctorJson(TypedDict):
    """The results of `fab doctor`.

    Args:
        version: of this format: 1.
        exit_code: of the task.
        cluster_file: path of the cluster file, which may not exist.
        findings: what was looked at.
    """

    version: int
    exit_code: int
    cluster_file: str
    findings: list[FindingJson]


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
    """The findings of a function; one that fails becomes a finding itself.

    A doctor that falls over what is ill is of no use, so here, and only here, every error is caught.
    """
    try:
        yield from look()
    except Exception as error:
        yield warning(subject, f"could not be looked at: {in_one_line(str(error)) or type(error).__name__}.")
