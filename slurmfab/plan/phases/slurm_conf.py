"""Slurm's files, identical on all hosts, and the directories of its daemons."""

from __future__ import annotations

from slurmfab.agent.core.resource import Resource
from slurmfab.agent.files.absent import Absent
from slurmfab.agent.files.directory import Directory
from slurmfab.agent.files.file import File
from slurmfab.agent.slurm.files import SlurmFiles
from slurmfab.agent.slurm.state import SlurmState
from slurmfab.agent.slurm.state_access import StateAccess
from slurmfab.paths import SLURM_DIRECTORY, SLURM_SPOOL
from slurmfab.plan.database_order import joins_accounting
from slurmfab.plan.directories import log_directory, private_directory, slurm_directory, state_directory
from slurmfab.plan.phases.once import once
from slurmfab.plan.plan_input import PlanInput
from slurmfab.slurm.job_submit_script import SCRIPT
from slurmfab.slurm.render import fill

GRES = "gres.conf"
WATCHED = tuple(f"{SLURM_DIRECTORY}/{name}" for name in ("slurm.conf", GRES, "cgroup.conf"))
"""The files that slurmd reads only when it starts."""

JOB_CONTAINER = "job_container.conf"
"""The file about private directories of jobs; slurmd reads it if JobContainerType or NamespaceType asks for it."""

NAME_MARK = "clustername"
"""The file in the state directory in which slurmctld stores the cluster's name and ID."""


def state(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """/etc/slurm, and the state directory with all in it as slurmctld needs it, before slurmctld is stopped.

    It holds job scripts, so only the slurm user may read it; jobs read theirs in the spool directory.
    """
    if host not in plan_input.cluster.controllers:
        return ()
    path = plan_input.cluster.state_directory
    return (
        slurm_directory(),
        state_directory(path),
        StateAccess(plan_input.state_before or path, str(plan_input.slurm_version)),
    )


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The directories of the host's daemons, and Slurm's files, which the installed Slurm has to accept first.

    If StateSaveLocation changes, the primary controller copies the state. If the cluster's name or ID changes, the
    stored one is removed, because slurmctld would refuse to start (slurm.conf(5)). The job submit script comes before
    the slurm.conf that names it, because slurmctld does not start without it. An unused gres.conf is removed, and so is
    an unused job_container.conf if slurmfab wrote it.
    """
    state = plan_input.cluster.state_directory
    is_primary = host == plan_input.cluster.controller
    roles = plan_input.cluster.roles(host)
    node = host if plan_input.is_compute_node(host) else ""
    private = plan_input.cluster.private_tmp
    return (
        *((slurm_directory(),) if "controller" not in roles and has_own_files(plan_input, host) else ()),
        log_directory(),
        *((Directory(SLURM_SPOOL, "root", "root", 0o755),) if "compute" in roles else ()),
        *((private_directory(private.base),) if private and "compute" in roles else ()),
        *((SlurmState(state, plan_input.state_before),) if is_primary and plan_input.moves_state else ()),
        *((Absent(f"{state}/{NAME_MARK}"),) if is_primary and is_another(plan_input) else ()),
        *((submit_script(plan_input),) if "controller" in roles and plan_input.slurm_conf.explains_refusals else ()),
        *(own_files(plan_input, node, previewed=is_primary) if has_own_files(plan_input, host) else ()),
        *((Absent(f"{SLURM_DIRECTORY}/{JOB_CONTAINER}"),) if not private and had_private_tmp(plan_input, host) else ()),
    )


def own_files(plan_input: PlanInput, node: str, *, previewed: bool = False) -> tuple[Resource, ...]:
    """Slurm's files on a host with local files; an unused gres.conf is removed.

    Args:
        plan_input: the cluster file, the lock and the facts.
        node: the host's NodeName; empty on a host without slurmd.
        previewed: whether the installed Slurm judges them before anything is changed; one host's is enough.
    """
    files = SlurmFiles(SLURM_DIRECTORY, plan_input.files, node, previewed=previewed)
    return (files,) if GRES in dict(plan_input.files) else (files, Absent(f"{SLURM_DIRECTORY}/{GRES}"))


def has_own_files(plan_input: PlanInput, host: str) -> bool:
    """Whether a host gets local files, for good or until its slurmd fetches them from slurmctld."""
    return not plan_input.cluster.fetches(host) or is_about_to_fetch(plan_input, host)


def is_about_to_fetch(plan_input: PlanInput, host: str) -> bool:
    """Whether slurmd runs with local files on a host that fetches them according to the cluster file."""
    if not plan_input.cluster.fetches(host) or host not in plan_input.facts:
        return False
    facts = plan_input.facts[host]
    return not facts.fetches and facts.services.get("slurmd") == "active"


def had_private_tmp(plan_input: PlanInput, host: str) -> bool:
    """Whether a host has a job_container.conf that slurmfab wrote."""
    return host in plan_input.facts and plan_input.facts[host].has_our_job_container_conf


def submit_script(plan_input: PlanInput) -> File:
    """The job submit script that slurmctld runs for every job; slurmctld reads it again when it has changed."""
    return File(f"{SLURM_DIRECTORY}/{SCRIPT}", fill(SCRIPT, {"cluster_name": plan_input.cluster.name}))


@once
def read_by_slurmd(plan_input: PlanInput) -> tuple[str, ...]:
    """Absolute paths of the files that slurmd reads when it starts."""
    return (*WATCHED, f"{SLURM_DIRECTORY}/{JOB_CONTAINER}") if plan_input.cluster.private_tmp else WATCHED


@once
def is_another(plan_input: PlanInput) -> bool:
    """Whether the cluster gets another name, or another cluster ID from a slurmdbd."""
    return plan_input.renames_cluster or joins_accounting(plan_input)
