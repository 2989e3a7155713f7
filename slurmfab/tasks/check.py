"""Tasks that ask whether a cluster works: check-cluster."""

from __future__ import annotations

from invoke.context import Context

from slurmfab.tasks.command import command
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
