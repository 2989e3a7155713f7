"""`fab rollback`: from the words on the command line to the exit code."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slurmfab import deploy as deployment
from slurmfab import inventory, operations
from slurmfab import lock as locks
from slurmfab.agent.differences import difference
from slurmfab.asking import gather
from slurmfab.clusterfile import writing
from slurmfab.consent import NOTHING, Consent
from slurmfab.deploying import SOMETHING_TO_DO
from slurmfab.errors import ClusterFileError, HostFailed, SlurmfabError
from slurmfab.hostlist import fold
from slurmfab.inventory import Inventory
from slurmfab.operations import Output
from slurmfab.phases.munge import KEY
from slurmfab.plan import make_plan
from slurmfab.plans.text import overview, plan_text, slurm_part
from slurmfab.promises.dangers import require_known
from slurmfab.promises.keeping import Promise
from slurmfab.report import Step
from slurmfab.rollback import goal as goals
from slurmfab.rollback.goal import COMMAND, Goal
from slurmfab.rollback.kept import Kept, ask_kept
from slurmfab.rollback.past import PHASES, Past
from slurmfab.run import Run
from slurmfab.runs import history, record
from slurmfab.runs.record import Record


@dataclass(frozen=True)
class Undoing:
    """All that a rollback knows before it asks anybody.

    Args:
        goal: where it leads to.
        then: the cluster file and the lock as they will be.
        undone: the record of the run that is undone.
        records: all that there are, oldest first.
    """

    goal: Goal
    then: Inventory
    undone: Record
    records: tuple[Record, ...]


def rollback(cluster: str, word: str, output: Output, consent: Consent = NOTHING, *, dry_run: bool = False) -> int:
    """Bring configuration and services of all hosts, the cluster file and the lock back to before a run.

    Args:
        cluster: the cluster file's path, empty for the default one.
        word: the run's id, or a beginning that no other has; empty for the last one that changed something.
        output: what to tell.
        consent: what was agreed to beforehand.
        dry_run: whether to show alone what would be done.

    Returns:
        The exit code; 4 when a dry run finds something to do.

    Raises:
        InputError: there is no such run, or it cannot be undone; nothing was changed.
    """
    require_known(consent)
    undoing = prepared(Path(cluster) if cluster else inventory.default_path(), word)
    if word in ("", history.LAST) and not dry_run:
        goals.refuse_unnamed(undoing.goal)
    run = operations.start(undoing.then, "", output, command=COMMAND, consent=consent)
    run.keep = lambda _: None
    run.undoes = undoing.undone.run
    if dry_run:
        return show(run, undoing, output)
    return operations.perform(run, output, lambda begun: carry_out(begun, undoing))


def prepared(path: Path, word: str) -> Undoing:
    """What the records say, and whether there is a way back.

    Raises:
        InputError: there is none.
    """
    records, _ = record.load_all(path)
    undone = goals.latest(records) if word in ("", history.LAST) else history.find(records, word, path)
    goal = goals.before(records, undone)
    present = known(path, records)
    then = goals.inventory_then(goal, present)
    goals.refuse_other_machines(undone.run, present, then)
    return Undoing(goal, then, undone, records)


def known(path: Path, records: Sequence[Record]) -> Inventory:
    """The cluster as it is; where somebody has broken the cluster file since, as the newest run left it.

    Raises:
        InputError: neither can be read.
    """
    try:
        return inventory.load(path)
    except ClusterFileError:
        text = next((one.cluster_file for one in reversed(records) if one.cluster_file is not None), None)
        if text is None:
            raise
        return Inventory(inventory.parse(text, str(path)), locks.load(inventory.lock_path(path)), path)


def survey(run: Run, undoing: Undoing) -> tuple[Past, list[Step]]:
    """Ask the hosts who they are and what they keep, plan, and compare: three requests per host.

    Raises:
        InputError: a host does not keep the state before that run any more.
    """
    facts = gather(run, run.well(run.hosts), may_prepare=False)
    kept = ask_kept(run, run.well(run.hosts), undoing.undone.run)
    goals.refuse_forgotten(undoing.undone.run, kept, undoing.records)
    for host in goals.emptied(kept, undoing.undone.run, undoing.records):
        run.lose(host, HostFailed(host, goals.EMPTIED))
    answering = {host: fact for host, fact in facts.items() if host not in run.lost}
    situation = deployment.situate(run, answering, scripts={})  # the hosts keep those that they had
    past = Past(
        situation.cluster,
        situation.lock,
        situation.facts,
        situation.stamp,
        kept=kept,
        was_deployed=undoing.goal.was_deployed,
    )
    return past, deployment.look_at(run, make_plan(past, run.well(run.hosts), PHASES))


def carry_out(run: Run, undoing: Undoing) -> None:
    """Bring the hosts back, with the promise of a deployment to the jobs that run meanwhile, and then the files here.

    Raises:
        SlurmfabError: the controller failed, or the rollback is refused; the files here are as before.
    """
    say_what(run, undoing)
    pasts: list[Past] = []
    deployment.under_promise(run, lambda promise: pasts.append(bring_back(run, undoing, promise)))
    (past,) = pasts
    if not past.restores_key and any(one.file(KEY) for one in past.kept.values()):
        run.progress.line(
            f"The munge key stays as it is: {run.controller} keeps no other, since it was no run that changed it there."
        )
    has_put_back = put_back(run, undoing)
    if not run.steps and not has_put_back and not run.lost:
        run.progress.line("All is as it was." if any_kept(past.kept) else goals.nothing_to_undo(undoing.undone))
    if run.lost:
        run.progress.line(f"To go on with {fold(run.lost)} later: fab rollback {undoing.undone.run}")


def bring_back(run: Run, undoing: Undoing, promise: Promise) -> Past:
    """Go through the phases of a rollback, from the first in which any host differs, once no job would be hurt."""
    past, steps = deployment.survey_until_safe(run, promise, lambda: survey(run, undoing))
    if differs(steps):
        for line in (*overview(steps), *slurm_part(run.forecast)):
            run.progress.line(line)
        names = {step.phase for step in steps if step.differs}
        first = min(number for number, phase in enumerate(PHASES) if phase.name in names)
        deployment.converge(run, past, PHASES[first:])
    return past


def differs(steps: Sequence[Step]) -> bool:
    """Whether anything is other than it was before the run."""
    return any(step.differs for step in steps)


def any_kept(kept: Mapping[str, Kept]) -> bool:
    """Whether any host keeps anything of the run, or of a later one."""
    return any(one.files or one.services for one in kept.values())


def say_what(run: Run, undoing: Undoing) -> None:
    """Tell which runs are undone, and what becomes of the cluster file where it stays."""
    undone = [one for one in undoing.records if one.run >= undoing.undone.run and goals.changes_hosts(one)]
    later = len(undone) - 1
    with_it = f"; with it, {later} later run{'s' if later > 1 else ''} that changed something" if later > 0 else ""
    run.progress.line(f"Going back to before {undoing.undone.run}{with_it}.")
    if undoing.goal.why:
        run.progress.line(undoing.goal.why)


def put_back(run: Run, undoing: Undoing) -> bool:
    """Write the cluster file and the lock as they were; a text of the file that no record has is kept beside it.

    Returns:
        Whether anything had to be written.
    """
    goal, path = undoing.goal, run.inventory.path
    if goal.cluster_file is None:
        return False
    text = inventory.read_text(path)
    locks.save(undoing.then.lock, inventory.lock_path(path))
    if text == goal.cluster_file:
        return False
    if text not in {one.cluster_file for one in undoing.records}:
        beside = path.with_name(f"{path.name}.before-{run.id}")
        writing.write(beside, text)
        run.progress.line(f"{path} had changes that were never deployed; they are in {beside}.")
    writing.write(path, goal.cluster_file)
    run.progress.line(f"{path} is as it was before {goal.undone}.")
    return True


def show(run: Run, undoing: Undoing, output: Output) -> int:
    """Show what a rollback would do, and do nothing.

    Returns:
        The exit code: 4 when that is anything, and otherwise the report's.
    """
    try:
        say_what(run, undoing)
        past, run.steps = survey(run, undoing)
        Promise(run).foresee(past, run.steps)
    except SlurmfabError:
        operations.say_failures(run)
        raise
    finally:
        run.progress.end()
        run.transport.close()
    report = run.report()
    operations.write_json(report, output)
    out = sys.stderr if output.json == "-" else sys.stdout
    print(plan_text(report, report.steps), file=out)
    wanted, path = undoing.goal.cluster_file, run.inventory.path
    text = inventory.read_text(path)
    has_file = wanted is not None and wanted != text
    if has_file:
        print(f"{path} would be put back:", *difference(text, wanted or "").splitlines(), sep="\n    ", file=out)
    return report.exit_code or (SOMETHING_TO_DO if differs(run.steps) or has_file else 0)
