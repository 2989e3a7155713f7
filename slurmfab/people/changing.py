"""What add-user and remove-user have in common: the parts of a deployment that people are, and no others."""

from __future__ import annotations

from collections.abc import Iterable

from slurmfab import asking, inventory, operations
from slurmfab import deploy as deployment
from slurmfab import lock as locks
from slurmfab.agent.resource import Outcome
from slurmfab.clusterfile import writing
from slurmfab.plan import PHASES, Phase, make_plan
from slurmfab.report import Step
from slurmfab.run import Run
from slurmfab.situation import Situation

ON_HOSTS = ("people",)
AFTERWARDS = ("sudo", "accounts", "former people")
"""Names of phases; the second are planned on what hosts say after the first."""


def survey(run: Run, names: Iterable[str] = (*ON_HOSTS, *AFTERWARDS)) -> tuple[Situation, list[Step]]:
    """Ask the hosts and compare these phases; nothing is written.

    Raises:
        IdConflict: the hosts' UIDs and GIDs do not go together.
        DeployFailed: the controller does not answer.
    """
    situation = deployment.situate(run, asking.gather(run, run.well(run.hosts), may_prepare=False))
    return situation, deployment.look_at(run, make_plan(situation, run.well(run.hosts), phases_of(names)))


def phases_of(names: Iterable[str]) -> list[Phase]:
    """The phases of these names, in the order of a deployment."""
    wanted = set(names)
    return [phase for phase in PHASES if phase.name in wanted]


def write(run: Run, text: str) -> None:
    """Write the cluster file and the lock, once nobody else is at work on the cluster.

    Raises:
        SlurmfabError: somebody is; the files are as before.
    """
    asking.require_claim(run)
    locks.save(run.inventory.lock, inventory.lock_path(run.inventory.path))
    writing.write(run.inventory.path, text)


def settle(run: Run) -> Situation:
    """Bring people on the hosts to what the cluster file says, then the rest of what it says of them.

    Returns:
        What the hosts that are well say afterwards.

    Raises:
        SlurmfabError: something failed on the controller, or another run is at work.
    """
    for names in (ON_HOSTS, AFTERWARDS):
        situation, steps = survey(run, names)
        differing = {step.phase for step in steps if step.differs}
        deployment.converge(run, situation, phases_of(differing))
    situation, _ = survey(run, ())
    operations.keep_lock(run.inventory)
    return situation


def failed(steps: Iterable[Step], kind: str) -> dict[str, Outcome]:
    """The outcomes of one kind that have failed, by host."""
    return {
        step.host: outcome
        for step in steps
        for outcome in step.with_status("failed")
        if outcome.id.startswith(f"{kind}:")
    }
