"""Files that hosts have for one capability of the cluster file, and that go with it."""

from __future__ import annotations

from collections.abc import Iterable

from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile, OwnedFiles
from slurmfab.on_hosts.agent.files.program import Program
from slurmfab.on_hosts.agent.services.service import Service


def owned(plan_input: PlanInput, host: str, of: str, files: Iterable[OwnedFile]) -> tuple[Resource, ...]:
    """The files of a capability, such as `mounts`, on a host; without any, the removal of former ones."""
    wanted = tuple(files)
    has_some = host in plan_input.facts and of in plan_input.facts[host].owned
    return (OwnedFiles(of, wanted),) if wanted or has_some else ()


def removed(plan_input: PlanInput, host: str, of: str, program: str, timer: str = "") -> tuple[Resource, ...]:
    """The removal of a capability's timer, program and files from a host.

    The files' record goes last: an interrupted run finds it. `of`: the capability; its program is in a directory of
    this name. `program`: the program's directory. `timer`: the timer's unit; empty without one.
    """
    if host not in plan_input.facts:
        return ()
    facts = plan_input.facts[host]
    return (
        *((Service(timer, running=False),) if timer in facts.services else ()),
        *((Program(program, ()),) if of in facts.programs else ()),
        *owned(plan_input, host, of, ()),
    )
