"""Which UID and GID each person gets, and each further group: one for all hosts, decided after all have been asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from slurmfab import ids
from slurmfab.errors import IdConflict
from slurmfab.facts import HostFacts
from slurmfab.hostlist import fold
from slurmfab.ids import SYSTEM_USERS

if TYPE_CHECKING:
    from slurmfab.cluster import Cluster
    from slurmfab.lock import Lock

CANDIDATES = range(2000, 60000)
"""Where numbers are sought: above those that adduser gives out first (from 1000), below 60000 (Debian Policy 9.2.2)."""

FIRST_OF_PEOPLE = 1000
"""Numbers below are the system's (Debian Policy 9.2.2; UID_MIN and GID_MIN of login.defs(5))."""

WAY_OUT = (
    "Nothing was changed. Say another number in the cluster file (users, uid and gid), or give the host's user or "
    "group another one there (usermod, groupmod, chown). Where a directory service has the people: unix_users: false."
)

Numbers = Mapping[str, int]
"""As the lock holds them: `ann.uid`, `ann.gid`, and `ml.gid` of a group that is nobody's own."""


def names_of(cluster: Cluster, pinned: Numbers) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The users and the groups that hosts are asked about, those who have left included."""
    users = dict.fromkeys((*(user.name for user in cluster.users), *former(cluster, pinned)))
    groups = dict.fromkeys((*further_groups(cluster), *(name for name, kind in split(pinned) if kind == "gid")))
    return tuple(users), tuple(group for group in groups if group not in users)


def split(pinned: Numbers) -> Iterator[tuple[str, str]]:
    """The lock's names with their kinds, but for slurm's and munge's."""
    for key in pinned:
        name, _, kind = key.rpartition(".")
        if name not in SYSTEM_USERS:
            yield name, kind


def former(cluster: Cluster, pinned: Numbers) -> tuple[str, ...]:
    """Who has a number and is not in the cluster file any more; a number is never given to anybody else."""
    present = {user.name for user in cluster.users}
    return tuple(name for name, kind in split(pinned) if kind == "uid" and name not in present)


def further_groups(cluster: Cluster) -> tuple[str, ...]:
    """The groups that users are in besides their own, each once; users' own groups are not among them."""
    own = {user.name for user in cluster.users}
    return tuple(dict.fromkeys(group for user in cluster.users for group in user.groups if group not in own))


def is_systems(group: str, facts: Mapping[str, HostFacts], pinned: Numbers) -> bool:
    """Whether a group is the hosts' own, such as video: each may have it, and with a number of its own."""
    found = [fact.groups[group] for fact in facts.values() if group in fact.groups]
    return f"{group}.gid" not in pinned and bool(found) and all(gid < FIRST_OF_PEOPLE for gid in found)


def decide(
    cluster: Cluster, pinned: Numbers, facts: Mapping[str, HostFacts], *, controller: str = "", moving: bool = False
) -> dict[str, int]:
    """All numbers of a cluster: slurm's and munge's, its people's, and those of people who have left.

    Args:
        cluster: the cluster file.
        pinned: the lock's.
        facts: of every host that answered.
        controller: as of `ids.choose`.
        moving: likewise.

    Raises:
        IdConflict: some do not go together with those on some host; all at once.
    """
    complaints: list[str] = []
    system: dict[str, int] = {}
    people: dict[str, int] = {}
    try:
        system = ids.choose(facts, cluster.ids, pinned, controller=controller, moving=moving)
    except IdConflict as conflict:
        complaints.append(str(conflict))
    try:
        people = choose(cluster, facts, {**pinned, **system})
    except IdConflict as conflict:
        complaints.append(str(conflict))
    if complaints:
        raise IdConflict("\n".join(complaints))
    return {**pinned, **people, **system}


def still_leaving(cluster: Cluster, lock: Lock, facts: Mapping[str, HostFacts]) -> tuple[str, ...]:
    """Those of the people on their way out whom some host has still, or may have, for it did not answer."""
    gone = former(cluster, lock.ids)
    silent = any(host not in facts for host in cluster.hosts)
    return tuple(
        name for name in lock.leaving
        if name in gone and (silent or any(name in fact.accounts for fact in facts.values()))
    )  # fmt: skip


def choose(cluster: Cluster, facts: Mapping[str, HostFacts], pinned: Numbers) -> dict[str, int]:
    """The numbers of all people and of their groups, as the lock holds them.

    The cluster file's word comes first, then the lock's, then what the hosts have, then the first that is free as both
    UID and GID on all of them. A number of somebody who has left is not free: files carry it.

    Args:
        cluster: the cluster file.
        facts: of every host that answered.
        pinned: the lock's, with slurm's and munge's.

    Raises:
        IdConflict: some host has a user or group with another number, or somebody else with one; all at once.
    """
    if not cluster.unix_users or not (cluster.users or pinned):
        return {}
    taken = Taken(facts, {*pinned.values(), *said(cluster)})
    chosen: dict[str, int] = {}
    for user in cluster.users:
        group = user.gid or pinned.get(f"{user.name}.gid") or prevailing(user.name, "groups", facts)
        uid = user.uid or pinned.get(f"{user.name}.uid") or prevailing(user.name, "accounts", facts)
        uid = uid or taken.next()
        chosen |= {f"{user.name}.uid": uid, f"{user.name}.gid": group or uid}
    for name in further_groups(cluster):
        if not is_systems(name, facts, pinned):
            gid = pinned.get(f"{name}.gid") or prevailing(name, "groups", facts)
            chosen[f"{name}.gid"] = gid or taken.next()
    complaints = [line for name in owners(chosen) for line in conflicts(name, chosen, facts)]
    complaints += [*given_twice({**pinned, **chosen}), *system_accounts(cluster, chosen, facts)]
    if complaints:
        raise IdConflict("\n".join([*dict.fromkeys(complaints), WAY_OUT]))
    return chosen


