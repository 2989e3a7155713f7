"""Choose the UID and GID of slurm and munge: the same on all hosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TypeVar

from slurmfab.base.errors import IdConflict
from slurmfab.base.grouping import grouped
from slurmfab.base.hostlist import fold
from slurmfab.base.objections import NUMBERS, Objection, objected, outweighs
from slurmfab.base.program_name import FAB
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.slurm.platform import DEBIAN

SYSTEM_USERS = ("slurm", "munge")
SYSTEM_NUMBERS = tuple((user, kind) for user in SYSTEM_USERS for kind in ("uid", "gid"))

FIRST_OF_PEOPLE = 1000  # lower numbers are for system users (Debian Policy 9.2.2; UID_MIN and GID_MIN of login.defs(5))

DEFAULTS = {"slurm": DEBIAN.slurm.number}
"""The ID that Debian and Ubuntu reserve for slurm (slurm-wlm-basic-plugins, preinst and sysusers.d)."""

CANDIDATES = range(450, 550)
"""Numbers to choose for munge: between those that adduser assigns upwards and systemd-sysusers downwards."""

RESERVED = range(64000, 65000)
"""Numbers that Debian gives to packages that need the same on all hosts (Debian Policy 9.2.2)."""

NOBODYS = (65534, 65535)  # the number of `nobody`, and -1 in 16 bits

Numbers = TypeVar("Numbers")

WAY_OUT = (
    "Nothing was changed. Free the number on those hosts, or choose others: "
    "ids: {slurm: NUMBER, munge: NUMBER} in the cluster file."
)


def is_possible(number: int) -> bool:
    """Whether a number can be anybody's: many programs take those from 2^31 on for negative ones, or for none."""
    return 0 < number < 1 << 31 and number not in NOBODYS


def heard(
    found: Mapping[str, Numbers], is_ordinary: Callable[[Numbers], bool], controller: str, among: int
) -> dict[str, Numbers]:
    """What hosts have, without what is not ordinary, unless the controller or most `among` all hosts have it, too."""
    same = grouped((numbers, host) for host, numbers in found.items())
    taken = [one for one, hosts in same.items() if is_ordinary(one) or outweighs(hosts, controller, among)]
    return {host: numbers for host, numbers in found.items() if numbers in taken}


def is_systems(pair: tuple[int, int]) -> bool:
    """Whether these are ordinary numbers of a system user and its group: no person can have or become one of them."""
    return all(0 < number < FIRST_OF_PEOPLE or number in RESERVED for number in pair)


def choose(
    facts: Mapping[str, HostFacts],
    declared: Mapping[str, int],
    pinned: Mapping[str, int],
    *,
    controller: str = "",
    moving: bool = False,
) -> dict[str, int]:
    """Choose the UIDs and GIDs of the system users: `slurm.uid`, `slurm.gid`, `munge.uid` and `munge.gid`.

    Numbers come from the cluster file's `ids` first, then from the lock, then from most hosts that have the user (see
    `heard`), then from the controller, then from the distribution, else from the first number that is free on all
    hosts. `controller`: empty where --move-ids is not available. `moving`: other numbers of the user will be changed,
    also those that most hosts have where they are another's (see `denied`). Raises IdConflict with all.
    """
    chosen: dict[str, int] = {}
    for user in SYSTEM_USERS:
        other = tuple(chosen.values())
        uid, gid = pick(user, facts, declared, pinned, other, controller=controller, moving=moving)
        chosen |= {f"{user}.uid": uid, f"{user}.gid": gid}
    free = [user for user in SYSTEM_USERS if user not in declared and f"{user}.uid" not in pinned]
    complaints: list[Objection | str] = []
    for user in SYSTEM_USERS:
        proposers = proposing(user, chosen, facts) if user in free else ()
        complaints += (one._replace(proposers=proposers) for one in conflicts(user, chosen, facts, moving=moving))
    for kind in ("uid", "gid"):
        if chosen[f"slurm.{kind}"] == chosen[f"munge.{kind}"]:
            what = f"{kind.upper()} {chosen[f'slurm.{kind}']} is wanted for both slurm and munge."
            hosts = fewest(proposing(user, chosen, facts) for user in free)
            complaints.append(Objection(hosts, what, about=NUMBERS) if hosts else what)
    if complaints:
        offered = () if moving or not controller else offer(facts, declared, pinned, controller)
        objected(complaints, (*offered, WAY_OUT), IdConflict)
    return chosen


