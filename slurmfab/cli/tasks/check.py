"""Tasks that test a cluster: check-cluster, check-gpus, quickcheck, accept and drill."""

from __future__ import annotations

from slurmfab.base.errors import InputError
from slurmfab.cli.tasks.command import command
from slurmfab.cli.tasks.options import Common, names, number


@command(
    hosts="only these hosts (default: all)",
    only="only these groups of checks, or checks whose names contain this, as in munge,jobs (default: all)",
    junit="write the results as JUnit XML to this file",
    html="write the results as a page for browsers to this file, readable by you alone",
    failover="only test that the backup controller takes over and gives back, while jobs run",
    verbose="show failures host by host",
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
    hosts="only these compute nodes (default: all with GPUs)",
    wait="minutes that a job waits for a busy node (default: 10)",
    no_drain="only measure: drain and resume no node",
    history="show earlier measurements; measure nothing",
    json="write the measurements as JSON to this file (- for standard output)",
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


@command(
    common=("cluster", "json", "ask_sudo_password"),
    hosts="try each of these compute nodes (default: one node of each kind)",
    only="some of allocation, environment, nodes, homes, gpus, nccl, container (default: all)",
    user="the user who runs the jobs (default: slurm)",
    image="what to run in a container, as its runtime spells it (default: an image that podman has)",
    timeout="seconds that each job may take, including the wait in the queue (default: 90)",
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


@command(
    common=("cluster", "json", "ask_sudo_password"),
    hosts="use only these compute nodes (default: all)",
    only="only these jobs of the key acceptance, as in memory,hpcc (default: all)",
    user="the user who runs jobs that name none (default: slurm)",
    repeat="how often each job runs (default: 1)",
    wait="minutes that a job waits for its start (default: 10)",
    junit="write the results as JUnit XML to this file",
    logs="keep the output of the jobs in this directory",
    history="show earlier figures; run nothing",
)
def accept(
    common: Common,
    *,
    hosts: str = "",
    only: str = "",
    user: str = "slurm",
    repeat: str = "",
    wait: str = "",
    junit: str = "",
    logs: str = "",
    history: bool = False,
) -> int:
    """Run the acceptance jobs, and judge their figures.

    The key acceptance of the cluster file names jobs with scripts, nodes and targets; some come with slurmfab. Each
    result is kept on the controller, and compared with earlier ones. Jobs that are left over are cancelled. Exit codes:
    0 all figures are good, 1 some are bad or missing, or slurmctld does not answer, 2 wrong input, 3 nothing is bad,
    but some jobs never started.

    Examples:
        fab accept
        fab accept --only memory --hosts 'cn[01-04]' --repeat 3
        fab accept --junit accept.xml --json -
        fab accept --history
    """
    from slurmfab.commands.accept import listing, running

    if history:
        if repeat or wait or junit or logs:
            raise InputError("--history runs nothing: leave out --repeat, --wait, --junit and --logs.")
        return listing.show(common.cluster, only, hosts, common.output)
    times, minutes = number(repeat, "--repeat"), number(wait, "--wait")
    options = running.AcceptOptions(
        hosts, only, user, 1 if times is None else times, running.WAIT if minutes is None else minutes, logs
    )
    return running.accept(common.cluster, options, junit, common.output)


@command(
    common=("cluster", "json", "ask_sudo_password"),
    drills="names of drills, as in slurmctld,link (default: list them)",
    node="the compute node for faults of nodes (default: one that is idle)",
    junit="write the results as JUnit XML to this file",
    yes="on a terminal: do not ask before it begins",
)
def drill(common: Common, *, drills: str = "", node: str = "", junit: str = "", yes: bool = False) -> int:
    """Bring faults about, and measure what notices them.

    slurmctld crashes, a controller fails over, a node loses its power, its link, its clock, its spool, a GPU or its
    file server: one after the other, each taken back. It measures the time until Slurm notices, until the node is out
    of service and until all is well again, and says which alert would have fired. A node with a job is never touched;
    the others are reserved meanwhile. Each fault ends by itself, also when this machine dies. Exit codes: 0 all were
    noticed and are over, 1 one was not, or failed, 2 wrong input, 5 none failed, but some could not be done now.

    Examples:
        fab drill
        fab drill --drills slurmctld
        fab drill --drills link,power --node n2 --junit drills.xml
    """
    from slurmfab.commands.drill import drilling

    options = drilling.DrillOptions(names([drills]), node, junit, asks=not yes)
    return drilling.drill(common.cluster, options, common.output)
