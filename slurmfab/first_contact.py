"""First contact with hosts that no cluster file knows: they are met, and the file and the lock are written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from slurmfab import membership, newcomers
from slurmfab.contact import Contact
from slurmfab.errors import HostError, SlurmfabError
from slurmfab.hostlist import expand_endpoints, fold
from slurmfab.inventory import Inventory
from slurmfab.operations import Output


def make(path: Path, hosts: str, contact: Contact, output: Output) -> tuple[Inventory, newcomers.Meeting]:
    """Meet hosts for the first time, and write the cluster file and the lock of those that answered.

    Raises:
        SlurmfabError: the host that would be the controller did not answer; nothing was written.
    """
    ssh = contact.ssh(hosts)
    progress = output.progress()
    meeting = newcomers.meet(
        hosts,
        ssh,
        accept_new=contact.accept_new,
        ask_password=output.asker(),
        progress=progress.line,
        refuse=lambda lost: refuse_without_controller(hosts, lost),
    )
    for error in meeting.lost.values():
        progress.line(str(error))
    known = membership.found(path, contact.name or "cluster", ssh, meeting.newcomers)
    progress.line(
        f"Wrote {path}: {known.cluster.controller} is the controller, {fold(known.cluster.compute_nodes)} compute."
    )
    return known, meeting


def refuse_without_controller(hosts: str, lost: Mapping[str, HostError]) -> None:
    """Stop at first contact if the host that would be the controller is lost.

    Raises:
        SlurmfabError: it is.
    """
    first = newcomers.text_of(expand_endpoints(hosts)[0])
    if first in lost:
        raise SlurmfabError(
            f"{lost[first]}\n{first} would be the controller, so nothing was written or changed. "
            "Name another host first, or mend that."
        )


def refuse_incomplete(lost: Mapping[str, HostError]) -> None:
    """Stop if any host is lost.

    Raises:
        SlurmfabError: with what is wrong with each.
    """
    if lost:
        raise SlurmfabError("\n".join([*map(str, lost.values()), "Nothing was changed."]))
