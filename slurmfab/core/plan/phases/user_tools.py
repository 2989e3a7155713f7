"""Commands for users on login hosts and controllers, such as `sstatus`, and other files that help them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from slurmfab.base.paths import PROGRAMS, USER_COMMANDS, USER_TOOLS_PROGRAM, USER_TOOLS_SETTINGS
from slurmfab.cluster.slurm.oci import PYTHON
from slurmfab.core.plan.phases import user_guide
from slurmfab.core.plan.phases.capability import owned, program_files
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.directory import Directory
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.files.program import Program

CAPABILITY = "user-tools"


TOOLS = ("sjob", "slint", "sstatus")
MODULES = tuple(f"programs.user_tools.{tool}" for tool in TOOLS)  # all commands, and their modules

FILES: tuple[Callable[[PlanInput, str], Iterable[OwnedFile]], ...] = (user_guide.files,)
"""What returns further files of a host for users, such as a guide."""

COMMAND = f"""\
#!/bin/sh
# Made by slurmfab from the cluster file, for user_tools: true; edits here are overwritten.
exec {PYTHON} {USER_TOOLS_PROGRAM}/run.py %s "$@"
"""
"""The text of a command, without its name."""


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The commands and their program; without the key, the removal of what a host still has."""
    if host not in plan_input.cluster.helping_hosts:
        is_there = plan_input.has_program(host, CAPABILITY)
        gone = (Program(USER_TOOLS_PROGRAM, ()),) if is_there else ()
        return (*owned(plan_input, host, CAPABILITY, ()), *gone)
    return (
        Directory(PROGRAMS),
        Program(USER_TOOLS_PROGRAM, program_files("programs.user_tools.main", *MODULES)),
        *owned(plan_input, host, CAPABILITY, files(plan_input, host)),
    )


def files(plan_input: PlanInput, host: str) -> Iterable[OwnedFile]:
    """Yield the files of a host: the commands, their settings, and what FILES has."""
    for tool in TOOLS:
        yield OwnedFile(f"{USER_COMMANDS}/{tool}", COMMAND % tool, mode=0o755)
    text = json.dumps(settings(plan_input), indent=1, sort_keys=True) + "\n"
    yield OwnedFile(USER_TOOLS_SETTINGS, text)
    for more in FILES:
        yield from more(plan_input, host)


def settings(plan_input: PlanInput) -> dict[str, Any]:
    """What the commands read of the cluster file, by name (`programs/user_tools/settings.py`); all users can see it."""
    cluster = plan_input.cluster
    return {
        "cluster": cluster.name,
        "controllers": list(cluster.controllers),
        "accounting": cluster.has_accounts,
        "needs_account": cluster.enforces_accounts,
        "records": cluster.database is not None,
        "containers": list(cluster.container_ways),
    }
