"""Files of the site's own on hosts: those of apt before any package is installed, the others after it."""

from __future__ import annotations

from collections.abc import Iterator

from slurmfab.base.paths import SLURM_LOGS, SLURMD_LOGS
from slurmfab.cluster.inventory.file_contents import text_on
from slurmfab.core.plan.directories import spool_directory
from slurmfab.core.plan.phases import packages
from slurmfab.core.plan.phases.capability import owned
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.free_space import FreeSpace
from slurmfab.on_hosts.agent.files.in_effect import InEffect, reader
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.services.service import Service

APT = "/etc/apt/"  # the directory of the files with package sources, their keys and preferences


def of_apt(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The site's files about package sources on a host, or their removal."""
    return owned(plan_input, host, "apt", wanted(plan_input, host, is_of_apt=True))


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The site's other files on a host, or their removal, what has to read them now, and the units that read them."""
    files = tuple(wanted(plan_input, host, is_of_apt=False))
    written = owned(plan_input, host, "files", files)
    read_now = tuple(file.path for file in files if reader(file.path))
    return (*written, *((InEffect(read_now),) if written else ()), *units(plan_input, files))


def wanted(plan_input: PlanInput, host: str, *, is_of_apt: bool) -> Iterator[OwnedFile]:
    """Yield the site's files on a host. `is_of_apt`: whether those below apt's directory are meant, or the others."""
    cluster = plan_input.cluster
    for content in plan_input.own_files:
        one = cluster.files[content.path]
        if content.path.startswith(APT) == is_of_apt and one.is_on(host, cluster.roles(host)):
            text = text_on(cluster, host, content)
            yield OwnedFile(content.path, text, one.bits, one.owner, one.group, one.is_secret)


def units(plan_input: PlanInput, files: tuple[OwnedFile, ...]) -> Iterator[Service]:
    """Yield the units that read some of a host's files when they start, each with all of these files."""
    readers: dict[str, list[str]] = {}
    for file in files:
        unit = plan_input.cluster.files[file.path].restart
        if unit:
            readers.setdefault(unit, []).append(file.path)
    return (Service(unit, watches=tuple(paths)) for unit, paths in readers.items())


def with_packages(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """Room, apt's sources, and then the packages: a phase of its own would cost each host one more request."""
    return (free_space(plan_input, host), *of_apt(plan_input, host), *packages.resources(plan_input, host))


def free_space(plan_input: PlanInput, host: str) -> FreeSpace:
    """Room for daemons, before anything is changed; but for /etc/slurm, whose files are replaced or not."""
    roles = plan_input.cluster.roles(host)
    paths = (
        *("/run", *((SLURM_LOGS,) if {"controller", "database"} & {*roles} else ())),
        *((SLURMD_LOGS, spool(plan_input, host)) if "compute" in roles else ()),
        *((plan_input.cluster.state_directory,) if "controller" in roles else ()),
    )
    return FreeSpace(paths)


def spool(plan_input: PlanInput, host: str) -> str:
    """SlurmdSpoolDir of a host; of a new one, whose hardware is not known yet, what the others have."""
    return spool_directory(plan_input, host) if plan_input.is_compute_node(host) else plan_input.lock.spool_directory
