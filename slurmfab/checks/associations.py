"""Who may run jobs on which account, as slurmctld has it in its memory, and as the cluster file has it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from slurmfab.checks.hosts import CheckedHost
from slurmfab.cluster import Cluster

SHOW = "scontrol show assoc_mgr flags=assoc,qos"
"""Asks slurmctld itself, and not slurmdbd, which may know more, or less."""

_ASSOCIATION = re.compile(r"^ClusterName=\S* Account=(\S*) UserName=([^\s(]*)(?:\((-?\d+)\))?", re.MULTILINE)
_QOS = re.compile(r"^QOS=([^\s(]+)", re.MULTILINE)
_NO_UID = 2**32 - 3
"""From here on a number stands for a UID that slurmctld could not find out (NO_VAL, slurm.h)."""


@dataclass(frozen=True)
class Associations:
    """What slurmctld holds jobs to.

    Args:
        pairs: account and user; an account by itself has an empty user.
        qos: names of the qualities of service.
        strangers: users whose UID it does not know, so that no job of theirs is taken.
    """

    pairs: frozenset[tuple[str, str]]
    qos: frozenset[str]
    strangers: tuple[str, ...] = ()


def parse(shown: str) -> Associations:
    """What `scontrol show assoc_mgr flags=assoc,qos` tells."""
    found = _ASSOCIATION.findall(shown)
    strangers = {user for _, user, uid in found if uid and not 0 <= int(uid) < _NO_UID}
    return Associations(
        frozenset((account, user) for account, user, _ in found),
        frozenset(_QOS.findall(shown)),
        tuple(sorted(strangers)),
    )


def ask(controller: CheckedHost) -> Associations:
    """The same, of the slurmctld on this host."""
    return parse(controller.ask(SHOW))


def wanted(cluster: Cluster) -> Associations:
    """What the cluster file says."""
    accounts = {(account.name, "") for account in cluster.accounts}
    people = {(account, user.name) for user in cluster.users for account in user.accounts}
    return Associations(frozenset(accounts | people), frozenset(qos.name for qos in cluster.qos))


def missing(found: Associations, expected: Associations) -> list[str]:
    """What is expected and not found, each as in `user ada in physics`."""
    pairs = sorted(expected.pairs - found.pairs)
    return [
        *(f"QOS {name}" for name in sorted(expected.qos - found.qos)),
        *(f"account {account}" for account, user in pairs if not user),
        *(f"user {user} in {account}" for account, user in pairs if user),
    ]
