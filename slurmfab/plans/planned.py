"""`fab deploy --plan`: a deployment that does what a saved plan shows, or refuses with the reasons."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from slurmfab import inventory, operations
from slurmfab.consent import Wish
from slurmfab.contact import Contact
from slurmfab.errors import InputError
from slurmfab.inventory import Inventory
from slurmfab.operations import Output
from slurmfab.plan import PHASES
from slurmfab.plans import changed_since, saved_plan
from slurmfab.plans.saved_plan import PlanOutdated, SavedPlan
from slurmfab.report import Step
from slurmfab.run import Run

PREPARING = frozenset(phase.name for phase in PHASES if phase.prepares)
"""The phases that other phases are planned on."""


class Keeper:
    """What stands between a saved plan and the hosts: each survey has to show what the plan shows.

    The lock is written only once the first one does, so that a refused deployment leaves no trace.

    Args:
        plan: the saved plan.
        run: the deployment.
    """

    def __init__(self, plan: SavedPlan, run: Run) -> None:
        self.plan = plan
        self.run = run
        self.is_allowed = False
        self.held: Inventory | None = None

    def keep(self, known: Inventory) -> None:
        """Write the lock, or hold it back while the plan has not been found true."""
        if self.is_allowed:
            operations.keep_lock(known)
        else:
            self.held = known

    def guard(self, steps: Sequence[Step]) -> None:
        """Let the run go on if the hosts are as the plan shows.

        Once the run has been through its preparing phases, less may be left to do, and nothing more.

        Args:
            steps: all outcomes of a survey.

        Raises:
            PlanOutdated: they are not.
        """
        lost = {host: error.reason for host, error in self.run.lost.items()}
        is_prepared = any(step.phase in PREPARING for step in self.run.steps)
        lines = (
            changed_since.reasons_after_preparing(self.plan, steps)
            if is_prepared
            else changed_since.reasons_on_hosts(self.plan, steps, lost)
        )
        if lines:
            raise PlanOutdated(changed_since.refusal(self.plan, lines, is_prepared=is_prepared))
        self.is_allowed = True
        if self.held is not None:
            self.keep(self.held)
            self.held = None


def run_of(cluster: str, wish: Wish, contact: Contact, output: Output) -> Run | None:
    """The deployment of a saved plan, not begun yet; `None` for a plan with nothing in it, when that has been said.

    Args:
        cluster: the cluster file's path; empty for the one that the plan was made from.
        wish: names the plan.
        contact: has to be empty; the cluster is known.
        output: what to tell.

    Raises:
        InputError: there is no such plan, it is another cluster's, or other options contradict it.
        PlanOutdated: the cluster file or the lock has changed since.
    """
    refuse_other_options(wish, contact)
    plan = saved_plan.load(Path(wish.plan_file))
    known = inventory.load(Path(cluster or plan.cluster_file))
    refuse_other_plan(plan, known, wish)
    lines = changed_since.reasons_in_files(plan, known.path)
    if lines:
        raise PlanOutdated(changed_since.refusal(plan, lines, is_prepared=False))
    consent = replace(wish.consent, move_ids=plan.move_ids, prune=plan.prune)
    run = operations.start(known, plan.hosts, output, command="deploy", consent=consent)
    if plan.is_empty:
        run.transport.close()
        operations.write_json(run.report(), output)
        words = f"{plan.cluster}: there is nothing to do in {wish.plan_file}."
        print(words, file=sys.stderr if output.json == "-" else sys.stdout)
        return None
    run.digest_key, run.installs_python = plan.digest_key, False
    keeper = Keeper(plan, run)
    run.guard, run.keep = keeper.guard, keeper.keep
    return run


def refuse_other_options(wish: Wish, contact: Contact) -> None:
    """Refuse options that would make another deployment of it than the plan shows.

    Raises:
        InputError: one was given.
    """
    given = {
        "--hosts": bool(wish.hosts),
        "--retry-failed": wish.retry_failed,
        "the options of a first contact": contact != Contact(),
    }
    names = [name for name, is_given in given.items() if is_given]
    if names:
        raise InputError(f"--plan does what the plan shows, on its hosts; leave out {' and '.join(names)}.")


def refuse_other_plan(plan: SavedPlan, known: Inventory, wish: Wish) -> None:
    """Refuse a plan that is of another cluster, or was made on other terms.

    Raises:
        InputError: it is.
    """
    if plan.cluster != known.cluster.name:
        described = f"{known.path} describes {known.cluster.name}"
        raise InputError(f"{wish.plan_file} is a plan of the cluster {plan.cluster}, and {described}.")
    if wish.consent.move_ids and not plan.move_ids:
        raise InputError(
            f"{wish.plan_file} was made without --move-ids and shows no move. Make it again: "
            f"fab plan --move-ids --save {wish.plan_file}"
        )
    if wish.consent.prune and not plan.prune:
        raise InputError(
            f"{wish.plan_file} was made without --prune and removes nothing. Make it again: "
            f"fab plan --prune --save {wish.plan_file}"
        )
