"""Choose the UID and GID of each user, and the GID of each further group: the same on all hosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from slurmfab.base.errors import IdConflict
from slurmfab.base.grouping import grouped
from slurmfab.base.hostlist import fold
from slurmfab.base.objections import NUMBERS, Objection, objected
from slurmfab.base.program_name import FAB
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory import system_ids
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.inventory.system_ids import FIRST_OF_PEOPLE, SYSTEM_USERS, is_possible

COUNT = 65536  # how many numbers each user gets: images have all up to 65535, the number of `nogroup` in some

FIRST_UID = 1000
"""Lower UIDs are of system users; useradd gives numbers from 100000 on, which are those of UID 1 in this rule."""

SLURM = "slurm"  # quickcheck runs jobs as this user unless it is told another one

LAST_UID = 65533
"""The highest UID with a range: all numbers have 32 bits, and those from 65534 * 65536 on include the number -1."""


def first(uid: int) -> int:
    """The first number of a user's range.

    >>> first(2001)
    131137536
    """
    return uid * COUNT


def mistakes(cluster: Cluster, numbers: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """The users who cannot have a range, each with the reason; `numbers` are the lock's, such as `ann.uid`."""
    uids = {user.name: numbers[f"{user.name}.uid"] for user in cluster.users if f"{user.name}.uid" in numbers}
    owners = {uid: name for name, uid in uids.items()}
    for name, uid in uids.items():
        if uid > LAST_UID:
            yield name, f"UID {uid} has no range of subordinate IDs, which are UID * {COUNT}; {LAST_UID} is the last"
        owner = owners.get(uid // COUNT)
        if owner is not None:
            yield name, f"UID {uid} is one of the subordinate IDs of {owner} (UID {uid // COUNT})"


def ranges(cluster: Cluster, numbers: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Name and first number of the range of each user with a UID, in the file's order, and of slurm, from the lock."""
    people = [user.name for user in cluster.users] if cluster.unix_users else []
    uids = ((name, numbers.get(f"{name}.uid", 0)) for name in (*people, SLURM))
    return tuple((name, first(uid)) for name, uid in uids if FIRST_UID <= uid <= LAST_UID)


CANDIDATES = range(2000, 60000)
"""Numbers to choose from: above those that adduser assigns first (from 1000), below 60000 (Debian Policy 9.2.2)."""

WAY_OUT = (
    "Nothing was changed. Set another number in the cluster file (users, uid and gid), or change the number of the "
    "user or group on those hosts (usermod, groupmod, chown). If a directory service has the users, set "
    "unix_users: false."
)

Numbers = Mapping[str, int]
"""UIDs and GIDs by the keys of the lock: `ann.uid`, `ann.gid`, and `ml.gid` of a group that is not a user's own."""


class Names(NamedTuple):
    """Names of users and of groups."""

    users: tuple[str, ...]
    groups: tuple[str, ...]


def names_of(cluster: Cluster, pinned: Numbers) -> Names:
    """The users and the further groups that hosts are asked about, including former users."""
    users = dict.fromkeys((*(user.name for user in cluster.users), *former(cluster, pinned)))
    groups = dict.fromkeys((*further_groups(cluster), *(name for name, kind in split(pinned) if kind == "gid")))
    return Names(tuple(users), tuple(group for group in groups if group not in users))


def split(pinned: Numbers) -> Iterator[tuple[str, str]]:
    """Yield name and kind (`uid` or `gid`) of the lock's keys, except those of slurm and munge."""
    for key in pinned:
        name, _, kind = key.rpartition(".")
        if name not in SYSTEM_USERS:
            yield name, kind


def former(cluster: Cluster, pinned: Numbers) -> tuple[str, ...]:
    """Users with a number in the lock that are no longer in the cluster file; their numbers are not reused."""
    present = {user.name for user in cluster.users}
    return tuple(name for name, kind in split(pinned) if kind == "uid" and name not in present)


def further_groups(cluster: Cluster) -> tuple[str, ...]:
    """The groups of users, without groups that have the name of a user."""
    own = {user.name for user in cluster.users}
    return tuple(dict.fromkeys(group for user in cluster.users for group in user.groups if group not in own))


def is_systems(group: str, facts: Mapping[str, HostFacts], pinned: Numbers) -> bool:
    """Whether a group that the lock does not have is the hosts' own, such as video, whose GID may differ."""
    found = [fact.groups[group] for fact in facts.values() if group in fact.groups]
    return f"{group}.gid" not in pinned and bool(found) and all(gid < FIRST_OF_PEOPLE for gid in found)


def decide(
    cluster: Cluster, pinned: Numbers, facts: Mapping[str, HostFacts], *, controller: str = "", moving: bool = False
) -> dict[str, int]:
    """Choose all UIDs and GIDs of a cluster by key, such as `slurm.uid`: of slurm, munge, users and former users.

    `controller`, `moving`: see `system_ids.choose`. Numbers in the lock that cannot be anybody's are chosen anew.
    Raises IdConflict with all conflicts of numbers with those on hosts.
    """
    pinned = {key: number for key, number in pinned.items() if is_possible(number)}
    found: list[IdConflict] = []
    system: dict[str, int] = {}
    people: dict[str, int] = {}
    try:
        system = system_ids.choose(facts, cluster.ids, pinned, controller=controller, moving=moving)
    except IdConflict as conflict:
        found.append(conflict)
    try:
        people = choose(cluster, facts, {**pinned, **system}, controller)
    except IdConflict as conflict:
        found.append(conflict)
    if found:
        both = IdConflict("\n".join(map(str, found)))
        both.objections = tuple(one for conflict in found for one in conflict.objections)
        both.ways = tuple(way for conflict in found for way in conflict.ways)
        raise both
    return {**pinned, **people, **system}


def still_leaving(cluster: Cluster, lock: Lock, facts: Mapping[str, HostFacts]) -> tuple[str, ...]:
    """Users being removed that exist on a host that answered, or may on one that did not."""
    gone = former(cluster, lock.ids)
    silent = any(host not in facts for host in cluster.hosts)
    return tuple(
        name for name in lock.leaving
        if name in gone and (silent or any(name in fact.accounts for fact in facts.values()))
    )  # fmt: skip


def choose(cluster: Cluster, facts: Mapping[str, HostFacts], pinned: Numbers, controller: str = "") -> dict[str, int]:
    """Choose numbers of users and groups by key, such as `ann.uid` and `ml.gid`; none with `unix_users: false`.

    Numbers come from the cluster file first, then from the lock, then from most hosts that have the name (see
    `prevailing`), else the first number that is free as UID and GID on all hosts is used. Numbers of former users are
    not free, as files may still have them. Raises IdConflict with all names that hosts have with other numbers, and the
    reverse.
    """
    if not cluster.unix_users or not (cluster.users or pinned):
        return {}
    used = UsedNumbers(facts, {*pinned.values(), *specified_ids(cluster)})
    chosen: dict[str, int] = {}
    for user in cluster.users:
        group = user.gid or pinned.get(f"{user.name}.gid") or prevailing(user.name, "groups", facts, controller)
        uid = user.uid or pinned.get(f"{user.name}.uid") or prevailing(user.name, "accounts", facts, controller)
        uid = uid or used.assign()
        chosen |= {f"{user.name}.uid": uid, f"{user.name}.gid": group or uid}
    for name in further_groups(cluster):
        if not is_systems(name, facts, pinned):
            gid = pinned.get(f"{name}.gid") or prevailing(name, "groups", facts, controller)
            chosen[f"{name}.gid"] = gid or used.assign()
    fixed = {*pinned, *(f"{user.name}.{kind}" for user in cluster.users for kind in ("uid", "gid") if user.uid)}

    def proposers(*names: str) -> tuple[str, ...]:
        """The hosts that have one of these users or groups with its number, where only they made it the chosen one."""
        free = (name for name in names if not {f"{name}.uid", f"{name}.gid"} & fixed)
        return system_ids.fewest(tuple(proposing(name, chosen, facts)) for name in free)

    complaints: list[Objection | str] = []
    for name in owners(chosen):
        complaints += (one._replace(proposers=proposers(name)) for one in conflicts(name, chosen, facts))
    if used.is_exhausted:
        none = f"no number from {CANDIDATES.start} to {CANDIDATES.stop - 1} is free for another user"
        complaints.append(Objection(used.holders(), none, about=NUMBERS) if used.holders() else none)
    for what, names in given_twice({**pinned, **chosen}):
        hosts = proposers(*names) or used.holders()
        complaints.append(Objection(hosts, what, about=NUMBERS) if hosts else what)
    objected((*complaints, *system_accounts(cluster, chosen, facts)), (WAY_OUT,), IdConflict)
    return chosen


def proposing(name: str, chosen: Numbers, facts: Mapping[str, HostFacts]) -> Iterator[str]:
    """Yield the hosts on which a user or group has the chosen number."""
    for host, fact in facts.items():
        account = fact.accounts.get(name)
        if (account and account.uid == chosen.get(f"{name}.uid")) or fact.groups.get(name) == chosen.get(f"{name}.gid"):
            yield host


class UsedNumbers:
    """The numbers that are not free: those on hosts, and those that were assigned since."""

    def __init__(self, facts: Mapping[str, HostFacts], more: Iterable[int]) -> None:
        self.of_hosts = {
            host: {*fact.uids, *fact.gids}.union(*(range(first, last + 1) for first, last in fact.subordinate))
            for host, fact in facts.items()
        }
        self.numbers = set(more).union(*self.of_hosts.values())
        self.is_exhausted = False

    def assign(self) -> int:
        """Assign the first free number."""
        free = next((number for number in CANDIDATES if number not in self.numbers), CANDIDATES.stop)
        self.is_exhausted |= free == CANDIDATES.stop
        self.numbers.add(free)
        return free

    def holders(self) -> tuple[str, ...]:
        """The hosts that say that most of the numbers to choose from are taken, so that none is left."""
        return tuple(host for host, own in self.of_hosts.items() if 2 * len(own & {*CANDIDATES}) > len(CANDIDATES))


def specified_ids(cluster: Cluster) -> set[int]:
    """The UIDs and GIDs in the cluster file."""
    people = {number for user in cluster.users for number in (user.uid, user.gid) if number}
    return people | set(cluster.ids.values())


def prevailing(name: str, kind: str, facts: Mapping[str, HostFacts], controller: str) -> int | None:
    """The number that most hosts have for a name of a kind (`accounts`, `groups`); `None` if no host has it.

    Not every number of few hosts without the controller counts: it must be a person's, and in nobody's range of
    subordinate IDs, as whoever has that can become its owner. Of users, a system user's is told (`system_accounts`).
    """
    if kind == "groups":
        found = {host: fact.groups[name] for host, fact in facts.items() if name in fact.groups}
    else:
        found = {host: fact.accounts[name].uid for host, fact in facts.items() if name in fact.accounts}
    ranges = {pair for fact in facts.values() for pair in fact.subordinate}
    least = FIRST_OF_PEOPLE if kind == "groups" else 1

    def is_ordinary(number: int) -> bool:
        return least <= number < CANDIDATES.stop and not any(first <= number <= last for first, last in ranges)

    possible = {host: number for host, number in found.items() if is_possible(number)}
    counts = Counter(system_ids.heard(possible, is_ordinary, controller, len(facts)).values())
    return counts.most_common(1)[0][0] if counts else None


def owners(chosen: Numbers) -> tuple[str, ...]:
    """The names that have a number, each once."""
    return tuple(dict.fromkeys(name for name, _ in split(chosen)))


def conflicts(name: str, chosen: Numbers, facts: Mapping[str, HostFacts]) -> Iterator[Objection]:
    """The conflicts of hosts with the numbers of a user or group; hosts with the same one are together."""
    found = grouped((what, host) for host, fact in facts.items() for what in differences(name, chosen, fact))
    yield from (Objection((*hosts,), f"{what}.", about=NUMBERS) for what, hosts in found.items())


def differences(name: str, chosen: Numbers, fact: HostFacts) -> Iterator[str]:
    """Yield the conflicts of one host with the numbers of a user or group. `name`: name of the user or group."""
    uid, gid = chosen.get(f"{name}.uid"), chosen[f"{name}.gid"]
    account, group = fact.accounts.get(name), fact.groups.get(name)
    if uid is not None and account and account.uid != uid:
        yield f"user {name} has UID {account.uid} there, but the cluster uses {uid}"
    if group is not None and group != gid:
        yield f"group {name} has GID {group} there, but the cluster uses {gid}"
    if uid is not None and account and account.gid not in (gid, group):
        owner = fact.gids.get(account.gid, "nobody")
        yield (
            f"user {name} has the primary group {owner} (GID {account.gid}) there, but the cluster uses a group {name} "
            f"(GID {gid}): groupadd -g {gid} {name}; usermod -g {name} {name}"
        )
    if uid is not None and fact.uids.get(uid, name) != name:
        yield f"UID {uid}, wanted for {name}, belongs to {fact.uids[uid]} there"
    if fact.gids.get(gid, name) != name:
        yield f"GID {gid}, wanted for {name}, belongs to {fact.gids[gid]} there"


def given_twice(numbers: Numbers) -> Iterator[tuple[str, list[str]]]:
    """Yield numbers that two names of the cluster would share, former users, slurm and munge too, and the names."""
    for kind in ("uid", "gid"):
        holders: dict[int, list[str]] = {}
        for key, number in numbers.items():
            if key.endswith(f".{kind}"):
                holders.setdefault(number, []).append(key.rpartition(".")[0])
        for number, names in holders.items():
            if len(names) > 1:
                yield f"{kind.upper()} {number} is wanted for {' and '.join(sorted(names))}.", names


def system_accounts(cluster: Cluster, chosen: Numbers, facts: Mapping[str, HostFacts]) -> Iterator[Objection]:
    """Yield each user of the cluster that is a system user on hosts."""
    for user in cluster.users:
        hosts = [
            host
            for host, fact in facts.items()
            if user.name in fact.accounts and fact.accounts[user.name].uid < FIRST_OF_PEOPLE
        ]
        if hosts and chosen[f"{user.name}.uid"] < FIRST_OF_PEOPLE:
            number = chosen[f"{user.name}.uid"]
            yield Objection((*hosts,), f"{user.name} is a system user there (UID {number}).", about=NUMBERS)


def refuse_partial(cluster: Cluster, asked: Collection[str], before: Numbers, chosen: Numbers) -> None:
    """Refuse new numbers, by IdConflict, if not all hosts were asked (even in vain) which are free."""
    left = [host for host in cluster.hosts if host not in asked]
    declared = {user.name for user in cluster.users if user.uid}
    new = [name for name in owners(chosen) if not is_possible(before.get(f"{name}.gid", 0)) and name not in declared]
    if left and new:
        raise IdConflict(
            f"{', '.join(new)}: no UID or GID was chosen yet, and it must be free on {fold(left)} too. Run "
            f"{FAB} deploy without --hosts, or set uid in the cluster file. Nothing was changed."
        )
