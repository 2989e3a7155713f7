"""The lock beside a cluster file: what was discovered or decided once, so that no later run finds it out anew.

A GPU that has fallen off its bus is then a failed check and not a smaller `Gres=`, and a host with another SSH host
key is stopped at. The file is JSON, written by slurmfab and meant to be committed with the cluster file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurmfab import atomic_file
from slurmfab.errors import InputError
from slurmfab.facts import Cgroup, Gpu, Hardware

if TYPE_CHECKING:
    from pydantic import TypeAdapter

VERSION = 1


@dataclass(frozen=True)
class HostLock:
    """What is held fast of one host.

    Args:
        hostname: what it calls itself (`hostname -s`).
        host_keys: its public SSH host keys, base64 by type, such as `ssh-ed25519`.
        hardware: what Slurm counts, as it was on first contact; `None` on a host that is no compute node.
        gpus: in the order of their device numbers.
        cgroup: what it has mounted of control groups; `None` while that is unknown.
        public_key: the SSH public key of its slurm user; empty before the host has one.
        on_trial: whether it has joined, and no job has run on it yet, so that Slurm gives it none of its users'.
        mail_program: what sends mail on a controller, as it was when it last answered; empty where nothing does.
    """

    hostname: str = ""
    host_keys: Mapping[str, str] = field(default_factory=dict)
    hardware: Hardware | None = None
    gpus: tuple[Gpu, ...] = ()
    cgroup: Cgroup | None = None
    public_key: str = ""
    on_trial: bool = False
    mail_program: str = ""


@dataclass(frozen=True)
class Lock:
    """What is held fast of one cluster.

    Args:
        version: of the lock's format.
        slurm: the upstream version of Slurm that is installed, such as `24.11.5`; empty before the first deployment.
        ids: the chosen numbers, as in `slurm.uid` and `munge.gid`; those of people who have left stay theirs.
        leaving: people whom `remove-user` has taken out of the cluster file, and some host may still have.
        hosts: by the name that the cluster file gives the host.
    """

    version: int = VERSION
    slurm: str = ""
    ids: Mapping[str, int] = field(default_factory=dict)
    leaving: tuple[str, ...] = ()
    hosts: Mapping[str, HostLock] = field(default_factory=dict)


def load(path: Path) -> Lock:
    """The lock in a file; an empty lock while there is no such file.

    Raises:
        InputError: the file cannot be read, is damaged, or was written by a newer slurmfab.
    """
    try:
        plain = json.loads(path.read_bytes())
    except FileNotFoundError:
        return Lock()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise _damaged(path, f"it is no JSON ({error})") from error
    return from_values(plain, path)


def from_values(plain: Any, path: Path) -> Lock:
    """The lock that JSON values hold.

    Args:
        plain: as they were read.
        path: where, for complaints.

    Raises:
        InputError: they are damaged, or were written by a newer slurmfab.
    """
    if not isinstance(plain, dict):
        raise _damaged(path, "it holds no JSON object")
    version = plain.get("version")
    if type(version) is not int or version < 1:
        raise _damaged(path, 'its "version" is no number of a version')
    if version > VERSION:
        raise InputError(
            f"{path} was written by a newer slurmfab (format {version}, this one knows {VERSION}). "
            "Install that slurmfab, or a newer one."
        )
    return _lock_from(plain, path)


def save(lock: Lock, path: Path) -> None:
    """Write a lock, in one step; a file that says the same already is left alone.

    Raises:
        InputError: the file cannot be written.
    """
    atomic_file.write(path, json.dumps(values_of(lock), indent=2, sort_keys=True) + "\n", mode=0o644)


def with_host(lock: Lock, name: str, host_lock: HostLock) -> Lock:
    """The lock with this entry for a host, in place of an earlier one."""
    return replace(lock, hosts={**lock.hosts, name: host_lock})


def without_hosts(lock: Lock, names: Iterable[str]) -> Lock:
    """The lock without its entries for these hosts; names that it does not know are no matter."""
    gone = set(names)
    return replace(lock, hosts={name: host for name, host in lock.hosts.items() if name not in gone})


def values_of(lock: Lock) -> dict[str, Any]:
    """A lock as JSON values."""
    values: dict[str, Any] = adapter().dump_python(lock, mode="json")
    return values


@cache
def adapter() -> TypeAdapter[Lock]:
    """What makes locks of JSON, and JSON values of locks."""
    from pydantic import TypeAdapter  # noqa: PLC0415 - 55 ms that `fab --list` need not pay

    return TypeAdapter(Lock)


def _lock_from(plain: dict[str, Any], path: Path) -> Lock:
    """The lock in a JSON object, once each key is known and each value has its type."""
    from pydantic import ValidationError  # noqa: PLC0415 - 55 ms that `fab --list` need not pay

    try:
        lock: Lock = adapter().validate_json(json.dumps(plain), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        raise _damaged(path, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    unknown = next(_unknown_keys(plain, values_of(lock)), None)
    if unknown:
        raise _damaged(path, f"{unknown}: this key is unknown; a newer slurmfab may have written it")
    return lock


def _unknown_keys(plain: Any, known: Any, place: str = "") -> Iterator[str]:
    """The keys of a JSON value that are not in the value that was made of it, with their places."""
    if isinstance(plain, dict) and isinstance(known, Mapping):
        for key, value in plain.items():
            if key in known:
                yield from _unknown_keys(value, known[key], f"{place}{key}.")
            else:
                yield f"{place}{key}"
    elif isinstance(plain, list) and isinstance(known, list | tuple):
        for number, (value, counterpart) in enumerate(zip(plain, known, strict=True)):
            yield from _unknown_keys(value, counterpart, f"{place}{number}.")


def _damaged(path: Path, reason: str) -> InputError:
    """The error for a lock that slurmfab did not leave like this."""
    return InputError(
        f"{path} is damaged: {reason}. Take it back from version control or a backup; "
        "if there is none, move it away, and `fab deploy --accept-new-host-keys` makes a new one."
    )
