"""Podman without root: its packages and settings, subordinate IDs of users, the command sdocker, and pruned images."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Final

from slurmfab.base.paths import PODMAN_PROGRAM, PODMAN_SETTINGS, PROGRAMS, PRUNE_UNIT, RUNTIME_UNIT, SDOCKER, UNIT_FILES
from slurmfab.cluster.inventory import people_ids
from slurmfab.cluster.inventory.containers import Podman
from slurmfab.cluster.inventory.values import systemd_calendar
from slurmfab.cluster.slurm import software
from slurmfab.cluster.slurm.render import fill
from slurmfab.core.plan.phases.capability import owned, program_files, removed
from slurmfab.core.plan.phases.container_hosts import uses
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.directory import Directory
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.files.program import Program
from slurmfab.on_hosts.agent.people import subordinate_ids as ids_on_hosts
from slurmfab.on_hosts.agent.people.subordinate_ids import SubordinateIds
from slurmfab.on_hosts.agent.people.user_directories import UserDirectories
from slurmfab.on_hosts.agent.services.service import Service
from slurmfab.on_hosts.agent.services.units import Timer, UnitsLoaded

PODMAN: Final = "podman"  # the capability, by which a host remembers its files, and the name of its program

TIMER = f"{PRUNE_UNIT}.timer"
SCRIPT = "10-slurmfab-containers"  # the script before jobs: after that which makes their scratch directories
MINUTES = 40  # how long a removal of images may take; the program stops by itself after 30

STORAGE_CONF = "/etc/containers/storage.conf"
CONTAINERS_CONF = "/etc/containers/containers.conf.d/slurmfab.conf"

COMMAND = """\
#!/bin/sh
# Made by slurmfab from the cluster file; edits here are overwritten.
#
# docker run, with Podman: with the GPUs, the home, the working directory and the scratch directory of the job.
exec /usr/bin/python3 -E -S -s -B {program}/run.py docker {settings} "$@"
"""


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """What Podman needs on a host; without it in the cluster file, the removal of that. Images stay."""
    if not uses(plan_input, host, PODMAN):
        return gone(plan_input, host)
    podman = options(plan_input)
    return (
        *subordinate(plan_input, host),
        UserDirectories(podman.storage, people(plan_input)),
        Directory(PROGRAMS),
        Program(PODMAN_PROGRAM, program_files("programs.containers.main")),
        *([] if podman.prune else timer_gone(plan_input, host)),
        *owned(plan_input, host, PODMAN, files(plan_input, host)),
        *((UnitsLoaded(PODMAN, (RUNTIME_UNIT.replace("@", "@0"),)),) if plan_input.is_compute_node(host) else ()),
        *((Timer(PRUNE_UNIT),) if podman.prune else ()),
    )


def gone(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The removal of everything but images."""
    return (*subordinate(plan_input, host), *removed(plan_input, host, PODMAN, PODMAN_PROGRAM, TIMER))


def timer_gone(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The end of the timer, if the host has it."""
    there = plan_input.facts[host].services if host in plan_input.facts else {}
    return (Service(TIMER, running=False),) if TIMER in there else ()


def packages(plan_input: PlanInput, host: str) -> tuple[str, ...]:
    """The packages of Podman."""
    return software.PODMAN if uses(plan_input, host, PODMAN) else ()


def options(plan_input: PlanInput) -> Podman:
    """The options of the cluster file."""
    containers = plan_input.cluster.containers
    return containers.podman if containers else Podman()


def people(plan_input: PlanInput) -> tuple[str, ...]:
    """The users of the cluster file, and slurm; those of a directory service get a directory with their first job."""
    users = [user.name for user in plan_input.cluster.users] if plan_input.cluster.unix_users else []
    return (*users, people_ids.SLURM)


def subordinate(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The subordinate IDs of users on a host; users of a directory service have theirs from there."""
    wanted = uses(plan_input, host, PODMAN)
    ranges = people_ids.ranges(plan_input.cluster, plan_input.lock.ids) if wanted else ()
    return (SubordinateIds(ranges, people_ids.COUNT),) if ranges or plan_input.owns(host, ids_on_hosts.OF) else ()


def files(plan_input: PlanInput, host: str) -> Iterator[OwnedFile]:
    """Yield the settings of Podman and of slurmfab's program, the command, and the units."""
    podman = options(plan_input)
    yield OwnedFile(STORAGE_CONF, fill("storage.conf", {"storage": podman.storage}))
    yield OwnedFile(CONTAINERS_CONF, fill("containers.conf", {}))
    yield OwnedFile(PODMAN_SETTINGS, settings(plan_input, podman))
    yield OwnedFile(SDOCKER, COMMAND.format(program=PODMAN_PROGRAM, settings=PODMAN_SETTINGS), mode=0o755)
    if plan_input.is_compute_node(host):
        yield OwnedFile(f"{UNIT_FILES}/{RUNTIME_UNIT}", fill(RUNTIME_UNIT, {}))
    if podman.prune:
        context = {"program": PODMAN_PROGRAM, "settings": PODMAN_SETTINGS, "minutes": MINUTES}
        context["calendar"] = systemd_calendar(podman.prune.when)
        for kind in ("service", "timer"):
            yield OwnedFile(f"{UNIT_FILES}/{PRUNE_UNIT}.{kind}", fill(f"{PRUNE_UNIT}.{kind}", context))


def settings(plan_input: PlanInput, podman: Podman) -> str:
    """The settings of the program as JSON text."""
    cluster, numbers = plan_input.cluster, plan_input.lock.ids
    former = people_ids.former(cluster, numbers) if cluster.unix_users else ()
    found = {
        "storage": podman.storage,
        "scratch": cluster.scratch.variable if cluster.scratch else "",
        "unused_for": podman.prune.unused_for if podman.prune else 0,
        "above": (podman.prune.above or 0) if podman.prune else 0,
        "former": sorted(numbers[f"{name}.uid"] for name in former),
    }
    return json.dumps(found, indent=1, sort_keys=True) + "\n"


def script(plan_input: PlanInput, host: str, kind: str) -> tuple[tuple[str, str], ...]:
    """Name and text of the script before jobs; empty for a host without Podman."""
    has_one = kind == "prolog" and uses(plan_input, host, PODMAN)
    return ((SCRIPT, script_text(options(plan_input).storage)),) if has_one else ()


@functools.cache
def script_text(storage: str) -> str:
    """The text of the script, the same on all nodes."""
    return fill("containers-prolog", {"storage": storage})
