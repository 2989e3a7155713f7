"""`fab rollback`: puts hosts, the cluster file and the lock back into their state before a run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from slurmfab.base.errors import ClusterFileError, HostFailed, InputError
from slurmfab.base.exit_codes import DONE, LEFT_OUT
from slurmfab.base.hostlist import fold, shell_word
from slurmfab.base.objections import outweighs
from slurmfab.base.paths import MUNGE_KEY
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import write
from slurmfab.cluster.inventory import loading, shared_files
from slurmfab.cluster.inventory import lock as locks
from slurmfab.cluster.inventory.edits import writing
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.history import listing
from slurmfab.commands.history.rollback.plan_input import PHASES, RollbackInput
from slurmfab.commands.history.rollback.undo_state import UndoState, ask_undo_states
from slurmfab.core.engine import converge as deployment
from slurmfab.core.engine import file_writing, planning, record, session
from slurmfab.core.engine.job_safety import JobSafety
from slurmfab.core.engine.plan_text import overview, plan_text, slurm_part
from slurmfab.core.engine.record import CONVERGING, IMPORT, Record
from slurmfab.core.engine.report import UNKNOWN, Step
from slurmfab.core.engine.requests import gather
from slurmfab.core.engine.run import Run, RunHooks, RunOptions
from slurmfab.core.engine.session import UPGRADE, Output
from slurmfab.core.impact.approvals import NOTHING, Approvals
from slurmfab.core.impact.disruptive_changes import require_known
from slurmfab.core.plan.plan import make_plan
from slurmfab.on_hosts.agent.core.differences import difference
from slurmfab.on_hosts.agent.core.resource import CHANGED, FAILED

COMMAND = "rollback"
RESTORE = "restore"

NODE_STATES = {
    "node-drain", "node-resume", "node-reboot", "node-gate", "node-trial", "jobs-ended", "slurm-nodes",
    "partition-drain", "drill",
}  # fmt: skip
"""Kinds of resources that change the state of nodes, partitions or jobs in Slurm, but no file."""

DIVIDED = "mig"  # the kind of resources that divide GPUs
NODE_COMMANDS = ("drain", "drill", "reboot")  # commands that change only such states, even if they were interrupted

UNDOABLE_KINDS = {
    "absent", "block", "earlier-logins", "file", "munge-key", "munge-key-switch", "node-logins", "restored", "scripts",
    "service",
}  # fmt: skip
"""Kinds of resources that store the earlier state in the host's undo store whenever they change something."""

NO_UNDO_STATE = (
    "its undo store does not have the changes that were made there, so it was probably reinstalled since. After the "
    f"rollback of the other hosts, {FAB} deploy configures it like them."
)
"""Why a host cannot be rolled back."""

JWT_ROTATION, MUNGE_ROTATION = "rotate-jwt-key", "rotate-munge-key"

INVERSE = {"drain": f"{FAB} resume {{hosts}} undoes it", "resume": f"{FAB} drain {{hosts}} undoes it"}
"""The command that undoes a run which changed no file, by the run's command."""


@dataclass(frozen=True)
class Target:
    """The state that a rollback leads to."""

    undone: str  # id of the run that is undone, together with all later runs
    cluster_file: str | None = None  # text of the cluster file before that run; `None` if the file is not changed
    lock: Lock | None = None  # the lock before that run; `None` if it is not changed
    # whether the cluster was deployed before that run; if not, daemons go back to their earlier state
    was_deployed: bool = True
    why: str = ""  # the reason why the cluster file is not changed, as a sentence; empty if it is


def changes_hosts(record: Record) -> bool:
    """Whether a run changed, or may have changed, more on hosts than the states of nodes and jobs."""
    may_have_changed = record.ended is None and record.command not in NODE_COMMANDS
    return may_have_changed or bool(changed_kinds(record) - NODE_STATES - {"trial"})


def changed_kinds(record: Record) -> set[str]:
    """The kinds of resources that a run changed, or may have changed."""
    return {
        outcome.id.split(":")[0]
        for step in record.steps
        for outcome in step.outcomes
        if outcome.status in (CHANGED, FAILED, UNKNOWN)
    }


