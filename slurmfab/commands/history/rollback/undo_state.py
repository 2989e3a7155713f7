"""The undo state of hosts as values: files and services before a run, read from the undo store on each host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from slurmfab.base.errors import SlurmfabError
from slurmfab.core.engine.run import Run
from slurmfab.hosts.fan_out import on_each
from slurmfab.hosts.session import answer_value


@dataclass(frozen=True)
class SavedFile:
    """A file before a run."""

    path: str  # absolute path
    run: str  # id of the run that changed it
    existed: bool = True  # whether the file existed; if not, the other values have no meaning
    secret: bool = False
    # its text; `None` if it is secret, not text, or not a regular file
    content: str | None = field(default=None, repr=False)
    is_back: bool = False  # whether the file has this content now
    # the text of a file of Slurm's with all that it includes, if it includes any
    whole: str = field(default="", repr=False)
    link: str = ""  # where it led if it was a link; `content` is then what is there now


@dataclass(frozen=True)
class SavedService:
    """A systemd unit before a run."""

    unit: str  # its name, such as `slurmd`
    run: str  # id of the run that changed it
    enabled: bool = True
    running: bool = True


@dataclass(frozen=True)
class SavedDirectory:
    """Who could do what with a directory before a run."""

    path: str  # absolute path
    owner: str
    group: str
    mode: str  # in octal digits


@dataclass(frozen=True)
class UndoState:
    """The state of a host before a run, from its undo store."""

    # files that this run or a later one changed, as they were before the first change
    files: tuple[SavedFile, ...] = ()
    # units that this run or a later one changed, as they were before the first change
    services: tuple[SavedService, ...] = ()
    directories: tuple[SavedDirectory, ...] = ()  # directories that were there, likewise
    runs: tuple[str, ...] = ()  # ids of this run and of later ones that are in the undo store
    dropped: str = ""  # id of the newest run that was removed from the undo store; empty if there is none

    def file(self, path: str) -> SavedFile | None:
        """A file before the run; `None` if no run changed it."""
        return next((one for one in self.files if one.path == path), None)

    def service(self, unit: str) -> SavedService | None:
        """A unit before the run; `None` if no run changed it."""
        return next((one for one in self.services if one.unit == unit), None)


def from_answer(answer: Mapping[str, Any]) -> UndoState:
    """The undo state of a host, from the JSON object of `slurmfab.on_hosts.agent.undo.undo_store.read`."""
    return UndoState(
        tuple(
            SavedFile(
                one["path"],
                one["run"],
                one["existed"],
                one["secret"],
                one["content"],
                one["same"],
                one.get("whole", ""),
                one.get("link", ""),
            )
            for one in answer["files"]
        ),
        tuple(SavedService(one["unit"], one["run"], one["enabled"], one["running"]) for one in answer["services"]),
        tuple(
            SavedDirectory(one["directory"], one["owner"], one["group"], one["mode"])
            for one in answer.get("directories", ())
        ),
        tuple(answer["runs"]),
        answer["dropped"],
    )


def ask_undo_states(run: Run, hosts: Iterable[str], since: str) -> dict[str, UndoState]:
    """The undo states of all hosts since a run; silent ones are excluded, DeployFailed without the controller."""

    def ask(host: str) -> UndoState:
        lines = run.transport.call(host, {"op": "kept", "since": since})
        return from_answer(answer_value(host, lines, "kept"))

    undo_states: dict[str, UndoState] = {}
    for host, answer in on_each(hosts, ask):
        if isinstance(answer, SlurmfabError):
            run.exclude(host, answer)
        else:
            undo_states[host] = answer
    run.require_controller()
    return undo_states
