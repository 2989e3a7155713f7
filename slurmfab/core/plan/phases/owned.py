"""Files that hosts have for one capability of the cluster file, and that go with it."""

from __future__ import annotations

from collections.abc import Iterable

from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile, OwnedFiles


def owned(plan_input: PlanInput, host: str, of: str, files: Iterable[OwnedFile]) -> tuple[Resource, ...]:
    """The files of a capability on a host; without any, their removal where the host still has some.

    Args:
        of: the capability, such as `mounts`.
        files: the files; empty for none.
    """
    wanted = tuple(files)
    has_some = host in plan_input.facts and of in plan_input.facts[host].owned
    return (OwnedFiles(of, wanted),) if wanted or has_some else ()
