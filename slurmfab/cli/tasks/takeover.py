"""Tasks for clusters that exist already: import."""

from __future__ import annotations

from slurmfab.cli.tasks.command import command, number
from slurmfab.cli.tasks.options import CONNECTION, Common


@command(
    newcomers=True,
    help={
        **{name: CONNECTION[name] for name in ("user", "key", "port", "become", "gateway", "accept_new_host_keys")},
        "hosts": "the cluster's controller; its slurm.conf names the other hosts",
        "adopt": "least (default) or usual: usual adds SSH logins of slurm and names of hosts, if it lacks them",
        "keep_files": "leave Slurm's files as they are for good: they are compared, and no deployment writes them",
        "verbose": "show what became of every key of the old files",
        "cluster": "cluster file to write (default: $SLURMFAB_CLUSTER, else configs/cluster.yaml)",
    },
)
def import_(
    common: Common,
    *,
    hosts: str = "",
    user: str = "",
    key: str = "",
    port: str = "",
    become: str = "",
    gateway: str = "",
    accept_new_host_keys: bool = False,
    adopt: str = "",
    keep_files: bool = False,
) -> int:
    """Write the cluster file of a cluster made by hand.

    Slurm's files, accounts and hardware are read from all hosts that slurm.conf names, and nothing is changed on any of
    them. The cluster file, its lock and the files beside it must not exist yet. A deployment with them keeps jobs,
    history, accounts, and the site's own settings. Exit codes: 0 written, 1 failed, 2 wrong input, 3 written, but some
    hosts did not answer; they are in the files as slurm.conf has them.

    Examples:
        fab import --hosts ctl
        fab import --hosts admin@10.0.0.1 --accept-new-host-keys
        fab import --hosts ctl --adopt usual
        fab import --hosts ctl --keep-files
        fab import --hosts ctl --cluster configs/old.yaml --json -
    """
    from slurmfab.cluster.inventory.connection_options import ConnectionOptions
    from slurmfab.commands.import_cluster import importing

    contact = ConnectionOptions(user, key, number(port, "--port"), become, gateway, accept_new_host_keys)
    wanted = importing.ImportOptions(adopt or importing.ADOPT[0], keep_files)
    return importing.import_cluster(common.cluster, hosts, contact, common.output, wanted)
