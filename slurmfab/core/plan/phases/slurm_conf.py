"""Slurm's files, identical on all hosts, and the directories of its daemons, in two phases."""

from __future__ import annotations

import posixpath

from slurmfab.base.paths import SLURM_DIRECTORY
from slurmfab.cluster.slurm.job_submit_script import SCRIPT
from slurmfab.cluster.slurm.site_files import SLURMD
from slurmfab.cluster.slurm.versions import reconfigure_renews_daemons
from slurmfab.core.plan.directories import (
    log_directory,
    other_uses,
    private_directory,
    shared_directory,
    site_directories,
    slurm_directory,
    slurmd_directories,
    state_directory,
    unguarded,
)
from slurmfab.core.plan.hand_made_files import may_keep_gres
from slurmfab.core.plan.phases import daemon_users, log_rotation, site_files
from slurmfab.core.plan.phases.capability import once
from slurmfab.core.plan.phases.database import joins_accounting
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.file import Absent, File
from slurmfab.on_hosts.agent.slurm.files import SlurmFiles
from slurmfab.on_hosts.agent.slurm.shared_files import SharedFiles
from slurmfab.on_hosts.agent.slurm.state import SlurmState
from slurmfab.on_hosts.agent.slurm.state_access import StateAccess

GRES = "gres.conf"
WATCHED = tuple(f"{SLURM_DIRECTORY}/{name}" for name in ("slurm.conf", GRES, "cgroup.conf"))
"""The files that slurmd reads only when it starts."""

JOB_CONTAINER = "job_container.conf"
"""The file about private directories of jobs; slurmd reads it if JobContainerType or NamespaceType asks for it."""

NAME_MARK = "clustername"  # the file in the state directory in which slurmctld stores the cluster's name and ID


DEFAULT_PORT = "6817"


