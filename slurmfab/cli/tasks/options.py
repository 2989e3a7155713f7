"""Options that several tasks share: their names, their help, and their values as one object."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slurmfab.base.errors import InputError

if TYPE_CHECKING:
    from slurmfab.cluster.inventory.connection_options import ConnectionOptions
    from slurmfab.core.engine.session import Output

COMMON = {
    "cluster": "cluster file (default: $SLURMFAB_CLUSTER, else configs/cluster.yaml)",
    "verbose": "show every difference, as a diff where it is a file",
    "json": "write the results as JSON to this file (- for standard output)",
    "ask_sudo_password": "ask for the sudo password at the start (read from standard input if that is no terminal)",
}
"""The options that most tasks have, with their help."""

CONNECTION = {
    "user": "login name (default: the one in ssh_config, else your own)",
    "key": "private key file (default: the SSH agent's keys and those in ~/.ssh)",
    "port": "SSH port of the hosts (default: 22)",
    "become": "sudo or none (default: sudo, unless the login name is root)",
    "gateway": "jump host, as user@host:port",
    "accept_new_host_keys": "trust host keys that are not in known_hosts (at first contact)",
    "name": "name of the new cluster (default: its controller's host name)",
    "controller_computes": "the new cluster's controller is a compute node, too",
}
"""The options of a first contact, with their help."""

APPROVALS = {
    "drain_first": "where a change would hurt jobs: drain those nodes, wait for the jobs, change, resume the nodes",
    "allow": "allow one disruptive change, by the name shown in the refusal; repeatable",
    "move_ids": "where slurm or munge has another UID or GID: change it, and the owner of their files",
    "yes": "on a terminal: do not ask before it begins",
    "prune": "remove accounts, users and QOS that the cluster file does not name",
}
WHERE = {
    "on": "hosts: a hostlist, controller, compute, login, database, gpu, a partition, a state of nodes, @FILE "
    "(default: all)",
    "exclude": "leave these out, in the same words",
}
TEXTS = {**COMMON, **CONNECTION, **APPROVALS, **WHERE}
"""The help of parameters of which a task has nothing else to say."""

ALL, CONTACT = tuple(COMMON), tuple(CONNECTION)


@dataclass(frozen=True)
class Common:
    """The values of the options that tasks share; a task has those that its `command` names."""

    cluster: str = ""  # path of the cluster file; empty for the default
    verbose: bool = False
    json: str = ""  # path for the results as JSON, `-` for standard output, empty for none
    ask_sudo_password: bool = False
    user: str = ""
    key: str = ""
    port: str = ""
    become: str = ""
    gateway: str = ""
    accept_new_host_keys: bool = False
    name: str = ""
    controller_computes: bool = False

    @property
    def contact(self) -> ConnectionOptions:
        """How hosts are reached that no cluster file names yet. Raises InputError if the port is no number."""
        from slurmfab.cluster.inventory.connection_options import ConnectionOptions

        values = {one: getattr(self, one) for one in CONTACT if one not in ("port", "accept_new_host_keys")}
        return ConnectionOptions(**values, port=number(self.port, "--port"), accept_new=self.accept_new_host_keys)

    @property
    def output(self) -> Output:
        """What the task shows, whether it asks for the sudo password, and where hosts get packages from."""
        from slurmfab.commands.bundle.package_source import BundleSource
        from slurmfab.core.engine.session import Output  # slow to import, and the list of tasks has no need for it

        return Output(self.verbose, self.json, self.ask_sudo_password, BundleSource())


def number(text: str, flag: str) -> int | None:
    """A number that was given as text, `None` when it was not given. Raises InputError if it is not a number."""
    if not text:
        return None
    if not text.isdecimal():
        raise InputError(f"{flag} {text}: this is no number.")
    return int(text)


def names(given: Iterable[str]) -> tuple[str, ...]:
    """Names that were given with commas between them, or by giving an option several times.

    >>> names(["gpu,long", "short"])
    ('gpu', 'long', 'short')
    """
    return tuple(name.strip() for text in given for name in text.split(",") if name.strip())
