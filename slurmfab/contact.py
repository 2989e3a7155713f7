"""What the user says of hosts that no cluster file knows yet: how to reach them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slurmfab.errors import InputError

if TYPE_CHECKING:
    from slurmfab.cluster import Ssh


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
        from slurmfab import membership  # noqa: PLC0415 - only first contact needs it

        become = {"": None, "sudo": True, "none": False}[self.become]
        return membership.first_ssh(
            hostlist, user=self.user, key=self.key, port=self.port, become=become, gateway=self.gateway
        )

    @property
    def said(self) -> bool:
        """Whether anything of it was said, which is only for first contact."""
        return self != Contact(accept_new=self.accept_new)
