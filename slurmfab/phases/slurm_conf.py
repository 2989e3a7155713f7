"""Slurm's files and directories: byte for byte the same files on all hosts."""

from __future__ import annotations

from slurmfab.accounting.slurmdbd import joins_accounting
from slurmfab.agent.absent import Absent
from slurmfab.agent.directory import Directory
from slurmfab.agent.file import File
from slurmfab.agent.resource import Resource
from slurmfab.agent.slurm_files import SlurmFiles
from slurmfab.agent.slurm_state import SlurmState
from slurmfab.phases.once import once
from slurmfab.situation import Situation
from slurmfab.slurm.refusals import SCRIPT
from slurmfab.slurm.render import fill

CONFIGURATION = "/etc/slurm"
GRES = "gres.conf"
WATCHED = tuple(f"{CONFIGURATION}/{name}" for name in ("slurm.conf", GRES, "cgroup.conf"))
"""The files that slurmd reads once, when it starts."""

JOB_CONTAINER = "job_container.conf"
"""The file about directories that each job has for itself; slurmd reads it as well, where slurm.conf asks for them."""

NAME_MARK = "clustername"
"""The file of the state directory in which slurmctld keeps whose state it is."""

SPOOL = "/var/lib/slurm/slurmd"
LOGS = "/var/log/slurm"


def resources(situation: Situation, host: str) -> tuple[Resource, ...]:
    """The directories that the host's daemons write to, and the files, parsed by the installed Slurm beforehand.

    A gres.conf that describes nothing any more goes, and so does a job_container.conf of ours. Job scripts lie in the
    state directory, so it is the slurm user's alone; jobs read theirs in the spool directory. The primary brings the
    state along to another directory. When the cluster gets another name, the mark of the old one goes, or slurmctld
    would refuse to start (slurm.conf(5)). The script for jobs is there before the slurm.conf that names it, for
    slurmctld does not start without it.
    """
    state = situation.cluster.state_directory
    is_primary = host == situation.cluster.controller
    roles = situation.cluster.roles(host)
    node = host if situation.is_compute_node(host) else ""
    private = situation.cluster.private_tmp
    return (
        Directory(LOGS, "slurm", "slurm", 0o755),
        *((Directory(state, "slurm", "slurm", 0o700),) if "controller" in roles else ()),
        *((Directory(SPOOL, "root", "root", 0o755),) if "compute" in roles else ()),
        *((Directory(private.base, "root", "root", 0o755),) if private and "compute" in roles else ()),
        *((SlurmState(state, situation.state_before),) if is_primary and situation.moves_state else ()),
        *((Absent(f"{state}/{NAME_MARK}"),) if is_primary and is_another(situation) else ()),
        *((submit_script(situation),) if "controller" in roles and situation.slurm_conf.explains_refusals else ()),
        *(own_files(situation, node) if has_own_files(situation, host) else ()),
        *((Absent(f"{CONFIGURATION}/{JOB_CONTAINER}"),) if not private and had_private_tmp(situation, host) else ()),
    )


def own_files(situation: Situation, node: str) -> tuple[Resource, ...]:
    """Slurm's files where a host has its own.

    Args:
        situation: what is wanted and known.
        node: the host's NodeName, empty where no slurmd runs.
    """
    files = SlurmFiles(CONFIGURATION, situation.files, node)
    return (files,) if GRES in dict(situation.files) else (files, Absent(f"{CONFIGURATION}/{GRES}"))


def has_own_files(situation: Situation, host: str) -> bool:
    """Whether a host has Slurm's files of its own, be it only until it fetches them from slurmctld."""
    return not situation.cluster.fetches(host) or is_about_to_fetch(situation, host)


def is_about_to_fetch(situation: Situation, host: str) -> bool:
    """Whether slurmd on a host runs with files of its own, and is to fetch them from slurmctld."""
    if not situation.cluster.fetches(host) or host not in situation.facts:
        return False
    facts = situation.facts[host]
    return not facts.fetches and facts.services.get("slurmd") == "active"


def had_private_tmp(situation: Situation, host: str) -> bool:
    """Whether a host has a job_container.conf of ours."""
    return host in situation.facts and situation.facts[host].has_our_job_container_conf


def submit_script(situation: Situation) -> File:
    """What slurmctld asks about every job; it reads it anew when it has changed."""
    return File(f"{CONFIGURATION}/{SCRIPT}", fill(SCRIPT, {"cluster_name": situation.cluster.name}))


@once
def read_by_slurmd(situation: Situation) -> tuple[str, ...]:
    """The files that slurmd reads when it starts."""
    return (*WATCHED, f"{CONFIGURATION}/{JOB_CONTAINER}") if situation.cluster.private_tmp else WATCHED


@once
def is_another(situation: Situation) -> bool:
    """Whether the cluster is to have another name, or another number, from a slurmdbd."""
    return situation.renames_cluster or joins_accounting(situation)
