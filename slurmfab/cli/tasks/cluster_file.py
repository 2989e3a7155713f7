"""Tasks for the cluster file itself: init, schema and import."""

from __future__ import annotations

from slurmfab.cli.tasks.command import command
from slurmfab.cli.tasks.options import ALL, CONTACT, Common


@command(
    common=("cluster",),
    slurm="version of Slurm whose keys it has, or all (default: the installed one, by the lock, else all)",
    output="file to write (default: standard output)",
)
def schema(common: Common, *, slurm: str = "", output: str = "") -> int:
    """Print the JSON schema of cluster files, for editors.

    Editors with it complete keys, explain them, and mark misspelt ones, also Slurm's own. A first deployment, an import
    and init write it beside the cluster file, and later deployments keep it up to date. No host is asked. Exit codes: 0
    done, 2 wrong input.

    Examples:
        fab schema > cluster.schema.json
        fab schema --slurm 24.11 --output configs/cluster.schema.json
    """
    from slurmfab.cluster.inventory import schema_file

    return schema_file.write_or_show(common.cluster, slurm, output)


@command(
    common=("cluster",),
    name="name of the cluster (default: cluster)",
    controller="host of slurmctld",
    nodes="hostlist of the compute nodes, which may include the controller",
    login="hostlist of login hosts, which have Slurm's commands alone",
    user="SSH login name, which becomes root by sudo (default: the one in ssh_config, else your own)",
    accounting="slurmdbd and MariaDB on the controller",
    gpu_nodes="hostlist of the compute nodes with GPUs, for a partition of their own",
    homes="where homes are on a file server, as nas:/export/home",
    users="users with logins on all hosts, with commas between them",
    yes="ask nothing",
    cluster="cluster file to write (default: $SLURMFAB_CLUSTER, else configs/cluster.yaml)",
)
def init(
    common: Common,
    *,
    name: str = "",
    controller: str = "",
    nodes: str = "",
    login: str = "",
    user: str = "",
    accounting: bool = False,
    gpu_nodes: str = "",
    homes: str = "",
    users: str = "",
    yes: bool = False,
) -> int:
    """Write a first cluster file, by a few questions.

    On a terminal it asks for what no option says, and tells at once what cannot be. No host is asked, and no file is
    replaced. It writes the cluster file with comments, its schema for editors, and a fabfile. Exit codes: 0 written, 1
    not wanted, 2 wrong input.

    Examples:
        fab init
        fab init --name lab --controller ctl --nodes 'n[1-4]' --yes
        fab init --controller ctl --nodes 'n[1-4],g[1-2]' --gpu-nodes 'g[1-2]' --accounting --users ann,bob
    """
    from slurmfab.commands.init import asking

    given: dict[str, str | bool] = {
        "name": name, "controller": controller, "nodes": nodes, "login": login, "user": user, "accounting": accounting,
        "gpu_nodes": gpu_nodes, "homes": homes, "users": users,
    }  # fmt: skip
    return asking.init(common.cluster, {key: value for key, value in given.items() if value}, yes=yes)


@command(
    newcomers=True,
    common=(*CONTACT[:6], *ALL),
    hosts="the cluster's controller; its slurm.conf names the other hosts",
    adopt="least (default) or usual: usual adds SSH logins of slurm and names of hosts, if it lacks them",
    keep_files="leave Slurm's files as they are for good: they are compared, and no deployment writes them",
    verbose="show what became of every key of the old files",
    cluster="cluster file to write (default: $SLURMFAB_CLUSTER, else configs/cluster.yaml)",
)
def import_(
    common: Common,
    *,
    hosts: str = "",
    adopt: str = "",
    keep_files: bool = False,
) -> int:
    """Write the cluster file of a cluster made by hand.

    Slurm's files, accounts and hardware are read from all hosts that slurm.conf names, and nothing is changed on any of
    them. The cluster file, its lock and the files beside it must not exist yet. A deployment with them keeps jobs,
    history, accounts, and the site's own settings. Exit codes: 0 written, 1 failed, or written and the plan of it is
    refused, 2 wrong input, 3 written, but some hosts did not answer; they are in the files as slurm.conf has them.

    Examples:
        fab import --hosts ctl
        fab import --hosts admin@10.0.0.1 --accept-new-host-keys
        fab import --hosts ctl --adopt usual
        fab import --hosts ctl --keep-files
        fab import --hosts ctl --cluster configs/old.yaml --json -
    """
    from slurmfab.commands.import_cluster import importing

    wanted = importing.ImportOptions(adopt or importing.ADOPT[0], keep_files)
    return importing.import_cluster(common.cluster, hosts, common.contact, common.output, wanted)
