"""`fab deploy --plan`: a deployment that does what a saved plan shows, or refuses and gives the reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from slurmfab.base.errors import InputError
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import write
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.connection_options import ConnectionOptions
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.core.engine import changed_since, file_writing, rehearsals, saved_plan, session
from slurmfab.core.engine.report import Step
from slurmfab.core.engine.run import Run, RunHooks, RunOptions
from slurmfab.core.engine.saved_plan import PlanOutdated, SavedPlan
from slurmfab.core.engine.session import Output
from slurmfab.core.impact.approvals import DeployOptions
from slurmfab.core.plan.plan import PHASES, choose

PREPARING = frozenset(phase.name for phase in PHASES if phase.prepares)
"""Names of the phases that prepare a host; the other phases are planned on the facts after them."""


class PlanVerifier:
    """Verifies that each survey of a deployment shows what the saved plan shows."""

    def __init__(self, plan: SavedPlan) -> None:
        self.plan = plan

    def check_survey(self, run: Run, steps: Sequence[Step]) -> None:
        """Refuse, by PlanOutdated, hosts that differ from the plan; after preparing phases less may be left to do."""
        lost = {host: error.reason for host, error in run.failed_hosts.items()}
        is_prepared = any(step.phase in PREPARING for step in run.steps)
        lines = (
            changed_since.reasons_after_preparing(self.plan, steps)
            if is_prepared
            else changed_since.reasons_on_hosts(self.plan, steps, lost)
        )
        if lines:
            raise PlanOutdated(changed_since.format_refusal(self.plan, lines, is_prepared=is_prepared))


def start_run(
    cluster: str, options: DeployOptions, connection_options: ConnectionOptions, output: Output
) -> Run | None:
    """Prepare the deployment of a saved plan; `None` for an empty plan, after that was printed.

    Raises InputError if it is missing, another cluster's, or contradicted; PlanOutdated if files have changed.
    """
    refuse_other_options(options, connection_options)
    plan = saved_plan.load(Path(options.plan_file))
    known = loading.load(Path(cluster or plan.cluster_file))
    refuse_other_plan(plan, known, options)
    lines = changed_since.reasons_in_files(plan, known.path)
    if lines:
        raise PlanOutdated(changed_since.format_refusal(plan, lines, is_prepared=False))
    approvals = replace(options.approvals, move_ids=plan.move_ids, prune=plan.prune)
    run_options = RunOptions(
        "deploy",
        approvals,
        digest_key=plan.digest_key,
        installs_python=False,
        asks=not options.yes,
        only=choose(plan.only) if plan.only else None,
    )
    verifier = PlanVerifier(plan)
    hooks = RunHooks(save_lock=file_writing.save_lock, check_survey=verifier.check_survey)
    run = session.start(known, plan.hosts, output, run_options, hooks=hooks)
    if told := rehearsals.sentence(known.path, run_options.command):
        run.progress.line(told)
    if plan.is_empty:
        run.transport.close()
        output.write_json(run.report())
        write(f"{plan.cluster}: there is nothing to do in {options.plan_file}.", output.stream)
        return None
    return run


def refuse_other_options(options: DeployOptions, connection_options: ConnectionOptions) -> None:
    """Refuse options that would change what the plan does. Raises InputError if one of them was given."""
    given = {
        "--hosts": bool(options.hosts),
        "--only": bool(options.only),
        "--retry-failed": options.retry_failed,
        "the options of a first contact": connection_options != ConnectionOptions(),
    }
    names = [name for name, is_given in given.items() if is_given]
    if names:
        raise InputError(f"--plan does what the plan shows on the hosts of the plan; leave out {' and '.join(names)}.")


def refuse_other_plan(plan: SavedPlan, known: Inventory, options: DeployOptions) -> None:
    """Refuse, by InputError, a plan of another cluster, and options that the plan was made without."""
    if plan.cluster != known.cluster.name:
        advice = f"{known.path} describes {known.cluster.name}. Leave out --cluster, or make a plan of that cluster."
        raise InputError(f"{options.plan_file} is a plan of the cluster {plan.cluster}, and {advice}")
    if options.approvals.move_ids and not plan.move_ids:
        raise InputError(
            f"{options.plan_file} was made without --move-ids and moves no IDs. Make it again: "
            f"{FAB} plan --move-ids --save {options.plan_file}"
        )
    if options.approvals.prune and not plan.prune:
        raise InputError(
            f"{options.plan_file} was made without --prune and removes nothing. Make it again: "
            f"{FAB} plan --prune --save {options.plan_file}"
        )
