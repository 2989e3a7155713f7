"""What hosts keep of the state before a run, as plain values: files, services, and the runs that they know of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from slurmfab.errors import AgentFailed, SlurmfabError
from slurmfab.run import Run
from slurmfab.ssh.fan_out import on_each


@dataclass(frozen=True)
class KeptFile:
    """A file as it was.

    Args:
        path: absolute.
        run: the id of the run that changed it, and before which it was like this.
        existed: whether there was anything of this name; if not, the rest says nothing.
        secret: whether its content never leaves the host.
        content: its text; `None` where it is secret, no text, or no regular file.
        is_back: whether the file holds that already.
    """

    path: str
    run: str
    existed: bool = True
    secret: bool = False
    content: str | None = field(default=None, repr=False)
    is_back: bool = False


@dataclass(frozen=True)
class KeptService:
    """A unit as it was: whether it started at boot, and whether it ran."""

    unit: str
    run: str
    enabled: bool = True
    running: bool = True


@dataclass(frozen=True)
class Kept:
    """What a host keeps of the state before a run.

    Args:
        files: those that this run or a later one changed, as they were before the first change.
        services: likewise.
        runs: the ids of the run and of later ones that the host keeps anything of.
        dropped: the id of the newest run of which the host keeps nothing any more; empty while there is none.
    """

    files: tuple[KeptFile, ...] = ()
    services: tuple[KeptService, ...] = ()
    runs: tuple[str, ...] = ()
    dropped: str = ""

    def file(self, path: str) -> KeptFile | None:
        """A file as it was, `None` where it has not changed since."""
        return next((one for one in self.files if one.path == path), None)

    def service(self, unit: str) -> KeptService | None:
        """A unit as it was, `None` where it has not changed since."""
        return next((one for one in self.services if one.unit == unit), None)


def from_answer(answer: Mapping[str, Any]) -> Kept:
    """What a host keeps, from the JSON object that `slurmfab.agent.kept.read` made there."""
    return Kept(
        tuple(
            KeptFile(one["path"], one["run"], one["existed"], one["secret"], one["content"], one["same"])
            for one in answer["files"]
        ),
        tuple(KeptService(one["unit"], one["run"], one["enabled"], one["running"]) for one in answer["services"]),
        tuple(answer["runs"]),
        answer["dropped"],
    )


def ask_kept(run: Run, hosts: Iterable[str], since: str) -> dict[str, Kept]:
    """Ask hosts what they keep of the state before a run, all at once.

    Args:
        run: the run that asks; hosts that do not answer are lost to it.
        hosts: whom to ask.
        since: the id of the run that is to be undone.

    Returns:
        What those keep that answered, by name.
    """

    def ask(host: str) -> Kept:
        lines = run.transport.call(host, {"op": "kept", "since": since})
        answer = next((line["kept"] for line in lines if "kept" in line), None)
        if answer is None:
            raise AgentFailed(host, "the agent did not answer what it keeps; please report this.")
        return from_answer(answer)

    kept: dict[str, Kept] = {}
    for host, answer in on_each(hosts, ask):
        if isinstance(answer, SlurmfabError):
            run.lose(host, answer)
        else:
            kept[host] = answer
    run.require_controller()
    return kept
