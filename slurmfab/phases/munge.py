"""Munge: the primary controller's key on every host, and a munged that has loaded it."""

from __future__ import annotations

from slurmfab.agent.file import File
from slurmfab.agent.munge_key import MungeKey
from slurmfab.agent.resource import Resource
from slurmfab.agent.service import Service
from slurmfab.phases.once import once
from slurmfab.situation import Situation

KEY = "/etc/munge/munge.key"
ENCODES = ("munge", "--no-input")
"""What munged has to do for others: it makes a credential (munge(1))."""


def key(situation: Situation, host: str) -> tuple[Resource, ...]:
    """The key itself, on the primary controller alone: made there if there is none."""
    return (MungeKey(KEY),) if host == situation.cluster.controller else ()


def resources(situation: Situation, host: str) -> tuple[Resource, ...]:
    """The controller's key, and the daemon, which is restarted when its key is newer than it is.

    Before the controller has a key there is nothing to compare with, and the file is planned as different. A compute
    node that had another key was not heard by slurmctld, which would ask it again after a third of SlurmdTimeout
    (slurm.conf(5)); a slurmd that starts tells by itself that it is there.
    """
    if host == situation.cluster.controller:
        return (Service("munge", watches=(KEY,), answers=ENCODES),)
    followers = ("slurmd",) if situation.is_compute_node(host) else ()
    return copied(situation), Service("munge", watches=(KEY,), followers=followers, answers=ENCODES)


@once
def copied(situation: Situation) -> File:
    """The controller's key on another host."""
    content = situation.controller_facts.munge_key
    return File(KEY, content, owner="munge", group="munge", mode=0o400, secret=True, encoding="base64")