def directories(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The directories of the host's daemons, slurmctld's state as slurmctld needs it, and the rotation of logs.

    The state holds job scripts, so only the slurm user may read it; jobs read theirs in the spool directory. Without
    `guard_directories`, what is there stays as it is.
    """
    cluster = plan_input.cluster
    is_controller = host in cluster.controllers
    state, private = cluster.state_directory, cluster.private_tmp
    shared = cluster.slurm_conf_directory if host == cluster.controller else None
    access = StateAccess(plan_input.state_before or state, str(plan_input.slurm_version), cluster.slurm_user)
    own_state = state_directory(state, plan_input.slurm_owner(host), other_uses(plan_input, host))
    found = (
        *((slurm_directory(),) if is_controller or has_own_files(plan_input, host) else ()),
        *((shared_directory(shared),) if shared else ()),
        log_directory(plan_input, host),
        # Before slurmd's, which may be the same: one that is made is the slurm user's, and open to jobs.
        *((own_state,) if is_controller else ()),
        *site_directories(plan_input, host),
        *slurmd_directories(plan_input, host),
        *((private_directory(private.base),) if private and "compute" in cluster.roles(host) else ()),
        *((access,) if is_controller else ()),
        *daemon_users.resources(plan_input, host, "slurmctld"),
    )
    return (*(found if cluster.guard_directories else unguarded(found)), *log_rotation.resources(plan_input, host))


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """Slurm's files, which the installed Slurm has to accept before any is replaced.

    If StateSaveLocation changes, the primary controller copies the state. If the cluster's name or ID changes, the
    stored one is removed, because slurmctld would refuse to start (slurm.conf(5)). The job submit script comes before
    the slurm.conf that names it, because slurmctld does not start without it. An unused gres.conf is removed, and so is
    an unused job_container.conf if slurmfab wrote it. In a directory that the hosts share, the primary controller does
    this for all. Files that are kept (`keep_files`) are neither written nor removed.
    """
    if plan_input.keeps_files:
        return ()
    state = plan_input.cluster.state_directory
    is_primary = host == plan_input.cluster.controller
    roles = plan_input.cluster.roles(host)
    has_own = has_own_files(plan_input, host)
    return (
        *((SlurmState(state, plan_input.state_before),) if is_primary and plan_input.moves_state else ()),
        *((Absent(f"{state}/{NAME_MARK}"),) if is_primary and is_another(plan_input) else ()),
        *((submit_script(plan_input),) if "controller" in roles and plan_input.slurm_conf.explains_refusals else ()),
        *site_files.written(plan_input, host, has_own_files=has_own),
        *(own_files(plan_input, host, previewed=is_primary) if has_own else ()),
        *site_files.former(plan_input, host, has_own_files=has_own, read_by_daemons=True),
        *(absent(plan_input, host, JOB_CONTAINER) if had_private_tmp(plan_input, host) else ()),
    )


def own_files(plan_input: PlanInput, host: str, *, previewed: bool = False) -> tuple[Resource, ...]:
    """Slurm's files on a host with files of its own; an unused gres.conf is removed.

    `previewed`: whether the installed Slurm judges them before anything is changed; one host's is enough.
    """
    node = host if plan_input.is_compute_node(host) else ""
    files = plan_input.files_of(host)
    kept = tuple(name for name, text in files if text != plan_input.rendered.get(name))
    stays = plan_input.hand_made and may_keep_gres(plan_input.facts[host].gres_conf, node)
    gone = () if GRES in plan_input.rendered or stays else absent(plan_input, host, GRES)
    shared = plan_input.cluster.slurm_conf_directory
    if shared is None:
        return (SlurmFiles(SLURM_DIRECTORY, files, node, previewed=previewed, kept=kept), *gone)
    writes = host == plan_input.cluster.controller
    own = tuple((file.name, file.text) for file in plan_input.site_files)
    links = SharedFiles(SLURM_DIRECTORY, shared, (*files, *own), tuple(name for name, _ in own), writes)
    return (*((SlurmFiles(shared, files, node, previewed=previewed, kept=kept),) if writes else ()), links, *gone)


def absent(plan_input: PlanInput, host: str, name: str) -> tuple[Resource, ...]:
    """The removal of one of Slurm's files on a host; from a shared directory by the primary controller."""
    folders = (*site_files.written_in(plan_input, host), SLURM_DIRECTORY)
    return tuple(Absent(f"{folder}/{name}") for folder in dict.fromkeys(folders))


def watched(plan_input: PlanInput, host: str, paths: tuple[str, ...]) -> tuple[str, ...]:
    """Those of Slurm's files that are newer than a daemon of this host only if it has not loaded them.

    Before 23.11 a reconfigure by hand leaves no trace, so a hand-made file may be newer than the daemon that loaded it.
    """
    if reconfigure_renews_daemons(plan_input.slurm_of(host)):
        return paths
    return tuple(path for path in paths if not plan_input.is_as_found(host, posixpath.basename(path)))


def has_own_files(plan_input: PlanInput, host: str) -> bool:
    """Whether a host gets local files, for good or until its slurmd fetches them from slurmctld."""
    if lives_without_files(plan_input, host):
        return False
    return not plan_input.cluster.fetches(host) or is_about_to_fetch(plan_input, host)


def lives_without_files(plan_input: PlanInput, host: str) -> bool:
    """Whether a host of slurmdbd alone, which reads none, has no slurm.conf in a hand-made cluster."""
    if not plan_input.cluster.is_for_database_alone(host) or host not in plan_input.facts:
        return False
    return bool(plan_input.hand_made) and not plan_input.facts[host].slurm_conf_digest


def is_about_to_fetch(plan_input: PlanInput, host: str) -> bool:
    """Whether slurmd runs with local files on a host that fetches them according to the cluster file."""
    if not plan_input.cluster.fetches(host) or host not in plan_input.facts:
        return False
    facts = plan_input.facts[host]
    is_new = not facts.fetches and not site_servers(plan_input, host)
    return is_new and facts.services.get("slurmd") == "active"


def had_private_tmp(plan_input: PlanInput, host: str) -> bool:
    """Whether a host has a job_container.conf that slurmfab wrote for `private_tmp`, and that nobody wants any more."""
    is_wanted = plan_input.cluster.private_tmp or JOB_CONTAINER in plan_input.cluster.slurm_files
    return not is_wanted and host in plan_input.facts and plan_input.facts[host].has_our_job_container_conf


def submit_script(plan_input: PlanInput) -> File:
    """The job submit script that slurmctld runs for every job; slurmctld reads it again when it has changed."""
    return File(f"{SLURM_DIRECTORY}/{SCRIPT}", plan_input.submit_script)


@once
def read_by_slurmd(plan_input: PlanInput) -> tuple[str, ...]:
    """Absolute paths of the files that slurmd reads when it starts."""
    private = (f"{SLURM_DIRECTORY}/{JOB_CONTAINER}",) if plan_input.cluster.private_tmp else ()
    return (*WATCHED, *private, *site_files.read_by(plan_input, SLURMD))


@once
def is_another(plan_input: PlanInput) -> bool:
    """Whether the cluster gets another name, or another cluster ID from a slurmdbd."""
    return plan_input.renames_cluster or joins_accounting(plan_input)


def port(plan_input: PlanInput) -> str:
    """The port at which slurmctld serves files; the first, if it has several."""
    return plan_input.conf_wanted.settings.get("slurmctldport", DEFAULT_PORT).partition("-")[0]


def site_servers(plan_input: PlanInput, host: str) -> str:
    """The site's `--conf-server` of a slurmd, if of this cluster's controllers alone; empty otherwise."""
    facts = plan_input.facts.get(host)
    if not facts or facts.fetches or not plan_input.cluster.fetches(host):
        return ""
    places = facts.conf_server.split(",")
    return facts.conf_server if all(is_controller(plan_input, place) for place in places) else ""


def is_controller(plan_input: PlanInput, place: str) -> bool:
    """Whether slurmctld of this cluster listens at a place, such as `ctl:6817` or `[fd83::11]`."""
    name, colon, number = place.rpartition(":")
    if not colon or place.endswith("]"):
        name, number = place, DEFAULT_PORT
    controllers = plan_input.cluster.controllers
    is_one = any(plan_input.is_same_host(name.strip("[]"), controller) for controller in controllers)
    return bool(name) and number == port(plan_input) and is_one
