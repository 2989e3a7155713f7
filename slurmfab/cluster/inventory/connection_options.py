"""Options for hosts that no cluster file contains yet: how to reach them."""

from __future__ import annotations

from dataclasses import dataclass

from slurmfab.base.errors import InputError

BECOME = {"": None, "sudo": True, "none": False}  # values of `--become`, and whether they mean sudo


@dataclass(frozen=True)
class ConnectionOptions:
    """How to reach hosts at first contact."""

    user: str = ""  # login name; empty for the default of ssh_config
    key: str = ""  # private key file; empty for the defaults of ssh_config
    port: int | None = None  # port of sshd; `None` for the default of ssh_config
    become: str = ""  # `sudo`, `none`, or empty for "sudo unless root logs in"
    gateway: str = ""  # jump host, empty for none
    accept_new: bool = False  # whether unknown host keys are accepted
    name: str = ""  # the cluster's name, empty for the host name of its controller
    controller_computes: bool = False  # whether the controller is a compute node, too

    def refuse_unknown_become(self) -> None:
        """Refuse a value of `--become` that has no meaning. Raises InputError if it is neither `sudo` nor `none`."""
        if self.become not in BECOME:
            raise InputError(f"--become {self.become}: it must be sudo or none.")

    @property
    def uses_sudo(self) -> bool | None:
        """Whether `sudo` is used on the hosts; `None` for "unless root logs in"."""
        return BECOME[self.become]
