"""Tasks that try a cluster with small jobs: quickcheck."""

from __future__ import annotations

from invoke.context import Context

from slurmfab.tasks.command import command, number
from slurmfab.tasks.deploy import COMMON


@command(
    help={
        "cluster": COMMON["cluster"],
        "hosts": "try each of these compute nodes (default: one node of each kind)",
        "only": "some of allocation, environment, nodes, gpus, nccl, container (default: all)",
        "user": "whose jobs they shall be (default: slurm)",
        "image": "what to run in a container, as its runtime spells it (default: one that podman has)",
        "timeout": "seconds that each job may take, waiting included (default: 90)",
        "json": "write what was seen as JSON to this file (- for standard output)",
        "ask_sudo_password": COMMON["ask_sudo_password"],
    }
)
def quickcheck(  # noqa: PLR0917 - each argument is an option of the command line
    _c: Context,
    hosts: str = "",
    cluster: str = "",
    only: str = "",
    user: str = "slurm",
    image: str = "",
    timeout: str = "",
    json: str = "",
    ask_sudo_password: bool = False,
) -> int:
    """Try the cluster with small jobs, GPUs included.

    A line for each thing that is tried, with its time: a batch job, its environment, two nodes, GPUs of each kind, NCCL
    between them, a container. What is left of the jobs is cancelled. Exit codes: 0 nothing failed, 1 something
    failed, 2 wrong input, 3 no job could be tried, as when all nodes are busy.

    Examples:
        fab quickcheck
        fab quickcheck --user ann
        fab quickcheck --hosts gpu07 --only gpus,nccl
        fab quickcheck --only container --image docker://debian
    """
    from slurmfab import operations  # noqa: PLC0415 - `fab --list` shall not pay for it
    from slurmfab.quickcheck import running  # noqa: PLC0415

    seconds = number(timeout, "--timeout")
    wish = running.Wish(hosts, only, user, running.SECONDS if seconds is None else seconds, image)
    return running.check(cluster, wish, operations.Output(json=json, ask_password=ask_sudo_password))
