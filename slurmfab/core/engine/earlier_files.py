"""The way back when a daemon does not start with new files: the earlier ones return, and it starts with these.

Some values can be parsed and end a daemon at its start, such as the name of a plugin that does not exist. The undo
store of each host has the files that this run has replaced there. So a cluster that ran before a run runs after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from slurmfab.base.errors import DeployFailed, HostFailed, SlurmfabError
from slurmfab.base.hostlist import fold
from slurmfab.base.paths import SLURM_DIRECTORY, SLURMDBD_CONF
from slurmfab.base.program_name import FAB
from slurmfab.cluster.slurm.job_submit_script import SCRIPT
from slurmfab.core.engine.report import apart
from slurmfab.core.engine.requests import apply_step
from slurmfab.core.engine.run import Run
from slurmfab.core.plan.phases import daemons, database
from slurmfab.core.plan.phases.slurm_conf import GRES, JOB_CONTAINER, NAME_MARK, read_by_slurmd
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.hosts.fan_out import on_each
from slurmfab.on_hosts.agent.client.commands import SHOW_SLURMD
from slurmfab.on_hosts.agent.core.host_paths import SITE_FILES
from slurmfab.on_hosts.agent.core.resource import FAILED, Resource
from slurmfab.on_hosts.agent.services.service import Service
from slurmfab.on_hosts.agent.slurm.fetched_files import FetchedFiles
from slurmfab.on_hosts.agent.undo.restored_file import EarlierFiles

STEP = "earlier files"  # the name of these steps in reports
REPLACING = "slurm.conf"  # the phase that replaces Slurm's files

PHASES = ("slurmctld stop", REPLACING, "local files", "slurmctld", "slurmd", "slurmctld start")
"""The phases from the stop of slurmctld to its start, with the new files in between."""

AT_ONCE = frozenset({"database"})
"""The phases after which earlier files are put back once a host fails, and not when all hosts have passed them."""

ADVICE = f"Correct the cluster file, then: {FAB} deploy."


def after_phase(run: Run, plan_input: PlanInput, phase: str) -> None:
    """Put earlier files back where a daemon did not start in this phase, on hosts without which the run goes on.

    Completes the reasons of failed hosts. Raises DeployFailed if slurmd started nowhere: all files went back.
    """
    if phase == "slurmd":
        after_slurmd(run, plan_input)
    elif phase == "database":
        after_slurmdbd(run, plan_input)


def after_slurmdbd(run: Run, plan_input: PlanInput) -> None:
    """Put slurmdbd.conf back where slurmdbd ran before and did not start."""
    for host in starting_failed(run, "database", "slurmdbd"):
        if runs(plan_input, host, "slurmdbd") and host in plan_input.cluster.database_hosts:
            wanted = [one for one in database.resources(plan_input, host) if is_of_slurmdbd(one)]
            complete_reason(run, host, put_back(run, {host: [before(run, SLURMDBD_CONF), *wanted]}), "slurmdbd")


def after_slurmd(run: Run, plan_input: PlanInput) -> None:
    """Put Slurm's files back where slurmd did not start; on all hosts, with DeployFailed, where it started on none."""
    failed = [
        host
        for host in starting_failed(run, "slurmd", "slurmd")
        if runs_slurmd(plan_input, host) and (host in replaced(run) or reads_others(plan_input, host))
    ]
    others = [host for host in run.remaining(plan_input.facts) if runs_slurmd(plan_input, host)]
    if failed and not others and daemons.runs_slurmctld(plan_input, run.controller):
        told = whole_cluster(run, plan_input)
        raise DeployFailed(f"slurmd starts on no node with the new files. {told}")
    for host in (one for one in failed if not reads_others(plan_input, one)):
        wanted = {host: [before(run, *paths(plan_input)), *slurmd(plan_input, host)]}
        complete_reason(run, host, put_back(run, wanted), "slurmd")


def after_failure(run: Run, plan_input: PlanInput, phase: str, error: DeployFailed) -> DeployFailed:
    """Put Slurm's earlier files back on all hosts, and start slurmctld with them, if it ran before and failed now.

    Args:
        plan_input: the facts of all hosts as they were before the phases.
        phase: name of the phase in which the controller failed.
        error: the error that ends the run.

    Returns:
        The error to raise: it says what was put back.
    """
    if phase == "database":
        after_slurmdbd(run, plan_input)
    is_ours = phase in PHASES and isinstance(run.failed_hosts.get(run.controller), HostFailed)
    if not is_ours or not daemons.runs_slurmctld(plan_input, run.controller):
        return error
    return DeployFailed(f"{error} {whole_cluster(run, plan_input)}")


