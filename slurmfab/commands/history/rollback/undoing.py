"""`fab rollback`: puts hosts, the cluster file and the lock back into their state before a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from slurmfab.base.errors import ClusterFileError, HostFailed, SlurmfabError
from slurmfab.base.hostlist import fold
from slurmfab.base.paths import MUNGE_KEY
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import write
from slurmfab.cluster.inventory import loading, shared_files
from slurmfab.cluster.inventory import lock as locks
from slurmfab.cluster.inventory.edits import writing
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.history import listing
from slurmfab.commands.history.rollback import target as targets
from slurmfab.commands.history.rollback.plan_input import PHASES, RollbackInput
from slurmfab.commands.history.rollback.target import COMMAND, Target
from slurmfab.commands.history.rollback.undo_state import ask_undo_states
from slurmfab.core.engine import converge as deployment
from slurmfab.core.engine import file_writing, planning, record, session
from slurmfab.core.engine.job_safety import JobSafety
from slurmfab.core.engine.plan_text import overview, plan_text, slurm_part
from slurmfab.core.engine.record import Record
from slurmfab.core.engine.report import Step
from slurmfab.core.engine.requests import gather
from slurmfab.core.engine.run import Run, RunHooks, RunOptions
from slurmfab.core.engine.session import Output
from slurmfab.core.impact.approvals import NOTHING, Approvals
from slurmfab.core.impact.disruptive_changes import require_known
from slurmfab.core.plan.plan import make_plan
from slurmfab.on_hosts.agent.core.differences import difference


@dataclass(frozen=True)
class Undoing:
    """What a rollback knows before it contacts any host."""

    target: Target
    then: Inventory  # the cluster file and the lock after the rollback
    undone: Record  # the record of the run that is undone
    records: tuple[Record, ...]  # all records, oldest first


def rollback(cluster: str, word: str, output: Output, approvals: Approvals = NOTHING, *, dry_run: bool = False) -> int:
    """Put configuration and services of all hosts, the cluster file and the lock back into their state before a run.

    `word`: a run, or a unique beginning of its id; empty for the last that changed something. Returns 4 if a dry run
    finds something to do. Raises InputError if the run is none, or cannot be undone; nothing was changed.
    """
    require_known(approvals)
    undoing = prepare(loading.named_path(cluster), word)
    if word in ("", listing.LAST) and not dry_run:
        targets.refuse_unnamed(undoing.target)
    options = RunOptions(COMMAND, approvals, undoes=undoing.undone.run)
    run = session.start(undoing.then, "", output, options, hooks=RunHooks())  # the lock is put back at the end
    if dry_run:
        return show(run, undoing, output)
    return session.perform(run, output, lambda begun: carry_out(begun, undoing))


def prepare(path: Path, word: str) -> Undoing:
    """Find the run (`word`: see `rollback`) and its target; InputError if there is none, or it cannot be undone."""
    records, _ = record.load_all(path)
    undone = targets.latest(records) if word in ("", listing.LAST) else listing.find(records, word, path)
    target = targets.before(records, undone)
    present = current_inventory(path, records)
    then = targets.inventory_then(target, present)
    targets.refuse_other_machines(undone.run, present, then)
    return Undoing(target, then, undone, records)


def current_inventory(path: Path, records: Sequence[Record]) -> Inventory:
    """The cluster now, by the newest record's file if the cluster file is invalid; InputError if neither is read."""
    try:
        return loading.load(path)
    except ClusterFileError:
        text = next((one.cluster_file for one in reversed(records) if one.cluster_file is not None), None)
        if text is None:
            raise
        lock, files = locks.load(loading.lock_path(path)), shared_files.read(path)
        return Inventory(loading.parse(text, str(path)), lock, path, files)


def survey(run: Run, undoing: Undoing) -> tuple[RollbackInput, list[Step]]:
    """Gather facts and undo states, plan, and compare the hosts: three requests per host.

    Returns the plan input, and the comparison of each phase and host. Raises InputError if the undo store of a host
    does not have the state before the run any more.
    """
    facts = gather(run, run.remaining(run.hosts), may_prepare=False)
    undo_states = ask_undo_states(run, run.remaining(run.hosts), undoing.undone.run)
    targets.refuse_forgotten(undoing.undone.run, undo_states, undoing.records)
    for host in targets.without_undo_state(undo_states, undoing.undone.run, undoing.records):
        run.exclude(host, HostFailed(host, targets.NO_UNDO_STATE))
    answering = {host: fact for host, fact in facts.items() if host not in run.failed_hosts}
    plan_input = planning.exclude_unfit_hosts(run, answering, with_scripts=False)  # scripts come from the undo stores
    rollback_input = RollbackInput(
        plan_input.cluster,
        plan_input.lock,
        plan_input.facts,
        stamp=plan_input.stamp,
        undo_states=undo_states,
        was_deployed=undoing.target.was_deployed,
    )
    return rollback_input, deployment.compare_hosts(run, make_plan(rollback_input, run.remaining(run.hosts), PHASES))


