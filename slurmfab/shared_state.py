"""Whether two controllers really see one state directory, tried out before anything is deployed.

A backup that takes over with a state of its own would start without the jobs that run, and both controllers would give
out the same job numbers.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from slurmfab.agent.left_file import LeftFile
from slurmfab.agent.resource import FAILED, OK, Outcome
from slurmfab.errors import HostError, InputError, SlurmfabError
from slurmfab.ssh.fan_out import on_each

if TYPE_CHECKING:
    from slurmfab.cluster import Cluster

SHOW_SECONDS = 5.0
"""How long a file that the other controller has made may take to show up."""

Ask = Callable[[str, LeftFile, bool], Outcome]
"""What a host makes of a file, given the host, the file, and whether it is only looked at."""


def require(cluster: Cluster, hosts: Sequence[str], ask: Ask) -> None:
    """Make sure that what one controller writes to the state directory, the other one reads, both ways.

    The files are gone afterwards. Without a second controller that answers there is nothing to find out.

    Args:
        cluster: the cluster file.
        hosts: those that the run is about and that answer.
        ask: asks one of them.

    Raises:
        InputError: they do not see the same directory.
        HostError: one cannot write there.
    """
    controllers = [host for host in cluster.controllers if host in hosts]
    if len(controllers) < 2:  # noqa: PLR2004 - a pair
        return
    token, directory = secrets.token_hex(8), cluster.state_directory
    partner = dict(zip(controllers, reversed(controllers), strict=True))
    own = {host: LeftFile(directory, f".slurmfab-{host}-{token}") for host in controllers}
    others = {host: LeftFile(directory, own[partner[host]].file, seconds=SHOW_SECONDS) for host in controllers}
    try:
        on_all(own, ask, False)
        seen = on_all(others, ask, True)
    finally:
        with contextlib.suppress(SlurmfabError):
            on_all({host: LeftFile(directory, file.file, there=False) for host, file in own.items()}, ask, False)
    for host, outcome in seen.items():
        if outcome.status != OK:
            raise InputError(complaint(directory, host, partner[host]))


def on_all(files: Mapping[str, LeftFile], ask: Ask, is_dry: bool) -> dict[str, Outcome]:
    """What hosts make of a file each, by name.

    Raises:
        HostError: one of them could not do it.
    """
    outcomes: dict[str, Outcome] = {}
    for host, outcome in on_each(files, lambda host: ask(host, files[host], is_dry)):
        if isinstance(outcome, SlurmfabError):
            raise outcome
        if outcome.status == FAILED:
            raise HostError(
                host,
                f"slurmctld's state directory {files[host].directory} cannot be tried out: "
                f"{outcome.message}. Nothing was changed.",
            )
        outcomes[host] = outcome
    return outcomes


def complaint(directory: str, host: str, other: str) -> str:
    """What to say of a directory that is not shared.

    Args:
        directory: as in the cluster file.
        host: who does not see the file.
        other: who has made it.
    """
    return (
        f"state_directory: {directory} is not the same directory on {other} and on {host}: a file that {other} "
        f"made there is not seen on {host}. A backup controller goes on with the primary's state. Mount one file "
        f"system there on both, such as an NFS export that {other} and {host} may write to. Nothing was changed."
    )
