"""Commands for users on login hosts and controllers, such as `sstatus`, and other files that help them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from slurmfab.base.paths import PROGRAMS, USER_COMMANDS, USER_TOOLS_PROGRAM, USER_TOOLS_SETTINGS
from slurmfab.cluster.slurm.oci import PYTHON
from slurmfab.core.plan.phases import programs, user_guide
from slurmfab.core.plan.phases.owned import owned
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.directory import Directory
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.files.program import Program

CAPABILITY = "user-tools"


class Tool(NamedTuple):
    """A command for users."""

    command: str  # its name, which is that of a module in `on_hosts/programs/user_tools/`, too
    modules: tuple[str, ...] = ()  # further modules of that package that it needs, besides `SHARED`


LINT = (
    "cluster", "findings", "job_script", "lint_cluster", "lint_limits", "lint_paths", "lint_text", "sbatch_options",
    "sbatch_words", "submit_script", "wanted",
)  # fmt: skip
"""The modules of what reads and writes submit scripts."""

STATUS = ("hostnames", "jobs", "reasons", "showing", "state", "use")
"""The modules of what shows a user's jobs."""

TOOLS = (Tool("sstatus", STATUS), Tool("slint", LINT), Tool("sjob", ("job_answers", "slint", *LINT)))
"""All commands."""

SHARED = ("amounts", "asking", "limits", "main", "nodes", "partitions", "questions", "settings")
"""The modules of `on_hosts/programs/user_tools/` that commands share."""

FILES: tuple[Callable[[PlanInput, str], Iterable[OwnedFile]], ...] = (user_guide.files,)
"""What returns further files of a host for users, such as a guide."""

MODULES = tuple(
    sorted(
        {
            *programs.NODE_STATES,
            *(f"programs.user_tools.{name}" for name in SHARED),
            *(f"programs.user_tools.{name}" for tool in TOOLS for name in (tool.command, *tool.modules)),
        }
    )
)
"""The modules of slurmfab that the commands need."""

COMMAND = f"""\
#!/bin/sh
# Made by slurmfab from the cluster file, for user_tools: true; edits here are overwritten.
exec {PYTHON} {USER_TOOLS_PROGRAM}/run.py %s "$@"
"""
"""The text of a command, without its name."""


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The commands and their program; without the key, the removal of what a host still has."""
    if host not in plan_input.cluster.helping_hosts:
        is_there = host in plan_input.facts and CAPABILITY in plan_input.facts[host].programs
        gone = (Program(USER_TOOLS_PROGRAM, ()),) if is_there else ()
        return (*owned(plan_input, host, CAPABILITY, ()), *gone)
    return (
        Directory(PROGRAMS),
        Program(USER_TOOLS_PROGRAM, programs.files("programs.user_tools.main", MODULES)),
        *owned(plan_input, host, CAPABILITY, files(plan_input, host)),
    )


def files(plan_input: PlanInput, host: str) -> Iterable[OwnedFile]:
    """Yield the files of a host: the commands, their settings, and what FILES has."""
    for tool in TOOLS:
        yield OwnedFile(f"{USER_COMMANDS}/{tool.command}", COMMAND % tool.command, mode=0o755)
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
        "containers": list(cluster.containers.use) if cluster.containers else [],
    }
