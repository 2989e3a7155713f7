"""`fab update`: asks the hosts what there is to update, shows it, and brings them up to date."""

from __future__ import annotations

from dataclasses import dataclass

from slurmfab.base.errors import SlurmfabError, Unreachable
from slurmfab.base.hostlist import fold
from slurmfab.base.terminal import write
from slurmfab.cluster.inventory import loading
from slurmfab.commands.nodes.batches import batch_size
from slurmfab.commands.update.host_updates import ask_hosts
from slurmfab.commands.update.plan import UpdatePlan, plan_text
from slurmfab.commands.update.rolling import Rolling, left_drained, roll
from slurmfab.core.engine import session
from slurmfab.core.engine.requests import require_claim
from slurmfab.core.engine.run import Run, RunOptions
from slurmfab.core.status import snapshot


@dataclass(frozen=True)
class UpdateOptions:
    """The options of `fab update`."""

    hosts: str = ""  # hostlist; empty for all hosts
    only_security: bool = False  # whether only security fixes are installed
    reboots: bool = False  # whether compute nodes that need a reboot get one
    plan: bool = False  # whether only the plan is shown
    at_once: str = "10%"  # how many hosts at a time, as a number or as a percentage of the compute nodes
    wait_minutes: int = 0  # how long the nodes of a batch may keep their jobs; 0 for no limit
    reboot_minutes: int = 20  # how long a reboot may take
    yes: bool = False  # whether to begin without a question


def update(cluster: str, options: UpdateOptions, output: session.Output) -> int:
    """Show what to update, and do it if agreed; InputError for wrong options, SlurmfabError if it stops."""
    known = loading.load_named(cluster)
    run = session.start(known, options.hosts, output, RunOptions("update", asks=not options.yes))
    nodes = [host for host in run.hosts if host in known.cluster.compute_nodes]
    size = batch_size(options.at_once, len(nodes))
    if options.plan:
        return show_plan(run, options, output)
    rolling = Rolling(
        size, options.wait_minutes, options.reboot_minutes, only_security=options.only_security, reboots=options.reboots
    )
    return session.perform(run, output, lambda run: plan_and_roll(run, options, rolling, output))


def plan_and_roll(run: Run, options: UpdateOptions, rolling: Rolling, output: session.Output) -> None:
    """Fetch package lists, show the plan, ask, and carry it out; SlurmfabError if it stops, or is refused."""
    plan = make_plan(run, options, fetches=True)
    run.require_controller()
    write(plan_text(plan, verbose=output.verbose), output.stream)
    if not plan.due:
        return
    nodes = [host for host in plan.due if host in run.inventory.cluster.compute_nodes]
    drained = f"Compute nodes are drained first, {rolling.at_once} at a time." if nodes else ""
    run.confirm(drained, f"Update {fold(plan.due)} now?")
    require_claim(run)
    roll(run, plan, rolling)


def show_plan(run: Run, options: UpdateOptions, output: session.Output) -> int:
    """Show what there is to update, and change nothing. Returns the exit code: 4 if there is something to do."""
    with session.ending(run, tells=False):
        plan = make_plan(run, options, fetches=False)
    output.write_json(plan)
    write(plan_text(plan, verbose=output.verbose), output.stream)
    return plan.exit_code


def make_plan(run: Run, options: UpdateOptions, *, fetches: bool) -> UpdatePlan:
    """Ask the hosts what there is to update, and Slurm which nodes an interrupted update has left drained.

    Args:
        run: the run; hosts that do not answer are excluded from it.
        fetches: whether the hosts fetch their package lists first.
    """
    hosts = ask_hosts(run, run.hosts, only_security=options.only_security, fetches=fetches)
    lost = {host: error.reason for host, error in run.failed_hosts.items()}
    harmless = all(isinstance(error, Unreachable) for error in run.failed_hosts.values())
    drained = nodes_left_drained(run)
    return UpdatePlan(
        run.inventory.cluster.name, hosts, options.only_security, options.reboots, drained, lost, are_harmless=harmless
    )


def nodes_left_drained(run: Run) -> tuple[str, ...]:
    """The nodes of a run that an interrupted update has left drained; none if slurmctld does not answer."""
    new = [host for host, one in run.inventory.lock.hosts.items() if one.on_trial]
    try:
        seen = snapshot.ask_up(run.transport, run.controller, ("nodes",))
    except SlurmfabError:
        return ()
    return tuple(node for node in left_drained(seen, new) if node in run.hosts)
