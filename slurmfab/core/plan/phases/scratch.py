"""Directories of jobs on compute nodes' own disks: made before each job, and removed after it."""

from __future__ import annotations

import functools
import json

from slurmfab.base.paths import SCRATCH_PROGRAM, SCRATCH_SETTINGS
from slurmfab.cluster.inventory.mounts import covering
from slurmfab.cluster.inventory.storage import mounts_of
from slurmfab.cluster.slurm.render import fill
from slurmfab.core.plan.phases.capability import owned, program_files, removed
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.files.program import Program
from slurmfab.on_hosts.agent.scratch.scratch_directory import ScratchDirectory

CAPABILITY = "scratch"
SCRIPTS = {"prolog": "00-slurmfab-scratch", "epilog": "zz-slurmfab-scratch"}
"""Names of the scripts: before those of the site's own, which may use the directory, and after them."""


def has_some(plan_input: PlanInput, host: str) -> bool:
    """Whether jobs have directories on a host."""
    scratch = plan_input.cluster.scratch
    return scratch is not None and plan_input.is_compute_node(host) and bool(scratch.of_node(host))


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The directory for those of jobs, the program, and its settings; empty for other hosts."""
    scratch = plan_input.cluster.scratch
    if scratch is None or not has_some(plan_input, host):
        return ()
    below = covering(mounts_of(plan_input.cluster, host), scratch.path)
    mount = below.path if below else ""
    settings = {"path": scratch.path, "mount": mount, "node": host}
    return (
        ScratchDirectory(scratch.path, mount),
        Program(SCRATCH_PROGRAM, program_files("programs.scratch.main")),
        *owned(plan_input, host, CAPABILITY, (OwnedFile(SCRATCH_SETTINGS, json.dumps(settings) + "\n"),)),
    )


def script(plan_input: PlanInput, host: str, kind: str) -> tuple[tuple[str, str], ...]:
    """Name and text of the script before or after jobs; empty for a host without directories."""
    return ((SCRIPTS[kind], script_text(kind)),) if has_some(plan_input, host) else ()


@functools.cache
def script_text(kind: str) -> str:
    """The text of the script of this kind, the same on all nodes."""
    return fill("scratch", {"kind": kind, "program": SCRATCH_PROGRAM, "settings": SCRATCH_SETTINGS})


def gone(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The removal of all of it; the record of the settings goes last, so that an interrupted run finds it."""
    if has_some(plan_input, host):
        return ()
    directory = (ScratchDirectory(""),) if CAPABILITY in plan_input.facts[host].owned else ()
    return (*directory, *removed(plan_input, host, CAPABILITY, SCRATCH_PROGRAM))
