"""Tasks for nodes that come and go, and for a look at how they are."""

from __future__ import annotations

from invoke.context import Context

from slurmfab.tasks.command import command, number
from slurmfab.tasks.deploy import COMMON, CONSENT

LOOK = {"cluster": COMMON["cluster"], "ask_sudo_password": COMMON["ask_sudo_password"]}


@command(
    positional=["hosts"],
    help={
        **COMMON,
        "hosts": "hostlist of compute nodes",
        "reason": "why, for those who find the nodes drained",
        "wait": "wait until no job runs there",
        "timeout": "wait at most this many minutes (default: as long as it takes)",
    },
)
def drain(  # noqa: PLR0917 - each argument is an option of the command line
    _c: Context,
    hosts: str,
    reason: str = "",
    wait: bool = False,
    timeout: str = "",
    cluster: str = "",
    verbose: bool = False,
    json: str = "",
    ask_sudo_password: bool = False,
) -> int:
    """Give compute nodes no new jobs; what runs there goes on.

    Slurm keeps the reason with who asked and when. A node that somebody else has drained keeps the reason that it has.
    Exit codes: 0 done, 1 failed, or jobs still run after the time to wait, 2 wrong input.

    Examples:
        fab drain n3 --reason "new disks"
        fab drain n[1-4] --reason "kernel update" --wait --timeout 120
    """
    from slurmfab import operations  # noqa: PLC0415 - `fab --list` shall not pay for it
    from slurmfab.nodes import draining  # noqa: PLC0415 - `fab --list` shall not pay for it

    output = operations.Output(verbose=verbose, json=json, ask_password=ask_sudo_password)
    minutes = number(timeout, "--timeout")
    return draining.drain(cluster, hosts, reason, (minutes or 0) if wait or minutes is not None else None, output)


@command(
    positional=["hosts"],
    help={**COMMON, "hosts": "hostlist of compute nodes", "any": "resume also what somebody drained without slurmfab"},
)
def resume(  # noqa: PLR0917 - each argument is an option of the command line
    _c: Context,
    hosts: str,
    any: bool = False,
    cluster: str = "",
    verbose: bool = False,
    json: str = "",
    ask_sudo_password: bool = False,
) -> int:
    """Give compute nodes jobs again; cure stuck ones.

    What slurmfab has drained and what Slurm itself has given up is looked at: why it is out of service is told, what a
    deployment to the host repairs is repaired, and the node is resumed and seen to be in service. Exit codes: 0 every
    node is in service, 1 one is not, 2 wrong input, 3 none but hosts that could not be reached.

    Examples:
        fab resume n3
        fab resume n[1-4] --any
    """
    from slurmfab import operations  # noqa: PLC0415 - `fab --list` shall not pay for it
    from slurmfab.nodes import resuming  # noqa: PLC0415 - `fab --list` shall not pay for it

    output = operations.Output(verbose=verbose, json=json, ask_password=ask_sudo_password)
    return resuming.resume(cluster, hosts, any, output)


@command(
    positional=["hosts"],
    help={
        **COMMON,
        "hosts": "hostlist of compute nodes",
        "timeout": "wait at most this many minutes (default: as long as jobs take)",
        "now": "cancel the jobs that run there; they are named first",
        "purge": "remove the packages as well",
        "allow_empty_partition": "a partition may be left without nodes",
    },
)
def remove_node(  # noqa: PLR0917 - each argument is an option of the command line
    _c: Context,
    hosts: str,
    timeout: str = "",
    now: bool = False,
    purge: bool = False,
    allow_empty_partition: bool = False,
    cluster: str = "",
    verbose: bool = False,
    json: str = "",
    ask_sudo_password: bool = False,
) -> int:
    """Take compute nodes out, after their jobs.

    The nodes are drained, and when their jobs have ended they go out of Slurm's files on all hosts and out of the
    cluster file, with its comments and order kept. On the nodes themselves the daemons are stopped, and the munge key
    and SSH keys removed. Exit codes: 0 done, 1 failed, or jobs still run after the time to wait, 2 wrong input, 3 out
    of the cluster, but not reached to be cleaned.

    Examples:
        fab remove-node n[6-9]
        fab remove-node n3 --timeout 120
        fab remove-node n3 --now --purge
    """
    from slurmfab import operations  # noqa: PLC0415 - `fab --list` shall not pay for it
    from slurmfab.nodes import removal  # noqa: PLC0415 - `fab --list` shall not pay for it

    output = operations.Output(verbose=verbose, json=json, ask_password=ask_sudo_password)
    leave = removal.Leave(number(timeout, "--timeout"), now, purge, allow_empty_partition)
    return removal.remove_node(cluster, hosts, leave, output)


