"""Tasks about what a cluster was used for: usage."""

from __future__ import annotations

from slurmfab.cli.tasks.command import command, names, number
from slurmfab.cli.tasks.options import Common


@command(
    common=("cluster", "json", "ask_sudo_password"),
    help={
        "since": "begin: a time such as 2026-11-01 or 2026-11-01T08:00, or an age such as 12h, 7d or 4w (default: 30d)",
        "until": "end, likewise (default: now)",
        "by": "what the rows are: some of user,account,partition,gpu, with commas (default: user)",
        "csv": "write the table as CSV to this file (- for standard output)",
        "idle_minutes": "list jobs that held GPUs idle from this age on (default: 10)",
        "homes": "measure also what homes and scratch directories hold: up to two minutes of gentle work on each host",
    },
)
def usage(
    common: Common,
    *,
    since: str = "30d",
    until: str = "",
    by: str = "user",
    csv: str = "",
    idle_minutes: str = "10",
    homes: bool = False,
) -> int:
    """Show what jobs used over time, and how well.

    CPU and GPU hours and their share of the cluster, CPU time and memory used of what was asked for, jobs that hold
    GPUs idle, and the largest waits, from the records in slurmdbd. Times are those of the controller. The task changes
    nothing. Exit codes: 0 shown, 1 slurmdbd does not answer or Slurm keeps no records, 2 wrong input.

    Examples:
        fab usage
        fab usage --since 2026-11-01 --by account,gpu
        fab usage --since 7d --json - | jq .total
        fab usage --homes
    """
    from slurmfab.commands.usage import showing

    options = showing.UsageOptions(since, until, names([by]), csv, number(idle_minutes, "--idle-minutes") or 0, homes)
    return showing.show(common.cluster, options, common.output)
