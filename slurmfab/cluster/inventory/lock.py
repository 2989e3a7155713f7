"""The lock beside a cluster file: facts and decisions that are recorded once and that later runs use.

So a GPU that has disappeared from its bus is a failed check, not a smaller `Gres=`, and a changed SSH host key is
refused. The file is JSON, written by slurmfab; commit it together with the cluster file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict

from slurmfab.base import atomic_file, strict_json
from slurmfab.base.answers import (
    STRICT,
    Address,
    Certificate,
    Digest,
    HostKeyText,
    Id,
    Label,
    Phrase,
    Program,
    Word,
    pattern,
)
from slurmfab.base.errors import BrokenFile, InputError
from slurmfab.base.paths import FORMER_SPOOL, SLURM_SPOOL
from slurmfab.base.program_name import FAB
from slurmfab.base.signatures import KEY_TEXT
from slurmfab.base.strict_json import UNKNOWN
from slurmfab.cluster.facts import Bus, Cgroup, Gpu, Hardware, OwnNumbers
from slurmfab.cluster.inventory.shared_files import content

if TYPE_CHECKING:
    from pydantic import TypeAdapter

VERSION = 1
MOST_VERSIONS = 1_000_000

PinnedKeyType = Annotated[str, pattern(r"(?:ssh|ecdsa|sk)-[a-z0-9@.-]+", 64)]
PinnedSlurmKey = Annotated[str, pattern(r"(?:ssh-ed25519 [A-Za-z0-9+/]+={0,2}(?: [^\pC\p{Zl}\p{Zp}]*)?)?", 4096)]
"""Locks that were written before facts were checked may have more types of keys, and other comments."""

SigningKey = Annotated[str, pattern(KEY_TEXT, 8400)]

Spool = Literal["", "/var/lib/slurm/slurmd", "/var/spool/slurmd"]
"""SlurmdSpoolDir by slurmfab: unknown, FORMER_SPOOL or SLURM_SPOOL."""


@dataclass(frozen=True)
class HostLock:
    """The lock's entry for one host."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    hostname: Label | Literal[""] = ""  # its own short hostname (`hostname -s`)
    # its public SSH host keys, base64 by type, such as `ssh-ed25519`
    host_keys: Mapping[PinnedKeyType, HostKeyText] = field(default_factory=dict)
    hardware: Hardware | None = None  # CPUs and memory at first contact; `None` on a host that is not a compute node
    gpus: tuple[Gpu, ...] = ()  # in the order of their device numbers
    cgroup: Cgroup | None = None  # its control groups; `None` if unknown
    public_key: PinnedSlurmKey = ""  # the SSH public key of its slurm user; empty if it has none
    # whether the node has joined but has not passed its test job, so that it gets no user jobs yet
    on_trial: bool = False
    # whether it has never answered, so that hardware and GPUs are what a hand-made slurm.conf says
    never_seen: bool = False
    mail_program: Program = ""  # program that sends mail on a controller, when it last answered; empty for none
    addresses: tuple[Address, ...] = ()  # its own IP addresses when it last answered, as it told them
    # the address at which it was reached itself, where the cluster file gives none; empty for none
    reached: Address | Literal[""] = ""
    # those of its further addresses that others trust, in networks which the cluster file names
    trusted: tuple[Address, ...] = ()
    # how its NVIDIA GPUs were divided before the cluster file said how (`mig`): profiles by slot, none for a whole GPU
    mig_before: Mapping[Bus, tuple[Word, ...]] = field(default_factory=dict)
    slurm: Word = ""  # its version of Slurm when it last answered, if that is of another series than the cluster's
    # the numbers of its own users and groups when it last answered, which entries of a directory do not get; the first
    # of them only, and none without a directory
    own_numbers: tuple[OwnNumbers, ...] = ()
    kernel: Hardware | None = None  # its hardware as the kernel counts it, where slurmd counts it otherwise


@dataclass(frozen=True)
class UpgradeUnderWay:
    """An upgrade of Slurm that has begun and is not done on all hosts."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    had: Word  # the version that the cluster had before, such as `24.11.5`
    to: Phrase  # the version that it gets, as in the cluster file
    since: Phrase  # when it began
    by: Phrase  # who began it, as `USER@HOST`
    backup: Phrase = ""  # name of the proved backup, beside the cluster file; empty as long as there is none
    # versions of Slurm's packages before: by name, by the hosts that had the same
    packages: Mapping[Phrase, Mapping[Phrase, Phrase]] = field(default_factory=dict)


@dataclass(frozen=True)
class Lock:
    """The lock of one cluster."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    version: int = VERSION
    slurm: Word = ""  # the controller's upstream version of Slurm, such as `24.11.5`; empty before the first deployment
    # the chosen UIDs and GIDs by key, such as `slurm.uid` and `munge.gid`; numbers of former users stay
    ids: Mapping[Phrase, Id] = field(default_factory=dict)
    # users that `remove-user` removed from the cluster file, but that a host may still have
    leaving: tuple[Phrase, ...] = ()
    hosts: Mapping[Phrase, HostLock] = field(default_factory=dict)  # entries by host name in the cluster file
    # SHA-256 of each bundle that may be installed, by its name in the cluster file
    bundles: Mapping[Phrase, Digest] = field(default_factory=dict)
    # public keys of those who made backups and bundles, whose archives are trusted
    signers: tuple[SigningKey, ...] = ()
    upgrade: UpgradeUnderWay | None = None  # the upgrade of Slurm that is under way; `None` if there is none
    # SlurmdSpoolDir where the cluster file names none; empty in locks of clusters that have FORMER_SPOOL, and before
    # the first deployment
    spool: Spool = ""
    # the certificate by which all hosts know the cluster's image registry; empty for none
    registry_ca: Certificate = ""

    @property
    def spool_directory(self) -> str:
        """SlurmdSpoolDir where the cluster file names none."""
        return self.spool or (FORMER_SPOOL if self.slurm else SLURM_SPOOL)

    def tells_gpu_use(self, host: str) -> bool:
        """Whether a host has NVIDIA GPUs whose driver tells how busy they are, which it does not of MIG instances."""
        gpus = self.hosts[host].gpus if host in self.hosts else ()
        return any(gpu.file.startswith("/dev/nvidia") and not gpu.with_files for gpu in gpus)

    @property
    def slurm_versions(self) -> tuple[str, ...]:
        """The versions of Slurm in the cluster, the controller's first; empty before the first deployment."""
        others = dict.fromkeys(host.slurm for host in self.hosts.values() if host.slurm)
        return (self.slurm, *others) if self.slurm else ()


