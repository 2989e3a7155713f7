"""Tasks for the cluster file itself, which ask no host: schema."""

from __future__ import annotations

from slurmfab.tasks.command import command
from slurmfab.tasks.options import Common


@command(
    common=("cluster",),
    help={
        "slurm": "version of Slurm whose keys it has, or all (default: the installed one, by the lock, else all)",
        "output": "file to write (default: standard output)",
    },
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
    from slurmfab.inventory import schema_file

    return schema_file.write_or_show(common.cluster, slurm, output)
