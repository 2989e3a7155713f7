"""Files of the site's own in Slurm's directory: where they are, and which daemons read them.

They come before the slurm.conf that names them. A former one goes after it: with slurm.conf's phase if a daemon has
read it, so that it reads anew, and at the end otherwise, because Slurm drains a node whose prolog is missing.
"""

from __future__ import annotations

from slurmfab.base.paths import SLURM_DIRECTORY
from slurmfab.cluster.inventory.slurm_files import SiteFile
from slurmfab.cluster.slurm.job_submit_script import SCRIPT
from slurmfab.cluster.slurm.site_files import is_for_controllers, is_served, readers
from slurmfab.core.plan.phases.capability import once
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.file import Absent
from slurmfab.on_hosts.agent.slurm.site_files import SiteFiles


def written_in(plan_input: PlanInput, host: str) -> tuple[str, ...]:
    """The directory in which a host writes Slurm's files; none where another host writes them for all."""
    shared, is_primary = plan_input.cluster.slurm_conf_directory, host == plan_input.cluster.controller
    return (shared or SLURM_DIRECTORY,) if shared is None or is_primary else ()


def written(plan_input: PlanInput, host: str, *, has_own_files: bool) -> tuple[Resource, ...]:
    """The site's files that a host writes, if not for itself (`has_own_files`), for slurmctld to serve."""
    files = wanted(plan_input, has_own_files, "controller" in plan_input.cluster.roles(host))
    values = tuple((one.name, one.text, one.mode) for one in files)
    return tuple(SiteFiles(folder, values) for folder in written_in(plan_input, host) if files)


def former(plan_input: PlanInput, host: str, *, has_own_files: bool, read_by_daemons: bool) -> tuple[Resource, ...]:
    """The removal of files that slurmfab has written on a host and the cluster file no longer has there.

    Args:
        has_own_files: as for `written`.
        read_by_daemons: whether it is about the files that a daemon reads at its start, or about the others.
    """
    shared = plan_input.cluster.slurm_conf_directory
    writer = plan_input.cluster.controller if shared else host
    before = plan_input.facts[writer].written_site_files if writer in plan_input.facts else ()
    if not before:
        return ()
    is_controller = "controller" in plan_input.cluster.roles(host)
    kept = {file.name for file in wanted(plan_input, has_own_files, is_controller)}
    if plan_input.cluster.explains_refusals and is_controller:
        kept.add(SCRIPT)  # slurmfab's own has its place
    gone = tuple(name for name in before if name not in kept and bool(readers(name)) == read_by_daemons)
    links = tuple(Absent(f"{SLURM_DIRECTORY}/{name}") for name in gone) if shared else ()
    folders = written_in(plan_input, host) if gone else ()
    return (*(SiteFiles(folder, (), gone, read_by_daemons) for folder in folders), *links)


def fetched(plan_input: PlanInput) -> tuple[Resource, ...]:
    """The removal of the local files that a configless node fetches instead."""
    names = tuple(file.name for file in served(plan_input))
    return (SiteFiles(SLURM_DIRECTORY, (), names),) if names else ()


@once
def wanted(plan_input: PlanInput, has_own_files: bool, is_controller: bool) -> tuple[SiteFile, ...]:
    """The site's files on hosts with files of their own, or on those that fetch what slurmctld serves."""
    there = (one for one in plan_input.site_files if is_controller or not is_for_controllers(one.name))
    return tuple(one for one in there if has_own_files or not is_served(one.name, plan_input.slurm_version))


@once
def served(plan_input: PlanInput) -> tuple[SiteFile, ...]:
    """The site's files that slurmctld serves to configless nodes."""
    return tuple(file for file in plan_input.site_files if is_served(file.name, plan_input.slurm_version))


def served_paths(plan_input: PlanInput, paths: tuple[str, ...]) -> tuple[str, ...]:
    """These paths, and those of the site's files that slurmctld serves from memory, each once."""
    return tuple(dict.fromkeys((*paths, *(f"{SLURM_DIRECTORY}/{file.name}" for file in served(plan_input)))))


@once
def read_by(plan_input: PlanInput, daemon: str) -> tuple[str, ...]:
    """Absolute paths of the site's files that a daemon, `slurmctld` or `slurmd`, reads when it starts."""
    return tuple(f"{SLURM_DIRECTORY}/{file.name}" for file in plan_input.site_files if daemon in readers(file.name))
