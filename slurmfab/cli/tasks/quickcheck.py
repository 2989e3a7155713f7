"""Tasks that try a cluster with small jobs: quickcheck."""

from __future__ import annotations

from slurmfab.cli.tasks.command import command, number
from slurmfab.cli.tasks.options import Common


@command(
    common=("cluster", "json", "ask_sudo_password"),
    help={
        "hosts": "try each of these compute nodes (default: one node of each kind)",
        "only": "some of allocation, environment, nodes, homes, gpus, nccl, container (default: all)",
        "user": "the user who runs the jobs (default: slurm)",
        "image": "what to run in a container, as its runtime spells it (default: an image that podman has)",
        "timeout": "seconds that each job may take, including the wait in the queue (default: 90)",
    },
)
def quickcheck(
    common: Common, *, hosts: str = "", only: str = "", user: str = "slurm", image: str = "", timeout: str = ""
) -> int:
    """Try the cluster with small jobs, GPUs included.

    One line for each test, with its time: a batch job, its environment, two nodes, GPUs of each kind, NCCL between
    them, a container. Jobs that are left over are cancelled. Exit codes: 0 nothing failed, 1 something failed, 2 wrong
    input, 3 nothing failed, but nothing could be tried, for example because all nodes are busy.

    Examples:
        fab quickcheck
        fab quickcheck --user ann
        fab quickcheck --hosts gpu07 --only gpus,nccl
        fab quickcheck --only container --image docker://debian
    """
    from slurmfab.commands.quickcheck import running

    seconds = number(timeout, "--timeout")
    options = running.QuickcheckOptions(hosts, only, user, running.SECONDS if seconds is None else seconds, image)
    return running.check(common.cluster, options, common.output)
