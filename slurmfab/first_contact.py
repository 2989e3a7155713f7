"""First contact with hosts that no cluster file knows: they are met, and the file and the lock are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from slurmfab import membership, newcomers
from slurmfab.cluster import Ssh
from slurmfab.errors import HostError, InputError, SlurmfabError
from slurmfab.hostlist import expand_endpoints, fold
from slurmfab.inventory import Inventory
from slurmfab.operations import Output


@dataclass(frozen=True)
class Contact:
    """How to reach hosts at first contact.

    Args:
        user: login name, empty for the usual.
        key: private key file, empty for the usual.
        port: of sshd, `None` for the usual.
        become: `sudo`, `none`, or empty for "sudo unless root logs in".
        gateway: jump host, empty for none.
        accept_new: whether unknown host keys are believed.
        name: the cluster's name, empty for `cluster`.
    """

    user: str = ""
    key: str = ""
    port: int | None = None
    become: str = ""
    gateway: str = ""
    accept_new: bool = False
    name: str = ""

    def ssh(self, hostlist: str) -> Ssh:
        """The `ssh` section for these hosts.

        Raises:
            InputError: `become` is neither of its words.
        """
        if self.become not in ("", "sudo", "none"):
            raise InputError(f"--become {self.become}: it is either sudo or none.")
        become = {"": None, "sudo": True, "none": False}[self.become]
        return membership.first_ssh(
            hostlist, user=self.user, key=self.key, port=self.port, become=become, gateway=self.gateway
        )

    @property
    def said(self) -> bool:
        """Whether anything of it was said, which is only for first contact."""
        return self != Contact(accept_new=self.accept_new)


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
