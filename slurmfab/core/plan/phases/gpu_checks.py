"""Scheduled GPU and network checks by jobs: a program, its settings and a systemd timer on the primary controller."""

from __future__ import annotations

import json

from slurmfab.base.paths import GPU_CHECK_HISTORY, GPU_CHECK_PROGRAM, GPU_CHECK_SETTINGS, GPU_CHECK_UNIT, UNIT_FILES
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.gpu_checks import GpuChecks
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.inventory.own_jobs import partition_of_own_jobs
from slurmfab.cluster.slurm.render import fill
from slurmfab.core.plan.phases.capability import program_files
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.directory import Directory
from slurmfab.on_hosts.agent.files.file import Absent, File
from slurmfab.on_hosts.agent.files.program import Program
from slurmfab.on_hosts.agent.services.service import Service
from slurmfab.on_hosts.agent.services.units import Timer

SERVICE_FILE, TIMER_FILE = (f"{UNIT_FILES}/{GPU_CHECK_UNIT}.{kind}" for kind in ("service", "timer"))

BESIDES_WAITING = 120  # minutes that a run may take in addition to `wait` and four time limits of measurements


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The check program and its units on the primary controller; elsewhere their removal. The history stays."""
    checks = plan_input.cluster.own_gpu_checks
    if checks is None or host != plan_input.cluster.controller:
        return gone(plan_input, host)
    context = {
        "program": GPU_CHECK_PROGRAM,
        "settings": GPU_CHECK_SETTINGS,
        "directory": GPU_CHECK_HISTORY,
        "calendar": checks.calendar,
        "minutes": checks.wait + 4 * checks.minutes + BESIDES_WAITING,
    }
    return (
        Directory(GPU_CHECK_HISTORY, owner="slurm", group="slurm"),
        Program(GPU_CHECK_PROGRAM, program_files("programs.gpu_check.main")),
        File(GPU_CHECK_SETTINGS, settings(checks, own_partition(plan_input.cluster, plan_input.lock))),
        File(SERVICE_FILE, fill(f"{GPU_CHECK_UNIT}.service", context)),
        *timer(plan_input, host, checks, context),
    )


def timer(plan_input: PlanInput, host: str, checks: GpuChecks, context: dict[str, object]) -> tuple[Resource, ...]:
    """The timer, or its removal if the checks run only on request."""
    if checks.calendar:
        return (File(TIMER_FILE, fill(f"{GPU_CHECK_UNIT}.timer", context)), Timer(GPU_CHECK_UNIT))
    return timer_gone(plan_input, host)


def timer_gone(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The removal of the timer, if it exists."""
    if f"{GPU_CHECK_UNIT}.timer" not in plan_input.facts[host].services:
        return ()
    return (Service(f"{GPU_CHECK_UNIT}.timer", running=False), Absent(TIMER_FILE))


def gone(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The removal of program and units, whose service goes last: so the next run completes an interrupted one."""
    if f"{GPU_CHECK_UNIT}.service" not in plan_input.facts[host].services:
        return ()
    return (
        *timer_gone(plan_input, host),
        Service(GPU_CHECK_UNIT, running=False),
        Program(GPU_CHECK_PROGRAM, ()),
        Absent(GPU_CHECK_SETTINGS),
        Absent(SERVICE_FILE),
    )


def own_partition(cluster: Cluster, lock: Lock) -> str | None:
    """The partition of checks: `None` for slurmfab's, or the first with all, or some, nodes with GPUs."""
    if cluster.own_partition:
        return None
    has_gpus = {host for host, known in lock.hosts.items() if known.gpus}
    nodes = [node for node in cluster.compute_nodes if node in has_gpus] or list(cluster.compute_nodes)
    some = (partition_of_own_jobs(cluster, (node,)) for node in nodes)
    return partition_of_own_jobs(cluster, nodes) or next(filter(None, some), None)


def settings(checks: GpuChecks, partition: str | None = None) -> str:
    """The settings of the check program as JSON text. `partition`: of the jobs, if the cluster file names none."""
    wanted = {**checks.model_dump(exclude={"when"}), "directory": GPU_CHECK_HISTORY}
    wanted["partition"] = checks.partition or partition
    return json.dumps(wanted, indent=1, sort_keys=True) + "\n"
