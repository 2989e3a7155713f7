"""`fab resume`: diagnoses compute nodes that are out of service, repairs what is safe to repair, and resumes them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

from slurmfab.base.errors import HostError, SlurmfabError
from slurmfab.base.grouping import grouped
from slurmfab.base.hostlist import fold
from slurmfab.cluster.inventory import loading
from slurmfab.commands.nodes import diagnosis
from slurmfab.commands.nodes.diagnosis import Diagnosis, Evidence, Leftovers
from slurmfab.commands.nodes.drain import compute_nodes, format_reason, refuse_unknown
from slurmfab.core.engine import converge as deployment
from slurmfab.core.engine import requests, session
from slurmfab.core.engine.job_waiting import jobs_by_node, nodes_and_jobs
from slurmfab.core.engine.report import Step
from slurmfab.core.engine.run import Run, RunOptions
from slurmfab.core.plan.phases import daemons
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.status.snapshot import Snapshot
from slurmfab.hosts.fan_out import on_each
from slurmfab.hosts.session import answer_value
from slurmfab.on_hosts.agent.nodes.resume import NodeResume
from slurmfab.on_hosts.agent.nodes.states import NodeState

WAIT_SECONDS = 60.0
"""How long a node may take to get into service; a slurmd that found no controller tries again within half of it."""


@dataclass(frozen=True)
class Survey:
    """What is known about the nodes of a run."""

    plan_input: PlanInput
    steps: tuple[Step, ...]  # the comparison of their hosts with the plan
    seen: Snapshot  # Slurm before the change


def resume(cluster: str, hosts: str, any_reason: bool, output: session.Output) -> int:
    """Put compute nodes back into service, with `any_reason` also those drained by others; 0 if all are.

    Raises InputError for other hosts; SlurmfabError if the controller is silent, or the repair cannot begin.
    """
    known = loading.load_named(cluster)
    names = compute_nodes(known, hosts)
    run = session.start(known, hosts, output, RunOptions("resume"))
    return session.perform(run, output, lambda run: resume_nodes(run, names, any_reason))


def resume_nodes(run: Run, names: tuple[str, ...], any_reason: bool) -> None:
    """Diagnose, repair and resume nodes; nodes that stay out of service are excluded from the run.

    `any_reason`: whether to resume nodes that were drained by others than slurmfab, too. Raises SlurmfabError if the
    controller does not answer, or the repair cannot begin.
    """
    seen = nodes_and_jobs(run)
    refuse_unknown(run.controller, seen, names)
    unchanged = [name for name in names if stays(seen.by_name[name].state, any_reason)]
    # Nodes in service are examined too: slurmctld notices only after minutes that a slurmd does not answer.
    examined = tuple(name for name in names if name not in unchanged)
    if examined:
        with run.limited_to(examined):
            repair(run, seen, any_reason)
    for name in unchanged:
        exclude_unchanged(run, name, seen)


def stays(state: NodeState, any_reason: bool) -> bool:
    """Whether a node is not resumed: a user took it out of service, or Slurm will put it into service itself."""
    return state.is_under_way or (state.is_set_by_person and not any_reason)


def exclude_unchanged(run: Run, name: str, seen: Snapshot) -> None:
    """Exclude a node that is not resumed from the run, with the reason."""
    state = seen.by_name[name].state
    if state.is_under_way:
        run.exclude(
            name, HostError(name, f"{state.description}. Wait until this is over; Slurm then puts it into service.")
        )
        return
    reason = f"{state.description}{format_reason(state)}. slurmfab did not drain it; to resume it anyway, add --any."
    run.exclude(name, HostError(name, reason))


def repair(run: Run, seen: Snapshot, any_reason: bool) -> None:
    """Diagnose, repair and resume the nodes of a run."""
    plan_input, steps = deployment.survey(run, may_prepare=True)
    survey = Survey(plan_input, tuple(steps), seen)
    diagnoses = diagnose(run, survey)
    run.progress.end()
    for line in diagnosis.format_diagnoses({one.node: one.text for one in diagnoses if one.text}):
        run.progress.line(line)
    if any(step.differs for step in steps):
        deployment.deploy(run)
        diagnoses = diagnose(run, replace(survey, steps=()))  # what it has repaired is in the way no more
    for one in diagnoses:
        if one.blocking and one.node not in run.failed_hosts:
            run.exclude(one.node, HostError(one.node, f"not resumed: {'; '.join(one.blocking)}."))
    back = run.remaining(run.hosts)
    if back:
        resume_repaired(run, back, any_reason)
    take_back(run, plan_input)


def diagnose(run: Run, survey: Survey) -> list[Diagnosis]:
    """The diagnoses of the nodes whose hosts answer."""
    found, jobs = leftovers(run), jobs_by_node(survey.seen)
    steps = grouped((step.host, step) for step in survey.steps)
    return [
        diagnosis.diagnose(
            Evidence(
                node=survey.seen.by_name[name],
                pinned=survey.plan_input.host(name),
                facts=survey.plan_input.facts[name],
                steps=tuple(steps.get(name, ())),
                jobs=jobs.get(name, ()),
                leftovers=found.get(name, Leftovers()),
                roles=survey.plan_input.cluster.roles(name),
            )
        )
        for name in run.remaining(run.hosts)
    ]


def leftovers(run: Run) -> dict[str, Leftovers]:
    """What jobs left running on each host, and what its health check finds; hosts that do not answer are excluded."""

    def ask(host: str) -> Leftovers:
        processes = answer_value(host, run.transport.call(host, {"op": "job-processes"}), "job_processes")
        health = answer_value(host, run.transport.call(host, {"op": "node-health"}), "node_health")
        return Leftovers(tuple(processes["steps"]), tuple(processes["hung"]), tuple(health["causes"]))

    found = {}
    for host, answer in on_each(run.remaining(run.hosts), ask):
        if isinstance(answer, SlurmfabError):
            run.exclude(host, answer)
        else:
            found[host] = answer
    return found


def resume_repaired(run: Run, names: Iterable[str], any_reason: bool) -> None:
    """Resume nodes and wait until they are in service; nodes that are not are excluded from the run."""
    wanted = tuple(names)
    run.progress.begin("resuming", wanted)
    begun = time.monotonic()
    outcomes = requests.request_apply(
        run, run.controller, [NodeResume(wanted, any_reason, WAIT_SECONDS)], dry_run=False
    )
    step = Step("resume", run.controller, tuple(outcomes), time.monotonic() - begun)
    after = nodes_and_jobs(run)
    still = [name for name in wanted if not after.by_name[name].state.is_in_service]
    if step.differs and not step.has_failed:
        run.record_steps(step)
        run.progress.host_done(run.controller, step)
    back = [name for name in wanted if name not in still]
    if back:
        run.progress.line(f"{fold(back)}: in service.")
    for name in still:
        run.exclude(name, HostError(name, still_out(name, after)))


def take_back(run: Run, plan_input: PlanInput) -> None:
    """Put the jobs back into the queue that Slurm calls running on these nodes and of which nothing runs there."""
    wanted = daemons.lost_jobs(plan_input, plan_input.cluster.controller)
    if wanted:
        outcomes = requests.request_apply(run, run.controller, list(wanted), dry_run=False)
        step = Step("lost jobs", run.controller, tuple(outcomes))
        if step.differs:
            run.record_steps(step)
            run.progress.host_done(run.controller, step)
            for line in dict.fromkeys(f"{one.name}: {one.wanted}." for done in outcomes for one in done.changes):
                run.progress.line(line)


def still_out(name: str, seen: Snapshot) -> str:
    """Why a resumed node is not in service, and what to try."""
    state = seen.by_name[name].state
    problem = f"still {state.description}{format_reason(state) if state.reason else ''} after {WAIT_SECONDS:.0f} s"
    if not state.answers:
        return f"{problem}. See slurmd.log there, slurmctld.log on the controller, and any firewall between them."
    return f"{problem}. The reason is in slurmctld.log on the controller."
