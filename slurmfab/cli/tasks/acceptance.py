"""Tasks that measure a cluster: accept."""

from __future__ import annotations

from slurmfab.base.errors import InputError
from slurmfab.cli.tasks.command import command, number
from slurmfab.cli.tasks.options import Common


@command(
    common=("cluster", "json", "ask_sudo_password"),
    help={
        "hosts": "use only these compute nodes (default: all)",
        "only": "only these jobs of the key acceptance, as in memory,hpcc (default: all)",
        "user": "the user who runs jobs that name none (default: slurm)",
        "repeat": "how often each job runs (default: 1)",
        "wait": "minutes that a job waits for its start (default: 10)",
        "junit": "write the results as JUnit XML to this file",
        "logs": "keep the output of the jobs in this directory",
        "history": "show earlier figures; run nothing",
    },
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
