"""A plan in a file, made by `fab plan --save`, so that `fab deploy --plan` can do what was shown, and nothing else.

The file is JSON and holds no secret: of what is secret it has keyed digests alone, with a key of the file's own. Equal
differences are in it once for all of their hosts.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import secrets
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any

from slurmfab import __version__, atomic_file, inventory
from slurmfab.agent.resource import OK, Outcome
from slurmfab.errors import InputError, SlurmfabError
from slurmfab.hostlist import expand, fold
from slurmfab.report import DIFFERS, Step
from slurmfab.run import Run

FORMAT = "slurmfab plan"
"""What tells such a file from other JSON."""

VERSION = 1
"""Of the format; it goes up when an older slurmfab could take a file for something else than it is."""

FILE_MODE = 0o600
"""The differences show configuration files, which may be readable by root alone on the hosts."""


class PlanOutdated(SlurmfabError):
    """What a saved plan shows is no longer what a deployment would do."""


@dataclass(frozen=True)
class Files:
    """What the cluster's own files held when the plan was made.

    Args:
        cluster: SHA-256 of the cluster file.
        lock: SHA-256 of the lock; empty while there is none.
    """

    cluster: str
    lock: str

    @staticmethod
    def of(path: Path) -> Files:
        """The files of the cluster that this cluster file describes, as they are now."""
        return Files(digest(path), digest(inventory.lock_path(path)))


@dataclass(frozen=True)
class Difference:
    """What differs in one phase, in the same way on all of these hosts.

    Args:
        phase: the phase's name.
        hosts: hostlist.
        outcomes: of the resources that differ; the right ones are left out.
    """

    phase: str
    hosts: str
    outcomes: tuple[Outcome, ...]


Key = tuple[str, str, str]
"""Host, phase and id of a resource."""


@dataclass(frozen=True, kw_only=True)
class SavedPlan:
    """A plan as it was shown, and what it was made from.

    Args:
        format: tells such a file from others.
        version: of the format.
        slurmfab: the version that made it.
        saved: when, in UTC (ISO 8601).
        by: who, and on which machine.
        cluster: the cluster's name.
        cluster_file: absolute path of the cluster file.
        files: what that file and the lock held.
        hosts: hostlist of those that it is about.
        move_ids: whether it was made with the consent to give files another owner.
        prune: whether it removes what the cluster file does not name.
        digest_key: what digests in it are keyed with.
        lost: reasons by host, of those that could not be asked.
        differences: in the order of the hosts.
    """

    format: str = FORMAT
    version: int = VERSION
    slurmfab: str
    saved: str
    by: str
    cluster: str
    cluster_file: str
    files: Files
    hosts: str
    move_ids: bool
    prune: bool = False
    digest_key: str = field(repr=False)
    lost: Mapping[str, str]
    differences: tuple[Difference, ...]

    @cached_property
    def shown(self) -> Mapping[Key, Outcome]:
        """What differs, resource by resource, without that which no deployment changes."""
        return {
            (host, difference.phase, outcome.id): outcome
            for difference in self.differences
            for host in expand(difference.hosts)
            for outcome in difference.outcomes
            if outcome.status != DIFFERS
        }

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.shown


def digest(path: Path) -> str:
    """SHA-256 of a file in hexadecimal; empty where there is none.

    Raises:
        InputError: it cannot be read.
    """
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error


def new_key() -> str:
    """A key for the digests of one plan."""
    return secrets.token_hex(16)


def of_run(run: Run, files: Files) -> SavedPlan:
    """The plan that a run over hosts has found.

    Args:
        run: after looking; its steps hold all outcomes.
        files: what the cluster's files held before the hosts were asked.
    """
    return SavedPlan(
        slurmfab=__version__,
        saved=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        by=f"{getpass.getuser()}@{socket.gethostname()}",
        cluster=run.inventory.cluster.name,
        cluster_file=str(run.inventory.path.resolve()),
        files=files,
        hosts=fold(run.hosts),
        move_ids=run.consent.move_ids,
        prune=run.consent.prune,
        digest_key=run.digest_key,
        lost={host: error.reason for host, error in run.lost.items()},
        differences=tuple(differences(run.steps)),
    )


def differences(steps: Sequence[Step]) -> Iterator[Difference]:
    """What differs in these steps, equal differences of one phase together."""
    alike: dict[tuple[str, tuple[Outcome, ...]], list[str]] = {}
    for step in steps:
        outcomes = tuple(replace(outcome, seconds=0.0) for outcome in step.outcomes if outcome.status != OK)
        if outcomes:
            alike.setdefault((step.phase, outcomes), []).append(step.host)
    for (phase, outcomes), hosts in alike.items():
        yield Difference(phase, fold(hosts), outcomes)


def refuse_other_file(path: Path) -> None:
    """Refuse to write a plan over a file that is none.

    Raises:
        InputError: there is such a file.
    """
    if path.exists() and not is_plan(path):
        raise InputError(f"--save {path}: this file is there, and is no saved plan. Name another one.")


def is_plan(path: Path) -> bool:
    """Whether a file says of itself that it is a plan, of whatever version."""
    try:
        return plain(path).get("format") == FORMAT
    except InputError:
        return False


def save(plan: SavedPlan, path: Path) -> None:
    """Write a plan, in one step.

    Raises:
        InputError: the file cannot be written.
    """
    said = asdict(plan)
    for difference in said["differences"]:
        difference["outcomes"] = [without_empty(outcome) for outcome in difference["outcomes"]]
    atomic_file.write(path, json.dumps(said, indent=1) + "\n", mode=FILE_MODE)


def without_empty(said: Any) -> Any:
    """JSON values without the keys that say nothing."""
    if isinstance(said, dict):
        return {key: without_empty(value) for key, value in said.items() if value}
    return [without_empty(one) for one in said] if isinstance(said, list | tuple) else said


def load(path: Path) -> SavedPlan:
    """The plan in a file.

    Raises:
        InputError: there is no such file, it is no plan, or one of another format.
    """
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - 55 ms that `fab --list` need not pay

    said = plain(path)
    if said.get("format") != FORMAT:
        raise InputError(f"{path} is no saved plan. `fab plan --save FILE` makes one.")
    if said.get("version") != VERSION:
        raise InputError(
            f"{path} is a plan of another format ({said.get('version')}, this slurmfab knows {VERSION}). "
            f"Make it again: fab plan --save {path}"
        )
    try:
        return TypeAdapter(SavedPlan).validate_json(json.dumps(said), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(
            f"{path} is damaged: {place}: {first['msg']}. Make it again: fab plan --save {path}"
        ) from error


def plain(path: Path) -> dict[str, Any]:
    """The JSON object in a file.

    Raises:
        InputError: there is none.
    """
    try:
        said = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"There is no file {path}. `fab plan --save {path}` makes one.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise InputError(f"{path} is no saved plan. `fab plan --save FILE` makes one.")
    return said
