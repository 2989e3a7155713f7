"""Tasks that lead to the hosts: ssh, ssh-config."""

from __future__ import annotations

from slurmfab.cli.tasks.command import command
from slurmfab.cli.tasks.options import Common


@command(
    common=("cluster",),
    rest="command",
    host="a member of the cluster",
    command="what runs there; a shell if left out",
)
def ssh(common: Common, host: str, *, command: str = "") -> int:
    """Log in to a host, or run a command there.

    ssh(1) gets address, user, port, key, gateway and the pinned host keys from the cluster file and its lock, and
    everything else from your ssh_config. The exit code is that of the command. Exit codes: 2 wrong input, 255 ssh(1)
    could not connect.

    Examples:
        fab ssh n3
        fab ssh n3 -- journalctl -u slurmd -n 50
    """
    from slurmfab.cluster.inventory import loading
    from slurmfab.hosts import client_config

    return client_config.connect(loading.load_named(common.cluster), host, [command] if command else [])


@command(common=("cluster",))
def ssh_config(common: Common) -> None:
    """Print an ssh_config for all hosts.

    With it, clush, pdsh, rsync and the like reach the hosts as slurmfab does. The pinned host keys are written
    to a known_hosts file beside the cluster file. No host is asked. Exit codes: 0 printed, 2 wrong input.

    Examples:
        fab ssh-config > ~/.ssh/config.d/titanic
    """
    from slurmfab.cluster.inventory import loading
    from slurmfab.hosts import client_config

    print(client_config.show(loading.load_named(common.cluster)), end="")  # noqa: T201 - the answer