def target_latest(records: Sequence[Record]) -> Record:
    """The run that is undone if the user names none: the last one that changed something.

    A rollback that was interrupted, or left hosts out, is continued. A run that completed an interrupted one is undone
    together with that one, because half of a change is not a useful state. Raises InputError if no run changed
    anything.
    """
    changing = [record for record in records if changes_hosts(record)]
    if not changing:
        raise InputError("No recorded run has changed anything on the hosts, so there is nothing to roll back.")
    last = changing[-1]
    by_id = {record.run: record for record in records}
    if last.command == COMMAND and last.undoes in by_id and (last.ended is None or last.exit_code != DONE):
        return by_id[last.undoes]
    settling = [record for record in records if record is last or (settles(record) and record.run < last.run)]
    place = len(settling) - 1
    while place and settling[place - 1].ended is None:
        place -= 1
    return settling[place]


def settles(record: Record) -> bool:
    """Whether a run changed hosts or verified that they match the cluster file, all phases, or was interrupted."""
    is_part = bool(record.only) and record.ended is not None
    return not is_part and (changes_hosts(record) or record.command in CONVERGING)


def refuse_other_data(records: Sequence[Record], undone: Record) -> None:
    """Refuse, by InputError, to go back behind a restored backup, an upgrade of Slurm, or a division of GPUs."""
    divided = next((one.run for one in records if one.run >= undone.run and DIVIDED in changed_kinds(one)), "")
    if divided:
        raise InputError(
            f"{divided} divided GPUs into other MIG instances, which no undo store can give back. Write into the "
            f"cluster file what `mig` was before, or remove the key, and then: {FAB} deploy."
        )
    restored = next((one.run for one in records if one.run >= undone.run and one.command == RESTORE), "")
    if restored:
        raise InputError(
            f"{restored} replaced data by that of a backup, and the undo stores of hosts do not have the earlier data. "
            f"Only another backup can bring it back: {FAB} restore."
        )
    upgraded = next((one.run for one in records if one.run >= undone.run and one.command == UPGRADE), "")
    if upgraded:
        raise InputError(
            f"{upgraded} upgraded Slurm, and an older Slurm reads neither the database nor the state that a newer one "
            "has written. The way back needs the packages and the backup of before; see docs/upgrade.md."
        )


def target_before(records: Sequence[Record], undone: Record) -> Target:
    """The target of a run's rollback; InputError if what was before it is unknown, or data is of since then."""
    if undone.cluster_file is None and undone.ended:
        raise InputError(f"{undone.run} cannot be undone: that slurmfab had no undo store on hosts yet.")
    refuse_other_data(records, undone)
    # An import changes no host, so that a rollback to before it is one to what it found.
    earlier = [one for one in records if one.run < undone.run or (one is undone and one.command == IMPORT)]
    if not earlier:
        why = f"{undone.run} was the first run, so the hosts go back to before it; the cluster file is not changed."
        return Target(undone.run, was_deployed=False, why=why)
    settling = [record for record in earlier if settles(record)]
    if settling and settling[-1].ended is None:
        raise InputError(
            f"The run before {undone.run} was interrupted, so the state between them is half of a change. Undo both: "
            f"{FAB} rollback --run {settling[-1].run}."
        )
    newest = earlier[-1]
    was_deployed = any(record.exit_code in (DONE, LEFT_OUT) for record in earlier if record.ended and not record.only)
    if newest.cluster_file is None or newest.lock is None:
        why = f"The record of {newest.run} does not have the cluster file, so the file is not changed; see {FAB} plan."
        return Target(undone.run, was_deployed=was_deployed, why=why)
    lock = locks.parse(json.dumps(newest.lock).encode(), Path(newest.run))
    return Target(undone.run, newest.cluster_file, lock, was_deployed)


def refuse_unnamed(target: Target) -> None:
    """Refuse, by InputError, the state before the first run, which takes the cluster down, unless named."""
    if target.cluster_file is None and not target.was_deployed:
        raise InputError(
            f"{target.undone} was the first deployment. To undo it takes a cluster that it made down: daemons that did "
            "not run before stop, and files and keys of Slurm's that were not there are removed. If this is intended, "
            f"name the run: {FAB} rollback --run {target.undone}. Nothing was changed."
        )


