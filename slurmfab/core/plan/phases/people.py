"""The users of the cluster file on every host, with the same UIDs and GIDs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from slurmfab.base.grouping import grouped
from slurmfab.base.hostlist import fold
from slurmfab.cluster.inventory.accounting import User
from slurmfab.cluster.inventory.mounts import covering
from slurmfab.cluster.inventory.people_ids import former, further_groups, split
from slurmfab.cluster.inventory.storage import mounts_of
from slurmfab.core.plan.phases import accounts
from slurmfab.core.plan.phases.capability import once
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.accounting.tree import AssociationsGone
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.file import Absent
from slurmfab.on_hosts.agent.identities.user import Group
from slurmfab.on_hosts.agent.mounts import mount_units
from slurmfab.on_hosts.agent.people.person import AuthorizedKeys, Person, PersonHome
from slurmfab.on_hosts.agent.people.removed_person import RemovedPerson
from slurmfab.on_hosts.agent.people.sudo_rules import SudoRules

SUDOERS = "/etc/sudoers.d/slurmfab"  # the file with slurmfab's sudo rules
SUDO_ROLES = ("controller", "login")  # the roles of hosts with sudo rules; a host that is only a compute node has none


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """Groups, users, homes and keys, and removals of former users; empty with `unix_users: false`."""
    if not plan_input.cluster.unix_users:
        return ()
    numbers = plan_input.lock.ids
    groups = [group for group in further_groups(plan_input.cluster) if f"{group}.gid" in numbers]
    own = [user.name for user in plan_input.cluster.users]
    managed = managed_groups(plan_input)
    return (
        *(Group(group, numbers[f"{group}.gid"], system=False) for group in (*groups, *own)),
        *(resource for user in plan_input.cluster.users for resource in of_user(plan_input, host, user, managed)),
        *leaving(plan_input, host),
    )


def served_homes(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The homes that wait for mounts on hosts that serve directories; these come first: NFS denies root of others."""
    return waiting_homes(plan_input, host) if host in plan_input.cluster.servers else ()


def homes(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The homes that wait for mounts on all other hosts."""
    return waiting_homes(plan_input, host) if host not in plan_input.cluster.servers else ()


def waiting_homes(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The homes and SSH keys that wait for the host's mounts: those on them, and where a former mount hides others."""
    if not plan_input.cluster.unix_users:
        return ()
    return tuple(
        resource
        for user in plan_input.cluster.users
        if waits_for_mounts(plan_input, host, user)
        for resource in home_of(plan_input, user)
    )


def waits_for_mounts(plan_input: PlanInput, host: str, user: User) -> bool:
    """Whether a user's home on this host is made after the mounts: it is on one, or may be on a former one now."""
    has_former = plan_input.owns(host, mount_units.OF)
    return has_former or covering(mounts_of(plan_input.cluster, host), user.home_directory) is not None


def of_user(plan_input: PlanInput, host: str, user: User, managed: tuple[str, ...]) -> Iterator[Resource]:
    """Yield a user's account, home and keys; homes on mounts come later, `managed` groups have the file's members."""
    numbers, home = plan_input.lock.ids, user.home_directory
    uid = numbers[f"{user.name}.uid"]
    there = plan_input.facts[host].groups if host in plan_input.facts else {}
    groups = tuple(group for group in user.groups if f"{group}.gid" in numbers or group in there)
    yield Person(user.name, uid, user.name, home, user.shell, user.comment, groups, managed)
    if not waits_for_mounts(plan_input, host, user):
        yield from home_of(plan_input, user)


def home_of(plan_input: PlanInput, user: User) -> Iterator[Resource]:
    """Yield the home directory and the SSH keys of a user."""
    numbers, home = plan_input.lock.ids, user.home_directory
    uid, gid = numbers[f"{user.name}.uid"], numbers[f"{user.name}.gid"]
    yield PersonHome(user.name, uid, gid, home)
    yield AuthorizedKeys(user.name, uid, gid, home, user.keys)


@once
def managed_groups(plan_input: PlanInput) -> tuple[str, ...]:
    """Groups, sorted, with the cluster file's members alone: those that it names, or slurmfab made."""
    own = {user.name for user in plan_input.cluster.users}
    users = {name for name, kind in split(plan_input.lock.ids) if kind == "uid"}
    made = {name for name, _ in split(plan_input.lock.ids)} - users
    named = {group for user in plan_input.cluster.users for group in user.groups}
    return tuple(sorted((made | named) - (own - named)))


def leaving(plan_input: PlanInput, host: str) -> Iterator[Resource]:
    """Yield the former users that the host still has; `may` allows their removal."""
    for name in former(plan_input.cluster, plan_input.lock.ids):
        uid = plan_input.lock.ids[f"{name}.uid"]
        account = plan_input.facts[host].accounts.get(name) if host in plan_input.facts else None
        if account and account.uid == uid:
            # For users in `leaving`, remove-user has already checked the processes on all hosts. Of others, processes
            # elsewhere may be of a job; they keep the account, and whatever a host says of them, nobody's login open.
            elsewhere = fold([one for one in busy_hosts(plan_input).get(uid, ()) if one != host])
            is_leaving = name in plan_input.lock.leaving
            may, closes = is_leaving or (plan_input.prune and not elsewhere), is_leaving or plan_input.prune
            yield RemovedPerson(
                name, uid, account.home, may=may, closes=closes, elsewhere="" if may or not closes else elsewhere
            )


@once
def busy_hosts(plan_input: PlanInput) -> Mapping[int, list[str]]:
    """The hosts on which a user has processes, by UID."""
    return grouped((uid, host) for host, fact in plan_input.facts.items() for uid in set(fact.busy_uids))


def sudo(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The sudo rules of a host, without a password because the users have none; no such file without rules."""
    cluster = plan_input.cluster
    has_people = cluster.users or former(cluster, plan_input.lock.ids)
    if not cluster.unix_users or not has_people:
        return ()
    names = [user.name for user in cluster.users if user.sudo]
    if not names or not set(SUDO_ROLES) & set(cluster.roles(host)):
        return (Absent(SUDOERS),)
    return (SudoRules(SUDOERS, "".join(f"{name} ALL=(ALL:ALL) NOPASSWD: ALL\n" for name in names), mode=0o440),)


def packages(plan_input: PlanInput, host: str) -> tuple[str, ...]:
    """The packages that the host's sudo rules need."""
    return ("sudo",) if any(isinstance(one, SudoRules) for one in sudo(plan_input, host)) else ()


def forgotten(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The removal of the associations of users that are being removed, on slurmdbd's host."""
    if host not in plan_input.cluster.database_hosts:
        return ()
    return tuple(associations_gone(plan_input, name) for name in plan_input.lock.leaving)


def associations_gone(plan_input: PlanInput, name: str) -> AssociationsGone:
    """The removal of a user's associations in this cluster."""
    return AssociationsGone(name, plan_input.cluster.name, accounts.private_conf(plan_input))
