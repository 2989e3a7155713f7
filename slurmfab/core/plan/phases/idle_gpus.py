"""What finds jobs whose GPUs are idle: a service on nodes with GPUs, and a timer on the primary controller."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator

from slurmfab.base.paths import (
    IDLE_GPUS_POLICY,
    IDLE_GPUS_POLICY_UNIT,
    IDLE_GPUS_PROGRAM,
    IDLE_GPUS_SETTINGS,
    IDLE_GPUS_STATE,
    IDLE_GPUS_UNIT,
    UNIT_FILES,
)
from slurmfab.cluster.inventory.gpu_checks import IdleGpus
from slurmfab.cluster.slurm.render import fill
from slurmfab.core.plan.phases.capability import owned, program_files
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.directory import Directory
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.files.program import Program
from slurmfab.on_hosts.agent.services.service import Service
from slurmfab.on_hosts.agent.services.units import Timer
from slurmfab.on_hosts.programs.idle_gpus.watch import JOBS

CAPABILITY = "idle-gpus"
SCRIPT = "05-slurmfab-idle-gpus"
TIMER, WATCHER = f"{IDLE_GPUS_POLICY_UNIT}.timer", f"{IDLE_GPUS_UNIT}.service"


def has_gpus(plan_input: PlanInput, host: str) -> bool:
    """Whether idle GPUs are looked for on a host."""
    if plan_input.cluster.idle_gpus is None or not plan_input.is_compute_node(host):
        return False
    return plan_input.lock.tells_gpu_use(host)


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The program with its service on nodes, and with its timer on the primary controller; or their removal."""
    policy = plan_input.cluster.idle_gpus
    watches, decides = has_gpus(plan_input, host), host == plan_input.cluster.controller
    if policy is None or not (watches or decides):
        return gone(plan_input, host)
    user, group = plan_input.slurm_owner(host)
    files = (
        *(watcher(policy, host, user, group) if watches else ()),
        *(decider(policy, user, group) if decides else ()),
    )
    program = program_files("programs.idle_gpus.main")
    watched = (IDLE_GPUS_SETTINGS, *(f"{IDLE_GPUS_PROGRAM}/{path}" for path, _ in program))
    return (
        *stopped(plan_input, host, watches=watches, decides=decides),
        *((Directory(IDLE_GPUS_STATE, owner=user, group=group),) if decides else ()),
        Program(IDLE_GPUS_PROGRAM, program),
        *owned(plan_input, host, CAPABILITY, files),
        *((Service(IDLE_GPUS_UNIT, watches=(*watched, f"{UNIT_FILES}/{WATCHER}")),) if watches else ()),
        *((Timer(IDLE_GPUS_POLICY_UNIT),) if decides else ()),
    )


def watcher(policy: IdleGpus, host: str, user: str, group: str) -> Iterator[OwnedFile]:
    """Yield the files of the service on a node. `user`: the slurm user."""
    context = {"program": IDLE_GPUS_PROGRAM, "settings": f"watch {IDLE_GPUS_SETTINGS}", "user": user, "group": group}
    yield OwnedFile(IDLE_GPUS_SETTINGS, json.dumps({"node": host, "after": policy.after}) + "\n")
    yield OwnedFile(f"{UNIT_FILES}/{WATCHER}", fill(WATCHER, context))


def decider(policy: IdleGpus, user: str, group: str) -> Iterator[OwnedFile]:
    """Yield the files of the timer on the primary controller. `user`: the slurm user."""
    context = {"program": IDLE_GPUS_PROGRAM, "settings": f"act {IDLE_GPUS_POLICY}", "user": user, "group": group}
    settings = {**policy.model_dump(), "mail": policy.mail == "user", "state": f"{IDLE_GPUS_STATE}/told.json"}
    yield OwnedFile(IDLE_GPUS_POLICY, json.dumps(settings, sort_keys=True) + "\n")
    for unit in (f"{IDLE_GPUS_POLICY_UNIT}.service", TIMER):
        yield OwnedFile(f"{UNIT_FILES}/{unit}", fill(unit, context))


def stopped(plan_input: PlanInput, host: str, *, watches: bool, decides: bool) -> Iterator[Resource]:
    """Yield the end of units that the host has and should not have."""
    services = plan_input.facts[host].services if host in plan_input.facts else {}
    for unit, wanted in ((TIMER, decides), (WATCHER, watches)):
        if unit in services and not wanted:
            yield Service(unit, running=False)


def gone(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The removal of all of it; the record of the files goes last, so that an interrupted run finds it."""
    if not plan_input.owns(host, CAPABILITY):
        return ()
    return (
        *stopped(plan_input, host, watches=False, decides=False),
        Program(IDLE_GPUS_PROGRAM, ()),
        *owned(plan_input, host, CAPABILITY, ()),
    )


def script(plan_input: PlanInput, host: str, kind: str) -> tuple[tuple[str, str], ...]:
    """Name and text of the script before or after jobs (`prolog`, `epilog`); empty for a host without GPUs."""
    return ((SCRIPT, script_text(kind)),) if has_gpus(plan_input, host) else ()


@functools.cache
def script_text(kind: str) -> str:
    """The text of that script, the same on all nodes."""
    return fill("idle-gpus", {"kind": kind, "directory": JOBS})