class Taken:
    """The numbers that no host has free, and those that are given out meanwhile.

    Args:
        facts: of the hosts.
        more: numbers that may not be given out either.
    """

    def __init__(self, facts: Mapping[str, HostFacts], more: Iterable[int]) -> None:
        self.numbers = {number for fact in facts.values() for number in (*fact.uids, *fact.gids)} | set(more)

    def next(self) -> int:
        """The first that is free, which it is no more afterwards."""
        free = next((number for number in CANDIDATES if number not in self.numbers), CANDIDATES.stop)
        self.numbers.add(free)
        return free


def said(cluster: Cluster) -> set[int]:
    """The numbers that the cluster file names."""
    people = {number for user in cluster.users for number in (user.uid, user.gid) if number}
    return people | set(cluster.ids.values())


def prevailing(name: str, kind: str, facts: Mapping[str, HostFacts]) -> int | None:
    """The number that most hosts have for a user (`accounts`) or a group (`groups`); `None` where none has any."""
    if kind == "groups":
        found = Counter(fact.groups[name] for fact in facts.values() if name in fact.groups)
    else:
        found = Counter(fact.accounts[name].uid for fact in facts.values() if name in fact.accounts)
    return found.most_common(1)[0][0] if found else None


def owners(chosen: Numbers) -> tuple[str, ...]:
    """The names that have a number, each once."""
    return tuple(dict.fromkeys(name for name, _ in split(chosen)))


def conflicts(name: str, chosen: Numbers, facts: Mapping[str, HostFacts]) -> Iterable[str]:
    """A line for each way in which hosts disagree with somebody's numbers; hosts with the same one are folded."""
    found: dict[str, list[str]] = {}
    for host, fact in facts.items():
        for what in differences(name, chosen, fact):
            found.setdefault(what, []).append(host)
    return [f"{fold(hosts)}: {what}." for what, hosts in found.items()]


def differences(name: str, chosen: Numbers, fact: HostFacts) -> Iterator[str]:
    """How one host disagrees with somebody's numbers."""
    uid, gid = chosen.get(f"{name}.uid"), chosen[f"{name}.gid"]
    account, group = fact.accounts.get(name), fact.groups.get(name)
    if uid is not None and account and account.uid != uid:
        yield f"user {name} has UID {account.uid} there, and {uid} is wanted everywhere"
    if group is not None and group != gid:
        yield f"group {name} has GID {group} there, and {gid} is wanted everywhere"
    if uid is not None and account and account.gid not in (gid, group):
        owner = fact.gids.get(account.gid, "nobody")
        yield (
            f"user {name} has the primary group {owner} (GID {account.gid}) there, and a group {name} (GID {gid}) is "
            f"wanted everywhere: groupadd -g {gid} {name}; usermod -g {name} {name}"
        )
    if uid is not None and fact.uids.get(uid, name) != name:
        yield f"UID {uid}, wanted for {name}, belongs to {fact.uids[uid]} there"
    if fact.gids.get(gid, name) != name:
        yield f"GID {gid}, wanted for {name}, belongs to {fact.gids[gid]} there"


def given_twice(numbers: Numbers) -> Iterator[str]:
    """The numbers that two of the cluster's own names would share, those who have left and daemons included."""
    for kind in ("uid", "gid"):
        holders: dict[int, list[str]] = {}
        for key, number in numbers.items():
            if key.endswith(f".{kind}"):
                holders.setdefault(number, []).append(key.rpartition(".")[0])
        for number, names in holders.items():
            if len(names) > 1:
                yield f"{kind.upper()} {number} is wanted for {' and '.join(sorted(names))}."


def system_accounts(cluster: Cluster, chosen: Numbers, facts: Mapping[str, HostFacts]) -> Iterator[str]:
    """The people who would be a daemon's user on some host."""
    for user in cluster.users:
        hosts = [
            host
            for host, fact in facts.items()
            if user.name in fact.accounts and fact.accounts[user.name].uid < FIRST_OF_PEOPLE
        ]
        if hosts and chosen[f"{user.name}.uid"] < FIRST_OF_PEOPLE:
            yield f"{fold(hosts)}: {user.name} is a user of the system there (UID {chosen[f'{user.name}.uid']})."


def refuse_partial(cluster: Cluster, asked: Collection[str], before: Numbers, chosen: Numbers) -> None:
    """Refuse to give out new numbers when only some hosts have been asked what they have free.

    Args:
        cluster: the cluster file.
        asked: the hosts that were, whether or not they answered.
        before: the lock's numbers before this run.
        chosen: the numbers now.

    Raises:
        IdConflict: not all hosts were asked, and somebody has no number yet.
    """
    left = [host for host in cluster.hosts if host not in asked]
    declared = {user.name for user in cluster.users if user.uid}
    new = [name for name in owners(chosen) if f"{name}.gid" not in before and name not in declared]
    if left and new:
        raise IdConflict(
            f"{', '.join(new)}: no number was chosen yet, and it has to be free on {fold(left)}, too. Without --hosts: "
            "fab deploy; or say uid in the cluster file. Nothing was changed."
        )