def carry_out(run: Run, undoing: Undoing) -> None:
    """Roll back the hosts, with the same safety for running jobs as a deployment, and then the files here.

    Raises SlurmfabError if the controller failed, or the rollback is refused; the files here are unchanged.
    """
    print_runs(run, undoing)
    rollback_inputs: list[RollbackInput] = []
    deployment.with_job_safety(
        run, lambda job_safety: rollback_inputs.append(roll_back_hosts(run, undoing, job_safety))
    )
    (rollback_input,) = rollback_inputs
    if not rollback_input.restores_key and any(one.file(MUNGE_KEY) for one in rollback_input.undo_states.values()):
        run.progress.line(
            f"The munge key is not changed: the undo store of {run.controller} has no other key, because no run "
            "changed it there."
        )
    has_written = write_files(run, undoing)
    if not run.steps and not has_written and not run.failed_hosts:
        run.progress.line(
            "All is as it was before."
            if any(one.files or one.services for one in rollback_input.undo_states.values())
            else targets.nothing_to_undo(undoing.undone)
        )
    if run.failed_hosts:
        run.progress.line(f"To continue with {fold(run.failed_hosts)} later: {FAB} rollback {undoing.undone.run}")


def roll_back_hosts(run: Run, undoing: Undoing, job_safety: JobSafety) -> RollbackInput:
    """Converge the phases of a rollback from the first that differs on, once no job would be harmed."""
    rollback_input, steps = deployment.survey_until_safe(run, job_safety, lambda: survey(run, undoing))
    if differs(steps):
        for line in (*overview(steps), *slurm_part(run.job_impact.forecast)):
            run.progress.line(line)
        names = {step.phase for step in steps if step.differs}
        first = min(number for number, phase in enumerate(PHASES) if phase.name in names)
        deployment.converge(run, rollback_input, PHASES[first:])
    return rollback_input


def differs(steps: Sequence[Step]) -> bool:
    """Whether a host differs from its state before the run."""
    return any(step.differs for step in steps)


def print_runs(run: Run, undoing: Undoing) -> None:
    """Print which runs are undone, and the reason if the cluster file is not changed."""
    undone = [one for one in undoing.records if one.run >= undoing.undone.run and targets.changes_hosts(one)]
    later = len(undone) - 1
    others = f", which also undoes {later} later run{'s' if later > 1 else ''}" if later > 0 else ""
    run.progress.line(f"Going back to before {undoing.undone.run}{others}.")
    if undoing.target.why:
        run.progress.line(undoing.target.why)


def write_files(run: Run, undoing: Undoing) -> bool:
    """Write the earlier cluster file, which is told, and lock; a present file that no record has is saved beside."""
    target, path = undoing.target, run.inventory.path
    if target.cluster_file is None:
        return False
    text = loading.read_text(path)
    if text != target.cluster_file and text not in {one.cluster_file for one in undoing.records}:
        beside = path.with_name(f"{path.name}.before-{run.id}")
        writing.write(beside, text)
        run.progress.line(f"{path} had changes that were never deployed; they are in {beside}.")
    file_writing.write(run, target.cluster_file, undoing.then.lock)
    if text == target.cluster_file:
        return False
    run.progress.line(f"{path} is as it was before {target.undone}.")
    return True


def show(run: Run, undoing: Undoing, output: Output) -> int:
    """Show what a rollback would do; returns the report's exit code, or 4 if there is something to do."""
    try:
        print_runs(run, undoing)
        rollback_input, steps = survey(run, undoing)
        run.record_steps(*steps)
        JobSafety(run).assess(rollback_input, steps)
    except SlurmfabError:
        session.print_failures(run)
        raise
    finally:
        run.progress.end()
        run.transport.close()
    wanted, path = undoing.target.cluster_file, run.inventory.path
    text = loading.read_text(path)
    has_file = wanted is not None and wanted != text
    report = replace(run.report(), finds_work=differs(run.steps) or has_file)
    output.write_json(report)
    write(plan_text(report, report.steps), output.stream)
    if has_file:
        write(
            "\n    ".join([f"{path} would be changed back:", *difference(text, wanted or "").splitlines()]),
            output.stream,
        )
    return report.exit_code
