"""Checks before a deployment that two controllers share one state directory, without which jobs are lost."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from slurmfab.base.errors import HostError, InputError, SlurmfabError
from slurmfab.cluster.inventory.mounts import covering
from slurmfab.cluster.inventory.storage import mounts_of
from slurmfab.hosts.fan_out import on_each
from slurmfab.on_hosts.agent.core.resource import FAILED, OK, Outcome
from slurmfab.on_hosts.agent.files.left_file import LeftFile

if TYPE_CHECKING:
    from slurmfab.cluster.inventory.cluster import Cluster
    from slurmfab.cluster.inventory.mounts import Mount

SHOW_SECONDS = 5.0  # seconds until a file that one controller wrote must be visible on the other one

ApplyFile = Callable[[str, LeftFile, bool], Outcome]
"""Applies a file on a host, or compares it only: gets the host, the file, and whether this is a dry run."""


def require_shared(cluster: Cluster, hosts: Sequence[str], apply: ApplyFile) -> None:
    """Make sure that each controller sees the files that the other one writes to the state directory.

    The files are removed afterwards. Nothing is checked unless two controllers answer, or where the cluster file itself
    has both mount one file system there, which may not have happened yet. `hosts`: the hosts of the run that answer.
    Raises InputError if the controllers do not share the directory. Raises HostError if a controller cannot write to
    it.
    """
    controllers = [host for host in cluster.controllers if host in hosts]
    if len(controllers) < 2 or is_mounted_by_us(cluster):  # noqa: PLR2004 - a pair
        return
    token, directory = secrets.token_hex(8), cluster.state_directory
    partner = dict(zip(controllers, reversed(controllers), strict=True))
    own = {host: LeftFile(directory, f".slurmfab-{host}-{token}") for host in controllers}
    others = {host: LeftFile(directory, own[partner[host]].file, seconds=SHOW_SECONDS) for host in controllers}
    try:
        apply_all(own, apply, False)
        outcomes = apply_all(others, apply, True)
    finally:
        with contextlib.suppress(SlurmfabError):
            apply_all({host: LeftFile(directory, file.file, there=False) for host, file in own.items()}, apply, False)
    for host, outcome in outcomes.items():
        if outcome.status != OK:
            raise InputError(not_shared(directory, host, partner[host]))


def is_mounted_by_us(cluster: Cluster) -> bool:
    """Whether the state directory is on one mount of the cluster file on all controllers, from another machine."""
    found = {id(one): one for one in (state_mount(cluster, host) for host in cluster.controllers)}
    return len(found) == 1 and all(one is not None and one.is_network for one in found.values())


def state_mount(cluster: Cluster, host: str) -> Mount | None:
    """The mount of the cluster file that the state directory is on."""
    return covering(mounts_of(cluster, host), cluster.state_directory)


def apply_all(files: Mapping[str, LeftFile], apply: ApplyFile, is_dry: bool) -> dict[str, Outcome]:
    """Apply, or only compare, one file on each host at once; the outcomes by host, or HostError."""
    outcomes: dict[str, Outcome] = {}
    for host, outcome in on_each(files, lambda host: apply(host, files[host], is_dry)):
        if isinstance(outcome, SlurmfabError):
            raise outcome
        if outcome.status == FAILED:
            raise HostError(
                host,
                f"slurmctld's state directory {files[host].directory} cannot be checked: "
                f"{outcome.message}. Nothing was changed.",
            )
        outcomes[host] = outcome
    return outcomes


def not_shared(directory: str, host: str, other: str) -> str:
    """The message about a state directory that is not shared: `host` does not see the file that `other` wrote."""
    return (
        f"state_directory: {directory} is not the same directory on {other} and on {host}: a file that {other} "
        f"wrote there is not visible on {host}. A backup controller continues with the primary's state. Mount one "
        f"file system there on both, such as an NFS export that both may write to. Nothing was changed."
    )