def inventory_then(target: Target, present: Inventory) -> Inventory:
    """The cluster file and the lock after the rollback.

    SSH host keys that were pinned since stay pinned, and Slurm's version stays, because packages are not rolled back.
    `target`: the target, from `before`. `present`: the cluster file and the lock now. Raises ClusterFileError if this
    slurmfab cannot read the earlier cluster file.
    """
    if target.cluster_file is None or target.lock is None:
        return present
    cluster = loading.parse(target.cluster_file, f"{present.path} before {target.undone}")
    lock = replace(target.lock, slurm=present.lock.slurm or target.lock.slurm)
    for name, host in target.lock.hosts.items():
        if name in present.lock.hosts:
            keys = {**host.host_keys, **present.lock.hosts[name].host_keys}
            lock = locks.with_host(lock, name, replace(host, host_keys=keys))
    return replace(present, cluster=cluster, lock=lock)


def refuse_other_machines(undone: str, present: Inventory, then: Inventory) -> None:
    """Refuse a rollback to other hosts or machines, or to other UIDs and GIDs.

    `present`: the cluster file and the lock now. `then`: the cluster file and the lock after the rollback. Raises
    InputError if there are such hosts or numbers; the message has what to do first, or instead.
    """
    hosts_now, hosts_then = frozenset(present.cluster.hosts), frozenset(then.cluster.hosts)
    joined = [host for host in present.cluster.hosts if host not in hosts_then]
    left = [host for host in then.cluster.hosts if host not in hosts_now]
    replaced = [host for host in then.cluster.hosts if is_another(present.lock, then.lock, host)]
    reasons = []
    if joined:
        reasons.append(joined_reason(joined, undone, present))
    if left:
        names = fold(left)
        reasons.append(
            f"{names}: in the cluster before {undone}, but not now. A removed node has lost its keys, so this cannot "
            f"be undone; {FAB} add-node {shell_word(left)} adds it again."
        )
    if replaced:
        reasons.append(
            f"{fold(replaced)}: another machine than before {undone}, by its SSH host key, which has no undo state of "
            f"that time. Change the cluster file instead, and run {FAB} deploy."
        )
    if then.lock.ids and present.lock.ids != then.lock.ids:
        numbers = moved(present.lock.ids, then.lock.ids)
        reasons.append(
            f"Since {undone} users or groups have other numbers ({numbers}), and undo stores do not have these. "
            f"Set the old ones in the cluster file instead, as ids, and run {FAB} deploy --move-ids."
        )
    if reasons:
        raise InputError("\n".join((*reasons, "Nothing was changed.")))


def joined_reason(joined: Sequence[str], undone: str, present: Inventory) -> str:
    """The message about hosts that joined the cluster since a run, with the way to remove them."""
    names = fold(joined)
    refusal = f"{names}: not in the cluster before {undone}."
    if any(present.cluster.is_for_database_alone(host) for host in joined):
        return f"{refusal} To remove the database host, delete the key database from the cluster file and {FAB} deploy."
    return f"{refusal} Remove it first: {FAB} remove-node {shell_word(joined)}."


def is_another(now: Lock, then: Lock, host: str) -> bool:
    """Whether a host shows another SSH host key in the lock of now than in that of then, of a type pinned then."""
    if host not in now.hosts or host not in then.hosts:
        return False
    keys = now.hosts[host].host_keys
    return any(keys.get(kind, key) != key for kind, key in then.hosts[host].host_keys.items())


def moved(now: Mapping[str, int], then: Mapping[str, int]) -> str:
    """The UIDs and GIDs that differ, as `NAME OLD -> NEW`."""
    return ", ".join(
        f"{name} {number} -> {now.get(name, number)}" for name, number in then.items() if now.get(name) != number
    )


def refuse_forgotten(run: Run, undone: str, undo_states: Mapping[str, UndoState], records: Sequence[Record]) -> None:
    """Refuse a run that is too old, or leave out the hosts that say so: undo stores have the newest runs only.

    Raises InputError with the oldest run that can be undone, if the controller or most hosts say so.
    """
    gone = {host: of_host.dropped for host, of_host in undo_states.items() if of_host.dropped >= undone}
    if not outweighs(gone, run.controller, len(undo_states)):
        for host in gone:
            run.exclude(host, HostFailed(host, f"its undo store has no state before {undone} any more"))
        return
    newest = max(gone.values())
    left = [record.run for record in records if record.run > newest and changes_hosts(record)]
    way = (
        f"The oldest run that can be undone is {left[0]}: {FAB} rollback --run {left[0]}."
        if left
        else "No run can be undone."
    )
    raise InputError(
        f"{fold(gone)}: the undo store there does not have the state before {undone} any more. It has the newest runs "
        f"only, and none from before the host left a cluster. {way} Nothing was changed."
    )


