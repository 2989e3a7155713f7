"""Tasks that show a cluster to people: report."""

from __future__ import annotations

from slurmfab.cli.tasks.command import command
from slurmfab.cli.tasks.options import Common


@command(
    common=("cluster", "verbose", "ask_sudo_password"),
    help={
        "output": "the file to write (default: CLUSTER-report.html in the current directory)",
        "check": "check the cluster first, as check-cluster does; otherwise the page shows the last check",
        "verbose": "with --check: show failures host by host",
    },
)
def report(common: Common, *, output: str = "", check: bool = False) -> int:
    """Write one HTML page about the cluster.

    The page needs no network and no server: nodes with their states and hardware, the last check, drift and history.
    Nothing is changed. Only you can read the file. Exit codes: 0 written, 1 failed, 2 wrong input, 3 written, but some
    hosts or Slurm did not answer, which the page says.

    Examples:
        fab report
        fab report --check --output monday.html
    """
    from slurmfab.commands.report import writing

    return writing.report(common.cluster, output, common.output, with_checks=check)
