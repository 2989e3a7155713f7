"""Containers of Slurm's own: the runtime that oci.conf names, and sbundle, which makes bundles from images."""

from __future__ import annotations

from slurmfab.base.paths import OCI_PROGRAM, SBUNDLE
from slurmfab.cluster.slurm.oci import PYTHON
from slurmfab.cluster.slurm.software import OCI
from slurmfab.core.plan.phases.capability import owned, program_files
from slurmfab.core.plan.phases.container_hosts import uses
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.files.program import Program

CAPABILITY = "oci"

COMMAND = f"""\
#!/bin/sh
# Made by slurmfab from the cluster file, for containers: [oci]; edits here are overwritten.
exec {PYTHON} {OCI_PROGRAM}/run.py bundle "$@"
"""
"""The text of sbundle."""


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The program, and the command for users, which goes with the key; the program stays while oci.conf names it."""
    if not uses(plan_input, host, "oci"):
        return owned(plan_input, host, CAPABILITY, ())
    command = OwnedFile(SBUNDLE, COMMAND, mode=0o755)
    return (
        Program(OCI_PROGRAM, program_files("programs.oci.main")),
        *owned(plan_input, host, CAPABILITY, (command,)),
    )


def packages(plan_input: PlanInput, host: str) -> tuple[str, ...]:
    """The packages of the runtime and of sbundle."""
    return OCI if uses(plan_input, host, "oci") else ()


def gone(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The removal of the program, once no oci.conf names it."""
    is_there = plan_input.has_program(host, CAPABILITY)
    return (Program(OCI_PROGRAM, ()),) if is_there and not uses(plan_input, host, "oci") else ()
