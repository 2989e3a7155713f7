"""A plan in a file: `fab plan --save` writes it, and `fab deploy --plan` does what it shows and nothing else.

The file is JSON and holds no secret: secrets are in it as digests, keyed with a key that is made for each file. Equal
differences of several hosts are in it once.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import secrets
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from slurmfab import __version__
from slurmfab.base import atomic_file, bounded_file, strict_json
from slurmfab.base.errors import BrokenFile, HostlistError, InputError, SlurmfabError
from slurmfab.base.hostlist import count_names, expand, fold
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import in_one_line
from slurmfab.cluster.inventory import loading, shared_files
from slurmfab.core.engine.report import DIFFERS, Step, by_differences
from slurmfab.core.engine.run import Run
from slurmfab.on_hosts.agent.core.resource import Outcome

FORMAT = "slurmfab plan"  # value of `format`, which identifies the file as a saved plan
VERSION = 1  # version of the format; it is raised when an older slurmfab would misread the file

MOST_BYTES = 256 << 20
"""Size of the largest plan that is read: 10,000 hosts, each with its own differences, have 60 MiB."""

MOST_NAMES = 10_000_000  # the most names of hosts in all differences of a plan


class PlanOutdated(SlurmfabError):
    """A deployment would do something else than the saved plan shows."""


@dataclass(frozen=True)
class Files:
    """Digests of the cluster file and the lock when the plan was made."""

    cluster: str  # SHA-256 of the cluster file
    lock: str  # SHA-256 of the lock; empty where there is no lock

    @staticmethod
    def of(path: Path) -> Files:
        """The digests of a cluster file and of its lock now. Raises InputError if a file cannot be read."""
        return Files(digest(path), digest(loading.lock_path(path)))


@dataclass(frozen=True)
class Difference:
    """A difference in one phase that is equal on several hosts."""

    phase: str
    hosts: str  # hostlist of these hosts
    outcomes: tuple[Outcome, ...]  # those of the resources that differ


class ResourceOnHost(NamedTuple):
    """A resource of a plan."""

    host: str
    phase: str
    id: str


@dataclass(frozen=True, kw_only=True)
class SavedPlan:
    """A plan as it was shown, with its input."""

    format: str = FORMAT  # identifies the file as a saved plan
    version: int = VERSION
    slurmfab: str  # version of slurmfab that made the plan
    saved: str  # time in UTC (ISO 8601)
    by: str  # user and machine, such as `ann@laptop`
    cluster: str
    cluster_file: str  # absolute path of the cluster file
    files: Files
    hosts: str  # hostlist of the hosts in the plan
    move_ids: bool  # whether `--move-ids` allows it to change the owner of files
    prune: bool = False  # whether it removes accounts and users that the cluster file does not name
    only: tuple[str, ...] = ()  # words for the phases that it is about; empty for all
    digest_key: str = field(repr=False)
    lost: Mapping[str, str]  # hosts that were excluded, each with the reason
    differences: tuple[Difference, ...]  # what differs, in the order of the hosts

    @cached_property
    def shown(self) -> Mapping[ResourceOnHost, Outcome]:
        """The outcome of each resource that the deployment would change."""
        return {
            ResourceOnHost(host, difference.phase, outcome.id): outcome
            for difference in self.differences
            for host in expand(difference.hosts)
            for outcome in difference.outcomes
            if outcome.status != DIFFERS
        }

    @property
    def is_empty(self) -> bool:
        """Whether the plan has nothing to do."""
        return not self.shown


def digest(path: Path) -> str:
    """SHA-256 of a file in hexadecimal; empty where there is no file. Raises InputError if the file cannot be read."""
    data = shared_files.content(path)
    return "" if data is None else hashlib.sha256(data).hexdigest()


def new_key() -> str:
    """A new key for the digests of one plan: 32 hexadecimal digits."""
    return secrets.token_hex(16)


def from_run(run: Run, files: Files) -> SavedPlan:
    """The plan of a dry run that has ended, with the digests that files had before hosts were asked."""
    return SavedPlan(
        slurmfab=__version__,
        saved=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        by=f"{getpass.getuser()}@{socket.gethostname()}",
        cluster=run.inventory.cluster.name,
        cluster_file=str(run.inventory.path.resolve()),
        files=files,
        hosts=fold(run.hosts),
        move_ids=run.options.approvals.move_ids,
        prune=run.options.approvals.prune,
        only=run.options.only.words if run.options.only else (),
        digest_key=run.options.digest_key,
        lost={host: error.reason for host, error in run.failed_hosts.items()},
        differences=tuple(differences(run.steps)),
    )


def differences(steps: Sequence[Step]) -> Iterator[Difference]:
    """The differences in steps; equal differences of one phase are one, with all of their hosts."""
    for (phase, outcomes), hosts in by_differences(steps).items():
        yield Difference(phase, fold(hosts), outcomes)


def refuse_other_file(path: Path) -> None:
    """Refuse, by InputError, to replace what is no saved plan, and a path that cannot be written."""
    atomic_file.require_writable(path, "--save")
    if path.exists() and not is_plan(path):
        raise InputError(f"--save {path}: this file exists and is not a saved plan. Give another file name.")


def is_plan(path: Path) -> bool:
    """Whether a file is a saved plan, of any version."""
    try:
        return plain_values(content(path), path).get("format") == FORMAT
    except InputError:
        return False


def save(plan: SavedPlan, path: Path) -> None:
    """Write a plan to a file, which is replaced in one step. Raises InputError if the file cannot be written."""
    values = asdict(plan)
    for difference in values["differences"]:
        difference["outcomes"] = [without_empty(outcome) for outcome in difference["outcomes"]]
    # Its differences show configuration files that only root may read on the hosts.
    atomic_file.write(path, json.dumps(values, indent=1) + "\n", mode=atomic_file.OWNER_ONLY, through_link=True)


def without_empty(values: Any) -> Any:
    """JSON values without the keys whose values are empty."""
    if isinstance(values, dict):
        return {key: without_empty(value) for key, value in values.items() if value}
    return [without_empty(one) for one in values] if isinstance(values, list | tuple) else values


def load(path: Path) -> SavedPlan:
    """Read a plan from a file. Raises InputError if there is no such file, or it is not a plan of this format."""
    from pydantic import TypeAdapter  # 55 ms that `fab --list` need not pay

    data = content(path)
    values = plain_values(data, path)
    if values.get("format") != FORMAT:
        raise no_plan(path)
    version = values.get("version")
    if version != VERSION:
        raise InputError(
            f"{path} has another format version ({str(version)[:20]}, this slurmfab reads {VERSION}). "
            f"Make it again: {FAB} plan --save {path}"
        )
    try:
        plan = strict_json.checked(data, path, TypeAdapter(SavedPlan))
        refuse_wrong_hosts(plan, path)
    except BrokenFile as error:
        raise InputError(f"{path} is damaged: {error.reason}. Make it again: {FAB} plan --save {path}") from error
    return plan


def refuse_wrong_hosts(plan: SavedPlan, path: Path) -> None:
    """Refuse a plan whose lists of hosts are none, or very long. Raises BrokenFile if it has such a list."""
    places = [("hosts", plan.hosts)]
    places += [(f"differences.{number}.hosts", one.hosts) for number, one in enumerate(plan.differences)]
    count = 0
    for name, hosts in places:
        count += count_names(hosts)
        if count > MOST_NAMES:
            raise BrokenFile(path, f"{name}: the lists of hosts up to here have more than {MOST_NAMES} names")
        try:
            expand(hosts)
        except HostlistError as error:
            raise BrokenFile(path, f"{name}: {in_one_line(str(error))}") from error


def plain_values(data: bytes, path: Path) -> dict[str, Any]:
    """The JSON object in the bytes of a file. Raises InputError if there is none."""
    try:
        values = strict_json.parse(data, path)
    except BrokenFile as error:
        raise no_plan(path, error.reason) from error
    if not isinstance(values, dict):
        raise no_plan(path)
    return values


def no_plan(path: Path, reason: str = "") -> InputError:
    """The error for a file that is not a saved plan. `reason`: why it is none; empty where that says nothing more."""
    return InputError(f"{path} is not a saved plan{reason and ': '}{reason}. `{FAB} plan --save FILE` makes one.")


def content(path: Path) -> bytes:
    """The bytes of a file. Raises InputError if the file cannot be read."""
    try:
        return bounded_file.read(path, MOST_BYTES)
    except FileNotFoundError:
        raise InputError(f"There is no file {path}. `{FAB} plan --save {path}` makes one.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    except BrokenFile as error:
        raise no_plan(path, error.reason) from error
