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
    """A file before a run.

    Args:
        path: absolute path.
        run: id of the run that changed it.
        existed: whether the file existed; if not, the other values have no meaning.
        secret: whether its content never leaves the host.
        content: its text; `None` if it is secret, not text, or not a regular file.
        is_back: whether the file has this content now.
        whole: the text of a file of Slurm's with all that it includes, if it includes any.
        link: where it led if it was a link; `content` is then what is there now.
    """

    path: str
    run: str
    existed: bool = True
    secret: bool = False
    content: str | None = field(default=None, repr=False)
    is_back: bool = False
    whole: str = field(default="", repr=False)
    link: str = ""


@dataclass(frozen=True)
class SavedService:
    """A systemd unit before a run.

    Args:
        unit: its name, such as `slurmd`.
        run: id of the run that changed it.
        enabled: whether it started at boot.
        running: whether it ran.
    """

    unit: str
    run: str
    enabled: bool = True
    running: bool = True


@dataclass(frozen=True)
class UndoState:
    """The state of a host before a run, from its undo store.

    Args:
        files: files that this run or a later one changed, as they were before the first change.
        services: units that this run or a later one changed, as they were before the first change.
        runs: ids of this run and of later ones that are in the undo store.
        dropped: id of the newest run that was removed from the undo store; empty if there is none.
    """

    files: tuple[SavedFile, ...] = ()
    services: tuple[SavedService, ...] = ()
    runs: tuple[str, ...] = ()
    dropped: str = ""

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
        tuple(answer["runs"]),
        answer["dropped"],
    )


def ask_undo_states(run: Run, hosts: Iterable[str], since: str) -> dict[str, UndoState]:
    """Ask all hosts at once for their undo states.

    Args:
        run: the rollback's run; hosts that do not answer are excluded from it.
        hosts: the hosts.
        since: id of the run that is undone.

    Returns:
        The undo states of the hosts that answered, by host.

    Raises:
        DeployFailed: the controller does not answer.
    """

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
