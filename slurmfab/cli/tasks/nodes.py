"""Tasks for compute nodes: drain, resume, remove-node, replace-node, reboot, and status."""

from __future__ import annotations

from slurmfab.cli.tasks.command import command
from slurmfab.cli.tasks.options import Common, number

HOSTS = "hostlist of compute nodes"


@command(
    hosts=HOSTS,
    reason="why the nodes are drained, for everybody who looks at them",
    wait="wait until no job runs there",
    timeout="wait at most this many minutes (default: no limit)",
)
def drain(common: Common, hosts: str, *, reason: str = "", wait: bool = False, timeout: str = "") -> int:
    """Drain compute nodes: no new jobs; running jobs go on.

    Slurm keeps the reason, with your name and the time. A node that another user has drained keeps its reason.
    Exit codes: 0 done, 1 failed, or jobs still run after the timeout, 2 wrong input.

    Examples:
        fab drain n3 --reason "new disks"
        fab drain 'n[1-4]' --reason "kernel update" --wait --timeout 120
    """
    from slurmfab.commands.nodes import drain as draining

    minutes = number(timeout, "--timeout")
    limit = (minutes or 0) if wait or minutes is not None else None
    return draining.drain(common.cluster, hosts, reason, limit, common.output)


@command(hosts=HOSTS, any="resume also nodes that somebody drained without slurmfab")
def resume(common: Common, hosts: str, *, any: bool = False) -> int:
    """Return compute nodes to service; repair stuck ones.

    This is for nodes that slurmfab drained and nodes that Slurm set to down. The task shows why a node is out of
    service, repairs what a deployment to that host repairs, resumes the node, and verifies that it is in service. Exit
    codes: 0 every node is in service, 1 one is not, 2 wrong input, 3 only unreachable hosts are not in service.

    Examples:
        fab resume n3
        fab resume 'n[1-4]' --any
    """
    from slurmfab.commands.nodes import resume as resuming

    return resuming.resume(common.cluster, hosts, any, common.output)


@command(
    hosts=HOSTS,
    timeout="wait at most this many minutes for jobs to end (default: no limit)",
    now="cancel the jobs that run there; they are listed first",
    purge="uninstall the packages as well",
    abandon="do not contact the nodes, which are lost or not to be trusted",
    allow_empty_partition="a partition may be left without nodes",
)
def remove_node(
    common: Common,
    hosts: str,
    *,
    timeout: str = "",
    now: bool = False,
    purge: bool = False,
    abandon: bool = False,
    allow_empty_partition: bool = False,
    yes: bool = False,
) -> int:
    """Remove compute nodes, after their jobs have ended.

    The nodes are drained. When their jobs have ended, the nodes are removed from Slurm's files on all hosts and from
    the cluster file, whose comments and order stay. On the nodes themselves the daemons are stopped, and the munge key
    and SSH keys removed. Exit codes: 0 done, 1 failed, or jobs still run after the timeout, 2 wrong input, 3 removed
    from the cluster, but not reached for cleaning.

    Examples:
        fab remove-node 'n[6-9]'
        fab remove-node n3 --timeout 120
        fab remove-node n3 --now --purge
        fab remove-node n3 --now --abandon
    """
    from slurmfab.commands.nodes import remove

    options = remove.RemoveNodeOptions(number(timeout, "--timeout"), now, purge, abandon, allow_empty_partition, yes)
    return remove.remove_node(common.cluster, hosts, options, common.output)


@command(hosts=HOSTS)
def accept_hardware(common: Common, hosts: str, *, allow: list[str], yes: bool = False) -> int:
    """Accept the hardware that nodes have now.

    slurm.conf and the lock get the hardware that the nodes have now. All of that is judged before anything is changed.
    Then nodes without jobs are drained, and resumed when a test job has run on each; a node that somebody drained stays
    drained. Nodes whose jobs would not survive the change are named and left as they are. Exit
    codes: 0 done, 1 failed, or a test job did not run, 2 wrong input, 3 done, but some nodes were left out.

    Examples:
        fab accept-hardware n3
        fab accept-hardware 'n[1-50]'
    """
    from slurmfab.commands.nodes import accept_hardware as accepting
    from slurmfab.core.impact.approvals import Approvals

    approvals = Approvals(allowed=frozenset(allow))
    return accepting.accept_hardware(common.cluster, hosts, approvals, asks=not yes, output=common.output)


@command(
    host="the compute node that is a new machine, or has a new system",
    address="its new IP address (default: the old one)",
    accept_new_host_keys="trust its new SSH host key; without this option the key is only shown",
    accept_hardware="accept hardware that differs from the lock's",
)
def replace_node(
    common: Common,
    host: str,
    *,
    allow: list[str],
    address: str = "",
    accept_new_host_keys: bool = False,
    accept_hardware: bool = False,
    yes: bool = False,
) -> int:
    """Put a reinstalled or new machine in a node's place.

    Its SSH host key and its hardware are compared with the lock's; differences are shown, and refused unless you accept
    them. The node stays drained while the machine gets its users, keys, packages and files, and is resumed when a test
    job has run on it. The task refuses a node on which jobs still run. Exit codes: 0 done, 1 failed, or the test job
    did not run, 2 wrong input, also where differences are not accepted, 3 done, but some hosts were left out.

    Examples:
        fab replace-node n3 --accept-new-host-keys
        fab replace-node n3 --address 10.0.0.33 --accept-new-host-keys --accept-hardware
    """
    from slurmfab.commands.nodes import replace
    from slurmfab.core.impact.approvals import Approvals

    options = replace.ReplaceNodeOptions(
        address, accept_new_host_keys, accept_hardware, Approvals(allowed=frozenset(allow)), yes
    )
    return replace.replace_node(common.cluster, host, options, common.output)


@command(common=("cluster", "json", "ask_sudo_password"), user="list this user's jobs")
def status(common: Common, *, user: str = "") -> int:
    """Show nodes, GPUs, CPUs and jobs on one screen.

    This asks the controller once, whatever the size of the cluster. Exit codes: 0 shown, 1 Slurm does not answer,
    2 wrong input.

    Examples:
        fab status
        fab status --user ann
        fab status --json -
    """
    from slurmfab.commands.nodes import status as node_status

    return node_status.show(common.cluster, user, common.output)


@command(
    hosts=HOSTS,
    at_once="how many nodes at a time (default: 1)",
    reason="why the nodes are rebooted, for everybody who looks at them meanwhile",
    timeout="minutes that a node may be away after its jobs have ended (default: 20)",
)
def reboot(common: Common, hosts: str, *, at_once: str = "1", reason: str = "", timeout: str = "20") -> int:
    """Reboot compute nodes through Slurm, a few at a time.

    Running jobs end first; new jobs wait. A node counts as back when its machine has rebooted and Slurm has it in
    service; only then does the next one begin. After a node that does not come back, no other is rebooted. Exit codes:
    0 all are back, 1 one is not, 2 wrong input, for example a node that somebody has drained, 3 one cannot be reached.

    Examples:
        fab reboot n3
        fab reboot 'n[1-16]' --at-once 4 --reason "new kernel"
    """
    from slurmfab.commands.nodes import reboot as rebooting

    minutes, count = number(timeout, "--timeout") or 0, number(at_once, "--at-once") or 0
    options = rebooting.RebootOptions(reason or "reboot", count, minutes)
    return rebooting.reboot(common.cluster, hosts, options, common.output)