def load(path: Path) -> Lock:
    """Load a lock, empty if there is none; InputError if it is unreadable, damaged, or of a newer slurmfab."""
    found = content(path)
    return Lock() if found is None else parse(found, path)


def parse(text: bytes, path: Path) -> Lock:
    """Make a lock from the bytes of its file; InputError if it is damaged, or was written by a newer slurmfab."""
    try:
        lock, plain = strict_json.checked_and_plain(text, path, adapter())
    except BrokenFile as error:
        with suppress(BrokenFile):
            refuse_other_version(strict_json.parse(text, path), path)
        newer = "; a newer slurmfab may have written it" if UNKNOWN in error.reason else ""
        raise _damaged(path, f"{error.reason}{newer}") from error
    refuse_other_version(plain, path)
    return lock


def refuse_other_version(plain: Any, path: Path) -> None:
    """Refuse a lock that a newer slurmfab wrote, and one without a version. Raises InputError if it is such a lock."""
    if not isinstance(plain, dict):
        raise _damaged(path, "it is not a JSON object")
    version = plain.get("version")
    if type(version) is not int or not 1 <= version < MOST_VERSIONS:
        raise _damaged(path, 'its "version" is not a version number')
    if version > VERSION:
        raise InputError(
            f"{path} was written by a newer slurmfab (format {version}, this one knows {VERSION}). "
            "Update slurmfab here."
        )


def save(lock: Lock, path: Path) -> None:
    """Write a lock atomically, unless the file has this content already; InputError if it cannot be written."""
    atomic_file.write(path, text_of(lock), mode=atomic_file.READABLE_BY_ALL, through_link=path.exists())


def text_of(lock: Lock) -> str:
    """The text of a lock's file."""
    return json.dumps(values_of(lock), indent=2, sort_keys=True) + "\n"


def with_host(lock: Lock, name: str, host_lock: HostLock) -> Lock:
    """The lock with an entry for a host, which replaces an earlier one."""
    return replace(lock, hosts={**lock.hosts, name: host_lock})


def without_hosts(lock: Lock, names: Iterable[str]) -> Lock:
    """The lock without its entries for some hosts; unknown names are ignored."""
    gone = set(names)
    return replace(lock, hosts={name: host for name, host in lock.hosts.items() if name not in gone})


def with_bundles(lock: Lock, digests: Mapping[str, str]) -> Lock:
    """The lock with manifests' digests of bundles, which replace those of the same names."""
    return replace(lock, bundles={**lock.bundles, **digests})


def with_signers(lock: Lock, keys: Iterable[str]) -> Lock:
    """The lock with further public keys whose archives are trusted."""
    return replace(lock, signers=tuple(dict.fromkeys((*lock.signers, *keys))))


def is_new_to(lock: Lock, host: str) -> bool:
    """Whether a host has never been part of a plan, so that it may belong to another cluster."""
    return host not in lock.hosts or not lock.hosts[host].hostname


def values_of(lock: Lock) -> dict[str, Any]:
    """A lock as JSON values."""
    values: dict[str, Any] = adapter().dump_python(lock, mode="json")
    for name in ("signers", "upgrade", "spool", "registry_ca"):
        if not values[name]:
            del values[name]
    for host in values["hosts"].values():
        for name in ("mig_before", "own_numbers", "kernel"):
            if not host[name]:
                del host[name]
    return values


@cache
def adapter() -> TypeAdapter[Lock]:
    """The pydantic adapter that converts locks to JSON values and back."""
    from pydantic import TypeAdapter  # 55 ms that `fab --list` need not pay

    return TypeAdapter(Lock)


def _damaged(path: Path, reason: str) -> InputError:
    """The error for a damaged lock."""
    return InputError(
        f"{path} is damaged: {reason}. Restore it from version control or a backup. "
        f"If there is none, move it away; `{FAB} deploy --accept-new-host-keys` then makes a new one."
    )
