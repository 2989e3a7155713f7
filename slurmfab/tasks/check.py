"""Tasks that ask whether a cluster works: check-cluster, check-gpus."""

from __future__ import annotations

from invoke.context import Context

from slurmfab.tasks.command import command, number
from slurmfab.tasks.deploy import COMMON


@command(
    help={
        **COMMON,
        "hosts": "only these hosts (default: all)",
        "only": "groups of checks, or parts of checks' names, as in munge,jobs (default: all)",
        "junit": "write the results as JUnit XML to this file",
        "failover": "let the backup controller take over, and back, with jobs running; no other checks",
        "json": "write the results as JSON to this file (- for standard output)",
        "verbose": "tell each host's trouble for itself",
    }
)
def check_cluster(  # noqa: PLR0917 - each argument is an option of the command line
    _c: Context,
    hosts: str = "",
    cluster: str = "",
    only: str = "",
    junit: str = "",
    json: str = "",
    verbose: bool = False,
    ask_sudo_password: bool = False,
    failover: bool = False,
) -> int:
    """Ask the hosts whether the cluster works, up to real jobs.

    Nothing is changed. What fails is told with its host, its cause and its repair. Exit codes: 0 all is well,
    1 a check failed, 2 wrong input, 3 nothing failed but that hosts could not be reached.

    With --failover slurmctld is stopped on the primary controller until the backup has proved itself; jobs go on.

    Examples:
        fab check-cluster
        fab check-cluster --hosts n3
        fab check-cluster --only munge,nodes
        fab check-cluster --junit checks.xml --json -
        fab check-cluster --failover
    """
    from slurmfab import operations, verify  # noqa: PLC0415 - `fab --list` shall not pay for it

    output = operations.Output(verbose=verbose, json=json, ask_password=ask_sudo_password)
    return verify.check(cluster, hosts, only, junit, output, with_failover=failover)


@command(
    help={
        **{name: COMMON[name] for name in ("cluster", "ask_sudo_password")},
        "hosts": "only these compute nodes (default: all with GPUs)",
        "wait": "minutes that a job waits for a busy node (default: 10)",
        "no_drain": "measure only: no node goes out of service, and none comes back",
        "history": "show what was measured before; measure nothing",
        "json": "write the measurements as JSON to this file (- for standard output)",
    }
)
def check_gpus(  # noqa: PLR0917 - each argument is an option of the command line
    _c: Context,
    hosts: str = "",
    wait: str = "",
    no_drain: bool = False,
    history: bool = False,
    cluster: str = "",
    json: str = "",
    ask_sudo_password: bool = False,
) -> int:
    """Measure GPUs, and the network between nodes.

    all_reduce_perf of nccl-tests runs on each node with GPUs, as the cluster file says under gpu_checks. The jobs wait
    behind everybody's, and give way. A node that falls short twice is drained, with the figure in the reason; one that
    was drained for that comes back when it is well again. Exit codes: 0 all are as wanted, 1 some fall short, 2 wrong
    input, 3 none falls short but some could not be measured.

    Examples:
        fab check-gpus
        fab check-gpus --hosts n3 --no-drain
        fab check-gpus --history
    """
    from slurmfab import operations  # noqa: PLC0415 - `fab --list` shall not pay for it
    from slurmfab.gpu_checks import checking  # noqa: PLC0415 - `fab --list` shall not pay for it

    output = operations.Output(json=json, ask_password=ask_sudo_password)
    if history:
        return checking.show_history(cluster, hosts, output)
    return checking.check(cluster, hosts, number(wait, "--wait"), output, drains=not no_drain)
