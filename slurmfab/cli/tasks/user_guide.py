"""The task that writes pages for the users of a cluster: user-guide."""

from __future__ import annotations

from slurmfab.cli.tasks.command import command
from slurmfab.cli.tasks.options import Common


@command(common=("cluster",), help={"output": "directory for the files (default: CLUSTER-users)"})
def user_guide(common: Common, *, output: str = "") -> int:
    """Write a guide and a job form for users of the cluster.

    The guide tells how to log in, partitions and their limits, GPUs, files, software, the first job and why jobs wait:
    as Markdown and as a page. The form writes job scripts in a browser. Both are made from the cluster file, and need
    no server and no network. No host is asked. Exit codes: 0 written, 2 wrong input.

    Examples:
        fab user-guide
        fab user-guide --output /var/www/html/cluster
    """
    from slurmfab.core.user_guide import writing

    return writing.write_files(common.cluster, output)
