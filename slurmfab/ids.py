"""Which UID and GID slurm and munge get: one pair for all hosts, decided after all have been asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from slurmfab.errors import IdConflict
from slurmfab.facts import HostFacts
from slurmfab.hostlist import fold

SYSTEM_USERS = ("slurm", "munge")

DEFAULTS = {"slurm": 64030}
"""The ID that Debian and Ubuntu reserve for slurm (slurm-wlm-basic-plugins, preinst and sysusers.d)."""

CANDIDATES = range(450, 550)
"""Where an ID for munge is sought: between those that adduser gives out upwards and systemd-sysusers downwards."""


def choose(facts: Mapping[str, HostFacts], declared: Mapping[str, int], pinned: Mapping[str, int]) -> dict[str, int]:
    """The IDs of the system users, as `{"slurm.uid": 64030, "slurm.gid": 64030, "munge.uid": …}`.

    The cluster file's word comes first, then the lock's, then what all hosts that have the user agree on, then the
    distribution's own number, then the first that is free everywhere.

    Args:
        facts: of every host that answered.
        declared: the cluster file's `ids`, one number for UID and GID.
        pinned: the lock's, in the form of the result.

    Raises:
        IdConflict: some host has the user with other numbers, or somebody else with these; all conflicts at once.
    """
    chosen: dict[str, int] = {}
    for user in SYSTEM_USERS:
        uid, gid = pick(user, facts, declared, pinned, frozenset(chosen.values()))
        chosen |= {f"{user}.uid": uid, f"{user}.gid": gid}
    complaints = [line for user in SYSTEM_USERS for line in conflicts(user, chosen, facts)]
    complaints += [
        f"{kind.upper()} {chosen[f'slurm.{kind}']} is wanted for both slurm and munge."
        for kind in ("uid", "gid")
        if chosen[f"slurm.{kind}"] == chosen[f"munge.{kind}"]
    ]
    if complaints:
        raise IdConflict(
            "\n".join(
                [
                    *complaints,
                    "Nothing was changed. Free the number on those hosts, or choose others: "
                    "ids: {slurm: NUMBER, munge: NUMBER} in the cluster file.",
                ]
            )
        )
    return chosen


def pick(
    user: str,
    facts: Mapping[str, HostFacts],
    declared: Mapping[str, int],
    pinned: Mapping[str, int],
    others: frozenset[int],
) -> tuple[int, int]:
    """The UID and GID that a system user should have, free or not; `others` are those that another one has got."""
    if user in declared:
        return declared[user], declared[user]
    if f"{user}.uid" in pinned:
        return pinned[f"{user}.uid"], pinned[f"{user}.gid"]
    existing = {(fact.accounts[user].uid, fact.accounts[user].gid) for fact in facts.values() if user in fact.accounts}
    if len(existing) == 1:
        return existing.pop()
    if user in DEFAULTS:
        return DEFAULTS[user], DEFAULTS[user]
    taken = {number for fact in facts.values() for number in (*fact.uids, *fact.gids)}
    free = next((number for number in CANDIDATES if number not in taken | others), CANDIDATES.stop)
    return free, free


def conflicts(user: str, chosen: Mapping[str, int], facts: Mapping[str, HostFacts]) -> Iterable[str]:
    """A line for each way in which hosts disagree with the chosen IDs of a user; hosts with the same one are folded."""
    uid, gid = chosen[f"{user}.uid"], chosen[f"{user}.gid"]
    found: dict[str, list[str]] = {}
    for host, fact in facts.items():
        account, group = fact.accounts.get(user), fact.groups.get(user)
        uid_owner, gid_owner = fact.uids.get(uid, user), fact.gids.get(gid, user)
        if account and account.uid != uid:
            found.setdefault(f"user {user} has UID {account.uid} there, and {uid} is wanted everywhere", []).append(
                host
            )
        if group is not None and group != gid:
            found.setdefault(f"group {user} has GID {group} there, and {gid} is wanted everywhere", []).append(host)
        if uid_owner != user:
            found.setdefault(f"UID {uid}, wanted for {user}, belongs to {uid_owner} there", []).append(host)
        if gid_owner != user:
            found.setdefault(f"GID {gid}, wanted for {user}, belongs to {gid_owner} there", []).append(host)
    return [f"{fold(hosts)}: {what}." for what, hosts in found.items()]
