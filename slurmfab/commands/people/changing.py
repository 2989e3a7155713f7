"""What add-user and remove-user have in common: the phases of a deployment that concern users, and no others."""

from __future__ import annotations

from collections.abc import Iterable

from slurmfab.core.engine import converge as deployment
from slurmfab.core.engine import file_writing, notices, planning, requests
from slurmfab.core.engine.report import Step
from slurmfab.core.engine.run import Run
from slurmfab.core.plan.plan import PHASES, Phase, make_plan
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Outcome

ON_HOSTS = ("people",)
AFTERWARDS = ("container users", "sudo", "accounts", "former people")
"""Names of phases; the second ones are planned from facts that are gathered after the first."""


def survey(run: Run, names: Iterable[str] = (*ON_HOSTS, *AFTERWARDS)) -> tuple[PlanInput, list[Step]]:
    """Gather facts, plan named phases and compare hosts with them; nothing is changed, silent hosts excluded.

    Raises IdConflict between hosts; DeployFailed if the controller does not answer.
    """
    plan_input = planning.exclude_unfit_hosts(run, requests.gather(run, run.remaining(run.hosts), may_prepare=False))
    return plan_input, deployment.compare_hosts(run, make_plan(plan_input, run.remaining(run.hosts), phases_of(names)))


def phases_of(names: Iterable[str]) -> list[Phase]:
    """The phases with these names, in the order of a deployment."""
    wanted = set(names)
    return [phase for phase in PHASES if phase.name in wanted]


def write(run: Run, text: str) -> None:
    """Write cluster file and lock; SlurmfabError, with nothing written, while another run changes the cluster."""
    requests.require_claim(run)
    file_writing.write(run, text)


def deploy_users(run: Run) -> PlanInput:
    """Deploy the users of the cluster file to the hosts, and then their sudo rules and accounts.

    Returns facts of the hosts afterwards, without hosts that failed. Raises SlurmfabError if a step failed on the
    controller, or another run changes the cluster.
    """
    for names in (ON_HOSTS, AFTERWARDS):
        plan_input, steps = survey(run, names)
        notices.tell_of_resources(run, steps)
        differing = {step.phase for step in steps if step.differs}
        deployment.converge(run, plan_input, phases_of(differing))
    plan_input, _ = survey(run, ())
    file_writing.save_lock(run)
    return plan_input


def failed(steps: Iterable[Step], kind: str) -> dict[str, Outcome]:
    """The failed outcomes of one kind of resource, by host."""
    return {
        step.host: outcome
        for step in steps
        for outcome in step.with_status("failed")
        if outcome.id.startswith(f"{kind}:")
    }