def proposing(user: str, chosen: Mapping[str, int], facts: Mapping[str, HostFacts]) -> tuple[str, ...]:
    """The hosts that have a system user with the chosen numbers, and so may be why they were chosen."""
    pair = chosen[f"{user}.uid"], chosen[f"{user}.gid"]
    known = ((host, fact.accounts.get(user)) for host, fact in facts.items())
    return tuple(host for host, account in known if account and (account.uid, account.gid) == pair)


def fewest(groups: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """The smallest of some groups of hosts that is not empty."""
    return min(filter(None, groups), key=len, default=())


def offer(
    facts: Mapping[str, HostFacts], declared: Mapping[str, int], pinned: Mapping[str, int], controller: str
) -> tuple[str, ...]:
    """What --move-ids would change, given the cluster file's `ids`; empty if it cannot solve the conflict."""
    try:
        chosen = choose(facts, declared, pinned, controller=controller, moving=True)
    except IdConflict:
        return ()
    found: dict[str, list[str]] = {}
    for host, fact in facts.items():
        for user in SYSTEM_USERS:
            if change := move(user, chosen, fact):
                found.setdefault(f"{user}: {change}", []).append(host)
    return (
        "With --move-ids, users and groups get these numbers, as do all their files on local file systems:",
        *(f"    {fold(hosts)}: {what}" for what, hosts in found.items()),
        f"To see first how many files change: {FAB} plan --move-ids",
    )


def pick(
    user: str,
    facts: Mapping[str, HostFacts],
    declared: Mapping[str, int],
    pinned: Mapping[str, int],
    other: tuple[int, ...],
    *,
    controller: str = "",
    moving: bool = False,
) -> tuple[int, int]:
    """The UID and GID that a system user should have, free or not; `other`: those of the other one. See `choose`."""
    if user in declared:
        return declared[user], declared[user]
    if f"{user}.uid" in pinned and f"{user}.gid" in pinned:
        return pinned[f"{user}.uid"], pinned[f"{user}.gid"]
    found = {
        host: (fact.accounts[user].uid, fact.accounts[user].gid)
        for host, fact in facts.items()
        if user in fact.accounts and is_possible(fact.accounts[user].uid) and is_possible(fact.accounts[user].gid)
    }
    found = heard(found, is_systems, controller, len(facts))
    if moving:
        out = denied(user, found, facts, controller)
        found = {
            host: pair
            for host, pair in found.items()
            if pair not in out and not any(one == its for one, its in zip(pair, other, strict=False))
        }
    prevailing = most_common(found, controller)
    if prevailing:
        return prevailing
    if user in DEFAULTS:
        return DEFAULTS[user], DEFAULTS[user]
    taken = {number for fact in facts.values() for number in (*fact.uids, *fact.gids)}
    free = next((number for number in CANDIDATES if number not in taken | {*other}), CANDIDATES.stop)
    return free, free


def denied(
    user: str, found: Mapping[str, tuple[int, int]], facts: Mapping[str, HostFacts], controller: str
) -> set[tuple[int, int]]:
    """The pairs of UID and GID that are another's by the word of the controller or of most hosts.

    Those that few hosts have are denied by as many. What fewer hosts say is in their own way alone: see `conflicts`.
    """
    out = set()
    for pair, having in grouped((pair, host) for host, pair in found.items()).items():
        uid, gid = pair
        against = [
            host for host, fact in facts.items() if {fact.uids.get(uid, user), fact.gids.get(gid, user)} != {user}
        ]
        is_even = len(against) >= len(having) and not outweighs(having, controller, len(facts))
        if outweighs(against, controller, len(facts)) or is_even:
            out.add(pair)
    return out


def most_common(found: Mapping[str, tuple[int, int]], controller: str) -> tuple[int, int] | None:
    """The numbers that most hosts have, so that the fewest hosts change; of equal counts those of the controller.

    There the user owns the state of all jobs, and without slurmctld no jobs can be submitted.
    """
    counts = Counter(found.values())
    leading = [pair for pair, count in counts.items() if count == max(counts.values())]
    if len(leading) == 1:
        return leading[0]
    return found[controller] if found.get(controller) in leading else None


def conflicts(
    user: str, chosen: Mapping[str, int], facts: Mapping[str, HostFacts], *, moving: bool = False
) -> Iterator[Objection]:
    """The conflicts of hosts with a user's IDs, equal ones together; moved ones conflict with others' alone."""
    uid, gid = chosen[f"{user}.uid"], chosen[f"{user}.gid"]

    def of_host(fact: HostFacts) -> Iterator[str]:
        yield from () if moving else other_numbers(user, chosen, fact)
        for kind, number, owner in (("UID", uid, fact.uids.get(uid)), ("GID", gid, fact.gids.get(gid))):
            if owner not in (None, user):
                yield f"{kind} {number}, wanted for {user}, belongs to {owner} there"

    found = grouped((what, host) for host, fact in facts.items() for what in of_host(fact))
    yield from (Objection((*hosts,), f"{what}.", about=NUMBERS) for what, hosts in found.items())


def other_numbers(user: str, chosen: Mapping[str, int], fact: HostFacts) -> Iterable[str]:
    """Yield how a user and its group on one host differ from the chosen numbers, with both numbers."""
    kinds = {
        "uid": f"user {user} has UID",
        "gid": f"group {user} has GID",
        "primary gid": f"user {user} has the primary GID",
    }
    for kind, old, new in differing_numbers(user, chosen, fact):
        yield f"{kinds[kind]} {old} there, but the cluster uses {new}"


def move(user: str, chosen: Mapping[str, int], fact: HostFacts) -> str:
    """The change of a user's numbers on one host, such as `uid 1001 -> 64030, gid 1001 -> 64030`; empty for none."""
    return ", ".join(f"{kind} {old} -> {new}" for kind, old, new in differing_numbers(user, chosen, fact))


def differing_numbers(user: str, chosen: Mapping[str, int], fact: HostFacts) -> Iterable[tuple[str, int, int]]:
    """Yield numbers of a user on a host (`uid`, `gid`, `primary gid`) that differ from the chosen ones, with both."""
    uid, gid = chosen[f"{user}.uid"], chosen[f"{user}.gid"]
    account, group = fact.accounts.get(user), fact.groups.get(user)
    if account and account.uid != uid:
        yield "uid", account.uid, uid
    if group is not None and group != gid:
        yield "gid", group, gid
    if account and account.gid not in (gid, group):
        yield "primary gid", account.gid, gid


def refuse_partial_move(
    hosts: Collection[str],
    everybody: Collection[str],
    before: Mapping[str, int],
    chosen: Mapping[str, int],
    facts: Mapping[str, HostFacts],
) -> None:
    """Refuse, by IdConflict, to change numbers on some hosts only, if other hosts need the change too.

    `before`: the lock's numbers before this run. `chosen`: those of now.
    """
    left = [host for host in everybody if host not in hosts]
    changes = before and any(before.get(f"{user}.{kind}") != chosen[f"{user}.{kind}"] for user, kind in SYSTEM_NUMBERS)
    moved = [host for host in left if host in facts and any(move(user, chosen, facts[host]) for user in SYSTEM_USERS)]
    if left and (changes or moved):
        raise IdConflict(
            f"slurm and munge need the same UID and GID on all hosts, and {fold(moved or left)} would keep other "
            f"numbers. Run {FAB} deploy --move-ids without --hosts. Nothing was changed."
        )
