"""The guide for users, and the page on which they write job scripts, as files of the commands for users."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from slurmfab.base.paths import user_guides
from slurmfab.core.plan.phases.capability import once
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.user_guide import writing
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile


def files(plan_input: PlanInput, _host: str) -> Iterator[OwnedFile]:
    """Yield the files, which are the same on all hosts."""
    folder = user_guides(plan_input.cluster.name)
    for name, text in pages(plan_input).items():
        yield OwnedFile(f"{folder}/{name}", text)


@once
def pages(plan_input: PlanInput) -> Mapping[str, str]:
    """The text of each file by its name."""
    return writing.files(plan_input.cluster, plan_input.lock)