def nothing_to_undo(record: Record) -> str:
    """The message about a run that changed no file and no service."""
    hosts = shell_word(record.hosts)
    inverse = INVERSE.get(record.command, "").format(hosts=hosts)
    text = f"{record.run} changed no file and no service, and neither did any run since"
    return f"{text}; {inverse}." if inverse else f"{text}. There is nothing to roll back."


def without_undo_state(undo_states: Mapping[str, UndoState], undone: str, records: Sequence[Record]) -> tuple[str, ...]:
    """The hosts whose undo store lacks a change that a run, or a later one, made there according to its record."""
    changed = {
        (step.host, record.run)
        for record in records
        for step in record.steps
        for outcome in step.with_status(CHANGED)
        if record.run >= undone and outcome.id.split(":")[0] in UNDOABLE_KINDS
        if {change.name for change in outcome.changes} != {"leftovers"}
    }
    return tuple(
        host
        for host, of_host in undo_states.items()
        if any(name == host and run not in of_host.runs for name, run in changed)
    )


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
        refuse_unnamed(undoing.target)
    options = RunOptions(COMMAND, approvals, undoes=undoing.undone.run)
    run = session.start(undoing.then, "", output, options, hooks=RunHooks())  # the lock is put back at the end
    if dry_run:
        return show(run, undoing, output)
    return session.perform(run, output, lambda begun: carry_out(begun, undoing))


def prepare(path: Path, word: str) -> Undoing:
    """Find the run (`word`: see `rollback`) and its target; InputError if there is none, or it cannot be undone."""
    records, _ = record.load_all(path)
    undone = target_latest(records) if word in ("", listing.LAST) else listing.find(records, word, path)
    target = target_before(records, undone)
    present = current_inventory(path, records)
    then = inventory_then(target, present)
    refuse_other_machines(undone.run, present, then)
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
    """Facts, undo states, plan, comparison: three requests a host; InputError if an undo store lacks the run."""
    facts = gather(run, run.remaining(run.hosts), may_prepare=False)
    undo_states = ask_undo_states(run, run.remaining(run.hosts), undoing.undone.run)
    refuse_forgotten(run, undoing.undone.run, undo_states, undoing.records)
    for host in without_undo_state(undo_states, undoing.undone.run, undoing.records):
        if host in run.failed_hosts:
            continue
        run.exclude(host, HostFailed(host, NO_UNDO_STATE))
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

    Raises SlurmfabError if the controller failed, or the rollback is refused; the files here are unchanged then.
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
            if any(one.files or one.services or one.directories for one in rollback_input.undo_states.values())
            else nothing_to_undo(undoing.undone)
        )
    if run.failed_hosts:
        run.progress.line(f"To continue with {fold(run.failed_hosts)} later: {FAB} rollback --run {undoing.undone.run}")


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
    undone = [one for one in undoing.records if one.run >= undoing.undone.run and changes_hosts(one)]
    later = len(undone) - 1
    others = f", which also undoes {later} later run{'s' if later > 1 else ''}" if later > 0 else ""
    run.progress.line(f"Going back to before {undoing.undone.run}{others}.")
    if undoing.target.why:
        run.progress.line(undoing.target.why)
    for line in keys_that_count_again(undone):
        run.progress.line(line)


def keys_that_count_again(undone: Sequence[Record]) -> Iterator[str]:
    """Yield what comes back with an earlier key, whoever has it by now."""
    commands = {one.command for one in undone}
    if JWT_ROTATION in commands:
        yield (
            "The earlier key of tokens comes back: tokens made with it count again until they end, whoever has them. A "
            f"new key afterwards: {FAB} {JWT_ROTATION}."
        )
    if MUNGE_ROTATION in commands:
        yield (
            "The earlier munge key comes back: whoever has it is any user to Slurm again. A new key afterwards: "
            f"{FAB} {MUNGE_ROTATION}."
        )


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
    with session.ending(run):
        print_runs(run, undoing)
        rollback_input, steps = survey(run, undoing)
        run.record_steps(*steps)
        JobSafety(run).assess(rollback_input, steps)
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
