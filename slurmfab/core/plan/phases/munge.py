"""Munge: the primary controller's key on every host, and a munged that has loaded it."""

from __future__ import annotations

from slurmfab.base.paths import MUNGE_KEY
from slurmfab.core.plan.phases.capability import once
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.file import File
from slurmfab.on_hosts.agent.munge.directories import MungeDirectories
from slurmfab.on_hosts.agent.munge.key import MungeKey
from slurmfab.on_hosts.agent.services.service import Service

ENCODES = ("munge", "--no-input")  # succeeds if munged makes a credential (munge(1))


def key(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The munge key on the primary controller, generated if it does not exist, and the directories of its munged."""
    return (MungeDirectories(), MungeKey(MUNGE_KEY)) if host == plan_input.cluster.controller else ()


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """munged's directories, the primary controller's key, and munged, restarted if the key is newer than its process.

    While the controller has no key yet, the file is planned as different. slurmctld cannot reach a compute node with
    another key, and would try again after a third of SlurmdTimeout (slurm.conf(5)). So slurmd is restarted after
    munged, because it registers when it starts.
    """
    if host == plan_input.cluster.controller:
        return (Service("munge", watches=(MUNGE_KEY,), answers=ENCODES),)
    followers = ("slurmd",) if plan_input.is_compute_node(host) else ()
    return (
        MungeDirectories(),
        copied(plan_input),
        Service("munge", watches=(MUNGE_KEY,), followers=followers, answers=ENCODES),
    )


@once
def copied(plan_input: PlanInput) -> File:
    """The file with the primary controller's key for the other hosts."""
    content = plan_input.controller_facts.munge_key
    return File(MUNGE_KEY, content, owner="munge", group="munge", mode=0o400, secret=True, encoding="base64")