@command(
    positional=["host"],
    iterable=["allow"],
    help={
        **COMMON,
        "host": "the compute node that is another machine now, or a new system",
        "address": "its new IP address (default: the old one)",
        "accept_new_host_keys": "believe its new SSH host key, which is shown without this",
        "accept_hardware": "take it although it is other hardware than the lock holds",
        "allow": CONSENT["allow"],
    },
)
def replace_node(  # noqa: PLR0917 - each argument is an option of the command line
    _c: Context,
    host: str,
    allow: list[str],
    address: str = "",
    accept_new_host_keys: bool = False,
    accept_hardware: bool = False,
    cluster: str = "",
    verbose: bool = False,
    json: str = "",
    ask_sudo_password: bool = False,
) -> int:
    """Put a reinstalled or new machine in a node's place.

    Its SSH host key and its hardware are compared with the lock's; differences are shown, and refused unless accepted.
    The node is kept drained while the machine gets its users, keys, packages and files, and is given jobs again when
    one has run there. A node on which jobs still run is refused.

    Examples:
        fab replace-node n3 --accept-new-host-keys
        fab replace-node n3 --address 10.0.0.33 --accept-new-host-keys --accept-hardware
    """
    from slurmfab import operations  # noqa: PLC0415 - `fab --list` shall not pay for it
    from slurmfab.consent import Consent  # noqa: PLC0415 - `fab --list` shall not pay for it
    from slurmfab.nodes import replacement  # noqa: PLC0415 - `fab --list` shall not pay for it

    output = operations.Output(verbose=verbose, json=json, ask_password=ask_sudo_password)
    consent = Consent(allowed=frozenset(allow))
    swap = replacement.Swap(address, accept_new_host_keys, accept_hardware, consent)
    return replacement.replace_node(cluster, host, swap, output)


@command(
    help={**LOOK, "user": "list this user's jobs", "json": "write it as JSON to this file (- for standard output)"}
)
def status(_c: Context, user: str = "", cluster: str = "", json: str = "", ask_sudo_password: bool = False) -> int:
    """Show nodes, GPUs, CPUs and jobs on one screen.

    One question to the controller, however large the cluster. Exit codes: 0 told, 1 Slurm does not answer,
    2 wrong input.

    Examples:
        fab status
        fab status --user ann
        fab status --json -
    """
    from slurmfab import operations  # noqa: PLC0415 - `fab --list` shall not pay for it
    from slurmfab.status import show  # noqa: PLC0415

    return show.show(cluster, user, operations.Output(json=json, ask_password=ask_sudo_password))


@command(
    positional=["hosts"],
    help={
        **COMMON,
        "hosts": "hostlist of compute nodes",
        "at_once": "how many at a time (default: 1)",
        "reason": "why, for those who look at the nodes meanwhile",
        "timeout": "minutes that a node may be away, jobs not counted (default: 20)",
    },
)
def reboot(  # noqa: PLR0917 - each argument is an option of the command line
    _c: Context,
    hosts: str,
    at_once: str = "1",
    reason: str = "",
    timeout: str = "20",
    cluster: str = "",
    verbose: bool = False,
    json: str = "",
    ask_sudo_password: bool = False,
) -> int:
    """Restart compute nodes through Slurm, a few at a time.

    Jobs that run there end first, and new ones wait. A node counts as back when its machine has really been restarted,
    and Slurm has it in service; only then the next begins. After one that does not come back, no other is begun. Exit
    codes: 0 all are back, 1 one is not, 2 wrong input, as a node that somebody has drained, 3 one cannot be reached.

    Examples:
        fab reboot n3
        fab reboot n[1-16] --at-once 4 --reason "new kernel"
    """
    from slurmfab import operations  # noqa: PLC0415 - `fab --list` shall not pay for it
    from slurmfab.nodes import reboot  # noqa: PLC0415 - `fab --list` shall not pay for it

    output = operations.Output(verbose=verbose, json=json, ask_password=ask_sudo_password)
    wish = reboot.Wish(reason or "reboot", number(at_once, "--at-once") or 0, number(timeout, "--timeout") or 0)
    return reboot.reboot(cluster, hosts, wish, output)
