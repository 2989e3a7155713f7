"""Options that several tasks share: their names, their help, and their values as one object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurmfab.core.engine.session import Output

COMMON = {
    "cluster": "cluster file (default: $SLURMFAB_CLUSTER, else configs/cluster.yaml)",
    "verbose": "show every difference, as a diff where it is a file",
    "json": "write the results as JSON to this file (- for standard output)",
    "ask_sudo_password": "ask for the sudo password at the start (read from standard input if that is no terminal)",
}
"""The options that most tasks have, with their help; `command` adds them to a task."""

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
APPROVALS = {
    "drain_first": "where a change would hurt jobs: drain those nodes, wait for the jobs, change, resume the nodes",
    "allow": "allow one disruptive change, by the name shown in the refusal; repeatable",
    "move_ids": "where slurm or munge has another UID or GID: change it, and the owner of their files",
    "yes": "on a terminal: do not ask before it begins",
    "prune": "remove accounts, users and QOS that the cluster file does not name",
}


@dataclass(frozen=True)
class Common:
    """The values of the options that most tasks have."""

    cluster: str = ""  # path of the cluster file; empty for the default
    verbose: bool = False
    json: str = ""  # path for the results as JSON, `-` for standard output, empty for none
    ask_sudo_password: bool = False

    @property
    def output(self) -> Output:
        """What the task shows, whether it asks for the sudo password, and where hosts get packages from."""
        from slurmfab.commands.bundle.package_source import BundleSource
        from slurmfab.core.engine.session import Output  # slow to import, and the list of tasks has no need for it

        return Output(self.verbose, self.json, self.ask_sudo_password, BundleSource())