def whole_cluster(run: Run, plan_input: PlanInput) -> str:
    """Put back all files that this run has replaced, and start the daemons that ran before; tells what came of it."""
    files = before(run, *paths(plan_input))
    hosts = replaced(run)
    # In a shared directory, the primary controller puts the files back for all.
    first = [run.controller] if plan_input.cluster.slurm_conf_directory and hosts else []
    lines = [put_back(run, {host: [files] for host in first})]
    hosts = tuple(dict.fromkeys((*hosts, *(one for one in plan_input.facts if first and runs_slurmd(plan_input, one)))))
    lines.append(put_back(run, {host: [files, *slurmd(plan_input, host)] for host in hosts}))
    controllers = [host for host in plan_input.cluster.controllers if daemons.runs_slurmctld(plan_input, host)]
    starts = {host: daemons.controller_service(plan_input, host) for host in controllers}
    lines.append(put_back(run, {host: starts[host] for host in starts if host == run.controller}))
    lines.append(put_back(run, {host: starts[host] for host in starts if host != run.controller}))
    fetching = [
        host for host in plan_input.facts if can_work(run, plan_input, host) and plan_input.cluster.fetches(host)
    ]
    lines.append(put_back(run, {host: [Service("slurmd")] for host in fetching}))
    there = {host: fact for host, fact in plan_input.facts.items() if can_work(run, plan_input, host)}
    lines.append(put_back(run, {run.controller: daemons.nodes(replace(plan_input, facts=there), run.controller)}))
    failures = " ".join(filter(None, lines))
    if failures:
        return f"Not all of it could be taken back: {failures}"
    if hosts:
        return f"Slurm's earlier files are back on {fold(hosts)}, and slurmctld runs with them. {ADVICE}"
    return "No file of Slurm was replaced, and slurmctld runs with the present ones."


def put_back(run: Run, wanted: Mapping[str, Iterable[Resource]]) -> str:
    """Have hosts converge resources, also hosts that are excluded from the run; tells what failed, or nothing."""
    failures = []
    for _, answer in on_each(wanted, lambda host: apply_step(run, STEP, host, wanted[host])):
        if isinstance(answer, SlurmfabError):
            failures.append(str(answer))
            continue
        own, others = apart(answer)
        for step in (own, *others):
            run.record_steps(*([step] if step.differs else []))
            failures += [f"{step.host}: {one.id}: {one.message}" for one in step.with_status(FAILED)]
    return " ".join(failures)


def complete_reason(run: Run, host: str, failures: str, unit: str) -> None:
    """Add to the reason of an excluded host what came of the earlier files."""
    told = f"They could not be put back: {failures}" if failures else f"{unit} runs with them again. {ADVICE}"
    reason = run.failed_hosts[host].reason.rstrip(".")
    run.change_reason(host, HostFailed(host, f"{reason}. The earlier files are back. {told}"))


def starting_failed(run: Run, phase: str, unit: str) -> list[str]:
    """The hosts on which a daemon's unit failed in a phase of this run, and that can still be reached."""
    return [
        step.host
        for step in run.steps
        if step.phase == phase
        and isinstance(run.failed_hosts.get(step.host), HostFailed)
        and any(starts(one.id, unit) for one in step.with_status(FAILED))
    ]


def starts(resource_id: str, unit: str) -> bool:
    """Whether converging a resource starts this daemon, as a slurmd is started to fetch its files."""
    kind, _, name = resource_id.partition(":")
    return name.partition(":")[0] == unit or (kind == FetchedFiles.kind and unit == "slurmd")


def replaced(run: Run) -> tuple[str, ...]:
    """The hosts on which this run has replaced any of Slurm's files, or was about to."""
    return tuple(dict.fromkeys(step.host for step in run.steps if step.phase == REPLACING))


def reads_others(plan_input: PlanInput, host: str) -> bool:
    """Whether a host reads files that the primary controller keeps for all hosts: fetched, or in a shared directory."""
    return plan_input.cluster.fetches(host) or plan_input.cluster.slurm_conf_directory is not None


def paths(plan_input: PlanInput) -> tuple[str, ...]:
    """Absolute paths of the files that the phase `slurm.conf` may replace, slurm.conf last."""
    names = {name for name, _ in plan_input.files} | {GRES, JOB_CONTAINER, SCRIPT}
    names |= {one.name for one in plan_input.site_files}
    names |= {name for facts in plan_input.facts.values() for name in facts.written_site_files}
    ordered = sorted(names, key=lambda name: (name == "slurm.conf", name))
    mark = f"{plan_input.cluster.state_directory}/{NAME_MARK}"
    shared = plan_input.cluster.slurm_conf_directory
    places = [f"{folder}/{name}" for folder in filter(None, (SLURM_DIRECTORY, shared)) for name in ordered]
    return mark, SITE_FILES, *places


def before(run: Run, *files: str) -> EarlierFiles:
    """These files as they were before this run."""
    return EarlierFiles(files, run.id, secret=SLURMDBD_CONF in files)


def slurmd(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """slurmd with the files that are on its host, if it ran before and reads its own files."""
    if not runs_slurmd(plan_input, host) or plan_input.cluster.fetches(host):
        return ()
    files = read_by_slurmd(plan_input)
    return (Service("slurmd", watches=files, answers=SHOW_SLURMD, stops_early=True),)


def runs_slurmd(plan_input: PlanInput, host: str) -> bool:
    """Whether slurmd ran on a compute node before the phases."""
    return plan_input.is_compute_node(host) and runs(plan_input, host, "slurmd")


def can_work(run: Run, plan_input: PlanInput, host: str) -> bool:
    """Whether a node can be ready for jobs again: slurmd ran there, and the host was not lost since."""
    return runs_slurmd(plan_input, host) and isinstance(run.failed_hosts.get(host), HostFailed | None)


def runs(plan_input: PlanInput, host: str, unit: str) -> bool:
    """Whether a unit was active on a host before the phases."""
    return host in plan_input.facts and plan_input.facts[host].services.get(unit) == "active"


def is_of_slurmdbd(resource: Resource) -> bool:
    """Whether a resource of the phase `database` is slurmdbd itself."""
    return resource.id.partition(":")[2].partition(":")[0] == "slurmdbd"
