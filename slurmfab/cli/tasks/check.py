"""Tasks that test whether a cluster works: check-cluster, check-gpus."""

from __future__ import annotations

from slurmfab.cli.tasks.command import command, number
from slurmfab.cli.tasks.options import Common


@command(
    help={
        "hosts": "only these hosts (default: all)",
        "only": "only these groups of checks, or checks whose names contain this, as in munge,jobs (default: all)",
        "junit": "write the results as JUnit XML to this file",
        "html": "write the results as a page for browsers to this file, readable by you alone",
        "failover": "only test that the backup controller takes over and gives back, while jobs run",
        "verbose": "show failures host by host",
    }
)
def check_cluster(
    common: Common, *, hosts: str = "", only: str = "", junit: str = "", html: str = "", failover: bool = False
) -> int:
    """Check that the cluster works, up to real jobs.

    Nothing is changed. Each failure is shown with its host, its cause and its repair. Exit codes: 0 all checks passed,
    1 a check failed, 2 wrong input, 3 nothing failed, but some hosts could not be reached, 5 nothing failed, but some
    checks could not be run, for example because nodes are busy. Checks that do not apply to the cluster are left out.

    With --failover slurmctld is stopped on the primary controller until the backup has taken over; jobs keep running.

    Examples:
        fab check-cluster
        fab check-cluster --hosts n3
        fab check-cluster --only munge,nodes
        fab check-cluster --junit checks.xml --json -
        fab check-cluster --html checks.html
        fab check-cluster --failover
    """
    from slurmfab.commands.checks import runner

    if not html:
        return runner.check(common.cluster, hosts, only, junit, common.output, with_failover=failover)
    from slurmfab.commands.report import writing

    write_page = writing.page_of_checks(html)
    return runner.check(common.cluster, hosts, only, junit, common.output, with_failover=failover, when_done=write_page)


@command(
    common=("cluster", "json", "ask_sudo_password"),
    help={
        "hosts": "only these compute nodes (default: all with GPUs)",
        "wait": "minutes that a job waits for a busy node (default: 10)",
        "no_drain": "only measure: drain and resume no node",
        "history": "show earlier measurements; measure nothing",
        "json": "write the measurements as JSON to this file (- for standard output)",
    },
)
def check_gpus(
    common: Common, *, hosts: str = "", wait: str = "", no_drain: bool = False, history: bool = False
) -> int:
    """Measure GPUs, and the network between nodes.

    all_reduce_perf of nccl-tests runs on each node with GPUs, as the cluster file says under gpu_checks. The jobs have
    the lowest priority and yield to users' jobs. A node that is too slow twice is drained, with the measured value in
    the reason; a node that was drained for that is resumed when it is fast enough again. Exit codes: 0 all are fast
    enough, 1 some are too slow, or the check could not run, 2 wrong input, 3 none is too slow, but some could not be
    measured.

    Examples:
        fab check-gpus
        fab check-gpus --hosts n3 --no-drain
        fab check-gpus --history
    """
    from slurmfab.commands.gpu_checks import checking

    if history:
        return checking.show_history(common.cluster, hosts, common.output)
    return checking.check(common.cluster, hosts, number(wait, "--wait"), common.output, drains=not no_drain)
