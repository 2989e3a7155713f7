"""The task `logs`: what the daemons and the kernel wrote about a node or a job."""

from __future__ import annotations

from slurmfab.cli.tasks.command import command
from slurmfab.cli.tasks.options import Common


@command(
    common=("cluster", "json", "ask_sudo_password"),
    positional=["target"],
    help={
        "target": "hostlist, or the id of a job",
        "since": "begin of the period: 2h (ago), 14:30, 2026-11-23T14:30, yesterday (default: 1h, or the job's start)",
        "until": "its end (default: now, or the job's end)",
        "around": "a time in place of both: ten minutes before and after it",
        "all": "show all lines, not only those that matter",
    },
)
def logs(common: Common, target: str, *, since: str = "", until: str = "", around: str = "", all: bool = False) -> int:
    """Show the log lines that matter of a node or a job.

    These are errors, changes of state, and what names the node or the job, in the logs of slurmctld, slurmd, slurmdbd
    and munge, and in the kernel's: killed for memory, GPU errors, disks, links. The node is asked, and the controllers;
    equal lines are one, with all hosts and their number. Nothing is changed, and what looks like a secret is hidden.
    Exit codes: 0 shown, even if no line matters, 1 no host answers, or Slurm does not know the job, 2 wrong input, 3
    some hosts do not answer.

    Examples:
        fab logs n3
        fab logs 'n[1-8]' --around 14:30
        fab logs 4711
    """
    from slurmfab.commands.logs import showing
    from slurmfab.commands.logs.times import Asked

    return showing.show(common.cluster, target, Asked(since, until, around), common.output, every_line=all)
