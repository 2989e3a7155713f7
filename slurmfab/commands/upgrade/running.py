"""`fab upgrade`: carries an upgrade of Slurm out, step by step, and goes on where an earlier run was cut off."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from slurmfab.base.errors import HostError, InputError
from slurmfab.base.exit_codes import DONE, NOT_ALL_CHECKED
from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import columns, write
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.edits.slurm_key import with_slurm, with_versions
from slurmfab.cluster.inventory.slurm_packages import SlurmPackages
from slurmfab.cluster.slurm import platform
from slurmfab.commands.checks import runner
from slurmfab.commands.upgrade import asking, hints, last_files, proof, target, under_way
from slurmfab.commands.upgrade import planning as plans
from slurmfab.commands.upgrade.changes import Changes
from slurmfab.commands.upgrade.plan import NO_UPGRADE, UpgradePlan, UpgradeStep
from slurmfab.commands.upgrade.stages import Stages
from slurmfab.core.engine import converge, file_writing, planning, session
from slurmfab.core.engine.job_safety import JobSafety, may_have_jobs
from slurmfab.core.engine.requests import gather, require_claim
from slurmfab.core.engine.run import Run, RunOptions
from slurmfab.core.engine.session import Output


@dataclass(frozen=True)
class UpgradeOptions:
    """The options of `fab upgrade`."""

    to: str = ""  # the wanted version; empty for the cluster file's, or whatever the suite has
    suite: str = ""  # another suite of the hosts' own mirrors; empty for the cluster file's source
    hosts: str = ""  # hostlist of the hosts that are upgraded now; empty for all
    at_once: str = "10%"  # how many nodes at a time: a number, or a percentage
    drain: bool = False  # whether nodes are empty of jobs before
    yes: bool = False  # whether to begin without a question


def upgrade(cluster: str, options: UpgradeOptions, output: Output) -> int:
    """Upgrade Slurm everywhere, or go on; InputError if refused, SlurmfabError if a step failed: go on with it."""
    known = loading.load_named(cluster)
    if known.lock.upgrade and not options.to and not options.suite:
        options = replace(options, to=known.lock.upgrade.to.removesuffix(".*"))
    wanted = target.target_of(known.cluster, options.to, options.suite)
    chosen = session.select_hosts(known.cluster, options.hosts, known.path)
    run = session.start(known, "", output, RunOptions("upgrade", asks=not options.yes))
    finished: list[bool] = []
    code = session.perform(
        run, output, lambda begun: finished.append(carry_out(begun, wanted, options, frozenset(chosen), output))
    )
    if code == DONE and finished == [True]:
        checked = runner.check(str(known.path), "", "", "", output, writes_json=False)
        # The upgrade is done on a busy node, too; what could not be checked there is on the screen.
        return DONE if checked == NOT_ALL_CHECKED else checked
    return code


def carry_out(run: Run, wanted: SlurmPackages, options: UpgradeOptions, chosen: frozenset[str], output: Output) -> bool:
    """Plan, and do what is left on chosen hosts, to the wanted key `slurm`; whether it is done everywhere now."""
    plan = plans.made(run, wanted, options.to, options.suite, at_once=options.at_once, drain=options.drain)
    run.progress.end()
    write(plans.text(plan, columns(output.stream)), output.stream)
    if plan.refusals:
        raise InputError("The upgrade is refused, for the reasons above. Nothing was changed.")
    if plan.is_done and run.inventory.lock.upgrade is None:
        return False
    steps = limited(plan, chosen)
    final = plans.final_key(plan, wanted)
    version = final.version or ""
    if steps:
        hosts = fold(dict.fromkeys(host for step in steps if step.what != "backup" for host in step.hosts))
        files = " Slurm's files are changed at the end, as the last step shows." if steps[-1].what == "files" else ""
        run.confirm(
            "Newer daemons convert Slurm's state and database, and older ones do not read them any more." + files,
            f"Upgrade Slurm on {hosts} to {version}?",
        )
    require_claim(run)
    under_way.begin(run, plan, version)
    if steps and steps[0].what == "backup":
        back_up(run, plan, wanted)  # with the cluster file of before, for the way back
        run.update_record()
    write_target(run, final)
    converge.with_job_safety(run, lambda safety: do(run, plan, steps, safety, options))
    return finish(run, plan, final)


def limited(plan: UpgradePlan, chosen: frozenset[str]) -> tuple[UpgradeStep, ...]:
    """The steps on chosen hosts; InputError if one is left out before another, or of two controllers."""
    found: list[UpgradeStep] = []
    left: list[str] = []
    for step in plan.steps:
        if step.what == "files":
            continue
        hosts = step.hosts if step.what == "backup" else tuple(host for host in step.hosts if host in chosen)
        missing = [host for host in step.hosts if host not in hosts]
        if hosts and left and step.what != "backup":
            raise InputError(
                f"--hosts leaves out {fold(left)}, whose daemons are upgraded before those of {fold(hosts)}. "
                f"First: {FAB} upgrade --hosts {fold(left)}. Nothing was changed."
            )
        if hosts and missing and step.what == "controllers":
            raise InputError(
                f"--hosts names {fold(hosts)} and leaves out {fold(missing)}: controllers are upgraded together, since "
                "an older slurmctld cannot take over the state of a newer one. Name both. Nothing was changed."
            )
        left += [host for host in missing if host not in left] if step.what in ("slurmdbd", "controllers") else []
        if hosts:
            found.append(replace(step, hosts=hosts))
    is_last = all(host in chosen for step in plan.steps if step.what not in NO_UPGRADE for host in step.hosts)
    found += [step for step in plan.steps if step.what == "files" and is_last and not plan.silent]
    return tuple(found) if any(step.what != "backup" for step in found) else ()


def write_target(run: Run, final: SlurmPackages) -> None:
    """Write the new version and source into the cluster file, and go on with that; InputError if it is not safe."""
    path = run.inventory.path
    before = loading.read_text(path)
    after = with_versions(with_slurm(before, final), run.inventory.cluster.with_slurm(final))
    if after == before:
        return
    file_writing.write(run, after)
    cluster = run.inventory.cluster.with_slurm(final)
    run.change_cluster(replace(run.inventory, cluster=cluster), run.hosts)
    run.progress.line(f"{path}: slurm.version is {final.version} now.")


def do(run: Run, plan: UpgradePlan, steps: tuple[UpgradeStep, ...], safety: JobSafety, options: UpgradeOptions) -> None:
    """Carry out, in order, the steps that change hosts; SlurmfabError if one failed."""
    if not steps:
        return
    plan_input = planning.exclude_unfit_hosts(run, gather(run, run.remaining(run.hosts)))
    run.save_lock()
    stages = Stages(run, plan, plan_input, safety, options.at_once, options.drain)
    count_jobs(run, safety, stages)
    work: Mapping[str, Callable[[UpgradeStep], None]] = {
        "slurmdbd": stages.slurmdbd,
        "controllers": stages.controllers,
        "nodes": stages.nodes,
        "others": stages.others,
    }
    for step in steps:
        if step.what not in NO_UPGRADE:
            work[step.what](step)
            run.update_record()


def count_jobs(run: Run, safety: JobSafety, stages: Stages) -> None:
    """Note the jobs that must still be there afterwards.

    While the controller's programs are new and slurmctld is old, its commands do not understand it: an upgrade that
    goes on there cannot count them before.
    """
    safety.plan_input = stages.plan_input
    if not may_have_jobs(stages.plan_input):
        return
    try:
        slurm = safety.snapshot()
    except HostError:
        return
    if slurm.is_up and not slurm.trouble:
        safety.count_jobs(stages.plan_input, slurm)
    else:
        run.progress.line(f"{run.controller}: the jobs cannot be counted before: {slurm.trouble or 'no answer'}.")


def back_up(run: Run, plan: UpgradePlan, wanted: SlurmPackages) -> None:
    """Make and prove a backup, unless this upgrade has one; SlurmfabError if it fails, or is not proved."""
    known = under_way.backup_of(run)
    if known:
        run.progress.line(f"Backup of this upgrade, proved before: {known}.")
        return
    cluster = run.inventory.cluster.with_slurm(wanted)
    host = cluster.database.host if cluster.database else cluster.controller
    source_there = asking.source_of(replace(run.inventory, cluster=cluster), host)
    told = {"manager": platform.wanted(cluster, host).manager.name, **source_there}
    source = tuple(told.items())
    dump = replace(Changes(cluster, plan.hosts, str(plan.target.series), "").proved_dump(), source=source)
    under_way.note_backup(run, proof.proved_backup(run, dump))


def finish(run: Run, plan: UpgradePlan, final: SlurmPackages) -> bool:
    """Tell what is left; if nothing is, give hosts the new version's files, and end the upgrade.

    Returns whether nothing is left. Raises InputError if files would change in other ways than the plan has shown.
    """
    again = plans.made(run, final, "", "", is_whole=False)
    run.progress.end()
    left = [host for step in again.steps if step.what != "backup" for host in step.hosts]
    left += [host for host in run.inventory.cluster.hosts if host in again.silent]
    if left:
        run.progress.line(f"Still to be upgraded: {fold(dict.fromkeys(left))}. To go on: {FAB} upgrade.")
        return False
    run.hooks = replace(run.hooks, check_survey=lambda _, steps: last_files.refuse_more(plan, steps))
    converge.deploy(run)
    under_way.put(run, None)
    run.progress.line(f"Slurm {again.target.series} runs on all hosts.")
    for line in hints.of_users(again.hosts):
        run.progress.line(line)
    return True
