"""Associations: which user may run jobs on which account, in slurmctld's memory and in the cluster file."""

from __future__ import annotations

import re
from dataclasses import dataclass

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.commands.checks.hosts import CheckedHost, line_of
from slurmfab.on_hosts.agent.client.commands import SHOW_ASSOCIATIONS

_ASSOCIATION = re.compile(r"^ClusterName=\S* Account=(\S*) UserName=([^\s(]*)(?:\((-?\d+)\))?", re.MULTILINE)
_QOS = re.compile(r"^QOS=([^\s(]+)", re.MULTILINE)
_NO_UID = 2**32 - 3
"""From this number on, a UID is a placeholder for one that slurmctld could not resolve (NO_VAL, slurm.h)."""


@dataclass(frozen=True)
class Associations:
    """Accounts, users and QOS."""

    pairs: frozenset[tuple[str, str]]  # account and user; for the account itself, the user is empty
    qos: frozenset[str]  # names of the QOS
    strangers: tuple[str, ...] = ()  # users whose UID slurmctld could not resolve, so that it refuses their jobs


def parse(shown: str) -> Associations:
    """The associations in the output of `scontrol show assoc_mgr flags=assoc,qos`."""
    found = _ASSOCIATION.findall(shown)
    strangers = {user for _, user, uid in found if uid and not 0 <= int(uid) < _NO_UID}
    return Associations(
        frozenset((account, user) for account, user, _ in found),
        frozenset(_QOS.findall(shown)),
        tuple(sorted(strangers)),
    )


def ask(controller: CheckedHost) -> Associations:
    """The associations in the memory of slurmctld."""
    return parse(controller.ask(line_of(SHOW_ASSOCIATIONS)))


def wanted(cluster: Cluster) -> Associations:
    """The associations in the cluster file."""
    accounts = {(account.name, "") for account in cluster.accounts}
    people = {(account, user.name) for user in cluster.users for account in user.accounts}
    return Associations(frozenset(accounts | people), frozenset(qos.name for qos in cluster.qos))


def missing(found: Associations, expected: Associations) -> list[str]:
    """Descriptions of the expected QOS, accounts and users that were not found, as in `user ada in physics`."""
    pairs = sorted(expected.pairs - found.pairs)
    return [
        *(f"QOS {name}" for name in sorted(expected.qos - found.qos)),
        *(f"account {account}" for account, user in pairs if not user),
        *(f"user {user} in {account}" for account, user in pairs if user),
    ]
