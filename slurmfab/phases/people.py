"""The people of the cluster file as users of every host, with the same numbers everywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from slurmfab.agent.absent import Absent
from slurmfab.agent.associations_gone import AssociationsGone
from slurmfab.agent.authorized_keys import AuthorizedKeys
from slurmfab.agent.group import Group
from slurmfab.agent.person import Person
from slurmfab.agent.person_gone import PersonGone
from slurmfab.agent.person_home import PersonHome
from slurmfab.agent.resource import Resource
from slurmfab.agent.sudo_rules import SudoRules
from slurmfab.people.numbers import former, further_groups, split
from slurmfab.phases import accounts
from slurmfab.phases.once import once

if TYPE_CHECKING:
    from slurmfab.clusterfile.accounting import User
    from slurmfab.situation import Situation

SUDOERS = "/etc/sudoers.d/slurmfab"
SUDO_ROLES = ("controller", "login")
"""Where people may become root: where they log in, and where Slurm is managed; on no compute node."""


def resources(situation: Situation, host: str) -> tuple[Resource, ...]:
    """Groups, users, homes and keys; and those who have left, as far as they may go.

    Nothing of it where a directory service has the people (`unix_users: false`).
    """
    if not situation.cluster.unix_users:
        return ()
    numbers = situation.lock.ids
    groups = [group for group in further_groups(situation.cluster) if f"{group}.gid" in numbers]
    own = [user.name for user in situation.cluster.users]
    managed = managed_groups(situation)
    return (
        *(Group(group, numbers[f"{group}.gid"], system=False) for group in (*groups, *own)),
        *(resource for user in situation.cluster.users for resource in of_user(situation, host, user, managed)),
        *leaving(situation, host),
    )


def of_user(situation: Situation, host: str, user: User, managed: tuple[str, ...]) -> Iterator[Resource]:
    """All that a host has of one person.

    Args:
        situation: what is wanted and known.
        host: the host.
        user: the person.
        managed: the groups whose members the cluster file decides about.
    """
    numbers, home = situation.lock.ids, user.home_directory
    uid, gid = numbers[f"{user.name}.uid"], numbers[f"{user.name}.gid"]
    there = situation.facts[host].groups if host in situation.facts else {}
    groups = tuple(group for group in user.groups if f"{group}.gid" in numbers or group in there)
    yield Person(user.name, uid, user.name, home, user.shell, user.comment, groups, managed)
    yield PersonHome(user.name, uid, gid, home)
    yield AuthorizedKeys(user.name, uid, gid, home, user.keys)


@once
def managed_groups(situation: Situation) -> tuple[str, ...]:
    """The groups whose members are those of the cluster file: all that it names, and those that were made for it."""
    own = {user.name for user in situation.cluster.users}
    users = {name for name, kind in split(situation.lock.ids) if kind == "uid"}
    made = {name for name, kind in split(situation.lock.ids) if kind == "gid"} - users
    named = {group for user in situation.cluster.users for group in user.groups}
    return tuple(sorted((made | named) - (own - named)))


def leaving(situation: Situation, host: str) -> Iterator[Resource]:
    """Those who are not in the cluster file any more: removed where that is wanted and nothing of theirs runs."""
    for name in former(situation.cluster, situation.lock.ids):
        uid = situation.lock.ids[f"{name}.uid"]
        account = situation.facts[host].accounts.get(name) if host in situation.facts else None
        if account and account.uid == uid:
            # remove-user has looked closer at all hosts before it began.
            is_pruned = situation.prune and not is_busy_elsewhere(situation, host, uid)
            yield PersonGone(name, uid, account.home, may=is_pruned or name in situation.lock.leaving)


def is_busy_elsewhere(situation: Situation, host: str, uid: int) -> bool:
    """Whether somebody has processes, as of a job or a login, on another host; the host itself looks closer."""
    here = host in situation.facts and uid in situation.facts[host].busy_uids
    return busy_hosts(situation)[uid] > here


@once
def busy_hosts(situation: Situation) -> Counter[int]:
    """On how many hosts each user has processes."""
    return Counter(uid for fact in situation.facts.values() for uid in set(fact.busy_uids))


def sudo(situation: Situation, host: str) -> tuple[Resource, ...]:
    """Who may become root on the host, without a password, for they have none."""
    cluster = situation.cluster
    has_people = cluster.users or former(cluster, situation.lock.ids)
    if not cluster.unix_users or not has_people:
        return ()
    names = [user.name for user in cluster.users if user.sudo]
    if not names or not set(SUDO_ROLES) & set(cluster.roles(host)):
        return (Absent(SUDOERS),)
    return (SudoRules(SUDOERS, "".join(f"{name} ALL=(ALL:ALL) NOPASSWD: ALL\n" for name in names), mode=0o440),)


def packages(situation: Situation, host: str) -> tuple[str, ...]:
    """The packages that the host needs for that."""
    return ("sudo",) if any(isinstance(one, SudoRules) for one in sudo(situation, host)) else ()


def forgotten(situation: Situation, host: str) -> tuple[Resource, ...]:
    """No account of slurmdbd's for those who are on their way out, on the database's host."""
    if host not in situation.cluster.database_hosts:
        return ()
    return tuple(associations_gone(situation, name) for name in situation.lock.leaving)


def associations_gone(situation: Situation, name: str) -> AssociationsGone:
    """No account of slurmdbd's for somebody."""
    cluster = situation.cluster
    conf = accounts.private_conf_text(cluster.name, situation.host(cluster.controller).hostname)
    return AssociationsGone(name, cluster.name, conf)
