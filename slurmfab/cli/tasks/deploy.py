"""Tasks that make hosts what the cluster file says: deploy, plan, add-node."""

from __future__ import annotations

from types import ModuleType

from slurmfab.base.exit_codes import DONE
from slurmfab.cli.tasks.command import command
from slurmfab.cli.tasks.options import ALL, CONTACT, Common, names

ONLY = "only these phases, and what they cannot be without, such as munge-key,slurm-conf; see phases"


@command(
    common=(*CONTACT, *ALL),
    only=ONLY,
    plan="carry out this saved plan, and nothing else",
    retry_failed="only the hosts that earlier runs left out",
    hosts="hostlist; first contact: the first host becomes the controller; later: only these hosts",
    wake="wake nodes that Slurm has powered down, and deploy to them, too",
    yes="on a terminal: do not ask before a first contact, and before daemons restart under jobs or jobs suffer",
)
def deploy(
    common: Common,
    *,
    allow: list[str],
    only: list[str],
    hosts: str = "",
    plan: str = "",
    drain_first: bool = False,
    move_ids: bool = False,
    prune: bool = False,
    retry_failed: bool = False,
    wake: bool = False,
    yes: bool = False,
) -> int:
    """Make the hosts what the cluster file says.

    What is right already is not touched. Without a cluster file, --hosts is the first contact, which writes it. With
    --only, phases that are left out are compared and told, and neither changed nor part of the exit code. Exit
    codes: 0 done, 1 failed, 2 wrong input, 3 done, but some hosts were left out; --retry-failed continues with those.

    Examples:
        fab deploy --hosts 'n1,n[2-5]' --user admin   # or --hosts @inventory.yml:cluster
        fab deploy
        fab deploy --only munge-key,slurm-conf
    """
    from slurmfab.core.engine import commands
    from slurmfab.core.impact.approvals import Approvals, DeployOptions

    approvals = Approvals(drain_first, frozenset(allow), move_ids, prune)
    options = DeployOptions(hosts, plan, retry_failed, approvals, yes, wake, chosen(only))
    carry_out = first_contact().deploy if commands.is_first_contact(common.cluster, options) else commands.deploy
    return with_checks(common, carry_out(common.cluster, options, common.contact, common.output))


def with_checks(common: Common, code: int) -> int:
    """The exit code; tells behind a run that is done what the last check had against the cluster, if that holds."""
    if code != DONE:
        return code
    from slurmfab.base.terminal import write
    from slurmfab.cluster.inventory import loading
    from slurmfab.commands.checks import kept

    if against := kept.still_against(loading.named_path(common.cluster)):
        write(f"{against}.", common.output.stream)
    return code


def chosen(only: list[str]) -> tuple[str, ...]:
    """The words of `--only`; one that is empty where the option names nothing, which does not mean all phases."""
    return names(only) or ("",) * bool(only)


def first_contact() -> ModuleType:
    """The module for hosts that no cluster file names yet; later runs do not load it."""
    from slurmfab.commands.nodes import bootstrap

    return bootstrap


@command(
    common=(*CONTACT, *ALL),
    only=ONLY,
    hosts="only these hosts; without a cluster file: show what a first contact would do with them",
    save="write the plan to this file, for deploy --plan",
)
def plan(
    common: Common,
    *,
    only: list[str],
    hosts: str = "",
    save: str = "",
    move_ids: bool = False,
    prune: bool = False,
) -> int:
    """Show what deploy would do, with diffs; changes nothing.

    Without a cluster file, --hosts shows what a first contact would write and do; nothing is written anywhere. Exit
    codes: 0 nothing to do, 1 failed, 2 wrong input, 3 some hosts could not be compared, 4 there is something to do.

    Examples:
        fab plan --hosts 'n[1-2]' --json -
        fab plan --only slurm-conf --save tonight.json
        fab plan --hosts 'n1,n[2-5]' --user admin
    """
    from slurmfab.core.engine import commands
    from slurmfab.core.impact.approvals import Approvals, DeployOptions

    approvals = Approvals(move_ids=move_ids, prune=prune)
    options = DeployOptions(hosts, approvals=approvals, only=chosen(only))
    carry_out = first_contact().preview if commands.is_first_contact(common.cluster, options) else commands.plan
    return carry_out(common.cluster, options, save, common.contact, common.output)


@command(common=("json",))
def phases(common: Common) -> None:
    """List the phases of a deployment in order, for --only.

    Each has a line on what it brings about. Further words mean several phases, or a part of one. Exit codes: 0 listed,
    2 wrong input.

    Examples:
        fab phases
        fab phases --json -
    """
    from slurmfab.core.engine import commands

    commands.show_phases(common.output)


@command(
    newcomers=True,
    hosts="hostlist of the new compute nodes",
    like="a compute node whose settings and partitions the new nodes get",
    partition="partition that gets the new nodes; several with commas, or by repeating the option",
    accept_new_host_keys="trust the new hosts' SSH host keys although they are not in known_hosts",
)
def add_node(
    common: Common,
    hosts: str,
    *,
    partition: list[str],
    allow: list[str],
    like: str = "",
    accept_new_host_keys: bool = False,
) -> int:
    """Add compute nodes to the cluster; running jobs go on.

    The new hosts are discovered and prepared before anything else is changed. Then they are added to the cluster file,
    whose comments and order stay; slurm.conf goes to all hosts, and the daemons are reconfigured or restarted, as the
    installed Slurm needs it. A new node stays drained until a test job has run on it. Exit codes: 0 done, 1 failed, or
    a new node did not run the test job, 2 wrong input, 3 done, but some hosts were left out.

    Examples:
        fab add-node 'n[6-9]'
        fab add-node 10.0.0.17 --like n1 --accept-new-host-keys
        fab add-node 'g[1-2]' --partition gpu,long
    """
    from slurmfab.commands.nodes import add
    from slurmfab.core.impact.approvals import Approvals

    options = add.AddNodeOptions(like, names(partition), Approvals(allowed=frozenset(allow)))
    return add.add_node(common.cluster, hosts, options, accept_new_host_keys, common.output)
