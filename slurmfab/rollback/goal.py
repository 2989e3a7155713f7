"""Where a rollback leads to: which run it undoes, and what the cluster file and the lock said before that run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from slurmfab import inventory
from slurmfab import lock as locks
from slurmfab.agent.resource import CHANGED, FAILED
from slurmfab.errors import InputError
from slurmfab.hostlist import fold
from slurmfab.inventory import Inventory
from slurmfab.lock import Lock
from slurmfab.report import DONE, LEFT_OUT
from slurmfab.rollback.kept import Kept
from slurmfab.runs.record import SETTLING, Record

COMMAND = "rollback"
RESTORE = "restore"

NODE_STATES = {
    "node-drain", "node-resume", "node-reboot", "node-gate", "node-trial", "jobs-ended", "slurm-nodes",
    "partition-drain",
}  # fmt: skip
"""Kinds of resources that change what Slurm thinks of nodes and partitions, and no file that a host could keep."""

NODE_COMMANDS = ("drain", "reboot")
"""Commands that change nothing else, also where they were cut off."""

KEEPING = {"absent", "block", "file", "munge-key", "munge-key-switch", "restored", "scripts", "service"}
"""Kinds of resources that never change anything of which the host keeps nothing."""

EMPTIED = (
    "it keeps nothing of what was changed there, so it is probably another system than then. Once the others are back, "
    "fab deploy makes it like them."
)
"""Why a host cannot be brought back."""

INVERSE = {"drain": "fab resume {hosts} takes it back", "resume": "fab drain {hosts} takes it back"}
"""What undoes runs that changed no file, by their command."""


@dataclass(frozen=True)
class Goal:
    """Where a rollback leads to.

    Args:
        undone: the run that is undone, with all later ones.
        cluster_file: the cluster file's text then; `None` where it stays as it is.
        lock: the lock then, likewise.
        was_deployed: whether a run had made the hosts a cluster before; if not, their daemons are as they were.
        why: the reason why the cluster file stays, as a sentence; empty where it does not.
    """

    undone: str
    cluster_file: str | None = None
    lock: Lock | None = None
    was_deployed: bool = True
    why: str = ""


def changes_hosts(record: Record) -> bool:
    """Whether a run changed, or may have changed, more on hosts than the states of nodes."""
    kinds = {
        outcome.id.split(":")[0]
        for step in record.steps
        for outcome in step.outcomes
        if outcome.status in (CHANGED, FAILED)
    }
    is_half_known = record.ended is None and record.command not in NODE_COMMANDS
    return is_half_known or bool(kinds - NODE_STATES - {"trial"})


def latest(records: Sequence[Record]) -> Record:
    """The run that is undone when nobody says which: the last one that changed something.

    A rollback that was cut off, or left hosts out, is gone on with. A run that went on with one that was cut off is
    undone together with that one, for nobody wants to go back to half of a change.

    Raises:
        InputError: there is none.
    """
    changing = [record for record in records if changes_hosts(record)]
    if not changing:
        raise InputError("No recorded run has changed anything on the hosts, so there is nothing to roll back.")
    last = changing[-1]
    by_id = {record.run: record for record in records}
    if last.command == COMMAND and last.undoes in by_id and (last.ended is None or last.exit_code != DONE):
        return by_id[last.undoes]
    settling = [record for record in records if settles(record) and record.run <= last.run]
    place = len(settling) - 1
    while place and settling[place - 1].ended is None:
        place -= 1
    return settling[place]


def settles(record: Record) -> bool:
    """Whether the hosts were in another state after a run, or known to be in the one that was wanted."""
    return changes_hosts(record) or record.command in SETTLING


def before(records: Sequence[Record], undone: Record) -> Goal:
    """What the cluster file and the lock said before a run.

    Args:
        records: all that there are, oldest first.
        undone: the run.

    Raises:
        InputError: the run before it was cut off, so that nobody knows a state to go back to; or hosts kept nothing
            yet at that time; or a backup was restored since.
    """
    if undone.cluster_file is None and undone.ended:
        raise InputError(f"{undone.run} is of an older slurmfab, with which hosts kept nothing; it cannot be undone.")
    restored = next((one.run for one in records if one.run >= undone.run and one.command == RESTORE), "")
    if restored:
        raise InputError(
            f"{restored} has put a backup's data in the place of others, of which hosts keep nothing for a rollback. "
            "There is a way back only by a backup: fab restore."
        )
    earlier = [record for record in records if record.run < undone.run]
    if not earlier:
        why = f"{undone.run} was the first run, so the hosts go back to before it, and the cluster file stays as it is."
        return Goal(undone.run, was_deployed=False, why=why)
    settling = [record for record in earlier if settles(record)]
    if settling and settling[-1].ended is None:
        raise InputError(
            f"The run before {undone.run} was cut off, and half of a change is nothing to go back to. Undo both: "
            f"fab rollback {settling[-1].run}."
        )
    newest = earlier[-1]
    was_deployed = any(record.exit_code in (DONE, LEFT_OUT) for record in earlier if record.ended)
    if newest.cluster_file is None or newest.lock is None:
        why = f"The record of {newest.run} does not hold the cluster file, so that stays as it is; see fab plan."
        return Goal(undone.run, was_deployed=was_deployed, why=why)
    lock = locks.from_values(newest.lock, Path(newest.run))
    return Goal(undone.run, newest.cluster_file, lock, was_deployed)


def refuse_unnamed(goal: Goal) -> None:
    """Refuse to take a whole cluster down when nobody has named the run that made it.

    Raises:
        InputError: the goal is before the first run.
    """
    if goal.cluster_file is None and not goal.was_deployed:
        raise InputError(
            f"{goal.undone} made the cluster, and to undo it takes the cluster down: daemons stop, and Slurm's files "
            f"and keys go. If that is meant, name it: fab rollback {goal.undone}. Nothing was changed."
        )


def inventory_then(goal: Goal, present: Inventory) -> Inventory:
    """The cluster file and the lock that the hosts go back to.

    Of what has been found out since, the host keys stay pinned; and packages are not rolled back, so neither is what
    is installed.

    Args:
        goal: from `before`.
        present: as they are.

    Raises:
        ClusterFileError: this slurmfab does not understand the earlier cluster file any more.
    """
    if goal.cluster_file is None or goal.lock is None:
        return present
    cluster = inventory.parse(goal.cluster_file, f"{present.path} before {goal.undone}")
    lock = replace(goal.lock, slurm=present.lock.slurm or goal.lock.slurm)
    for name, host in goal.lock.hosts.items():
        if name in present.lock.hosts:
            keys = {**host.host_keys, **present.lock.hosts[name].host_keys}
            lock = locks.with_host(lock, name, replace(host, host_keys=keys))
    return Inventory(cluster, lock, present.path)


def refuse_other_machines(undone: str, present: Inventory, then: Inventory) -> None:
    """Refuse to go back to other hosts than there are, or to other numbers of users.

    Args:
        undone: the run.
        present: the cluster file and the lock as they are.
        then: as they were.

    Raises:
        InputError: with what to do first, or instead.
    """
    hosts_now, hosts_then = frozenset(present.cluster.hosts), frozenset(then.cluster.hosts)
    joined = [host for host in present.cluster.hosts if host not in hosts_then]
    left = [host for host in then.cluster.hosts if host not in hosts_now]
    replaced = [host for host in then.cluster.hosts if is_another(present.lock, then.lock, host)]
    reasons = []
    if joined:
        reasons.append(stranger(joined, undone, present))
    if left:
        names = fold(left)
        reasons.append(
            f"{names}: in the cluster before {undone}, and not now. A node that has left keeps no keys, so there is no "
            f"way back behind that; fab add-node {names} takes it in again."
        )
    if replaced:
        reasons.append(
            f"{fold(replaced)}: another machine than before {undone}, by its SSH host key, and it keeps nothing of the "
            "state before. Change the cluster file instead, and fab deploy."
        )
    if then.lock.ids and present.lock.ids != then.lock.ids:
        numbers = moved(present.lock.ids, then.lock.ids)
        reasons.append(
            f"Since {undone} users or groups have other numbers ({numbers}), and those are in no file that hosts keep. "
            "Say the old ones in the cluster file instead, as ids, and fab deploy --move-ids."
        )
    if reasons:
        raise InputError("\n".join((*reasons, "Nothing was changed.")))


def stranger(joined: Sequence[str], undone: str, present: Inventory) -> str:
    """That hosts have joined since a run, and how they go out of the cluster again."""
    names = fold(joined)
    told = f"{names}: not in the cluster before {undone}."
    if any(present.cluster.roles(host) == ("database",) for host in joined):
        return f"{told} The database's host goes by taking the key database out of the cluster file, and fab deploy."
    return f"{told} Take {names} out first: fab remove-node {names}."


def is_another(now: Lock, then: Lock, host: str) -> bool:
    """Whether a host has shown another SSH key since, of a type that was pinned."""
    if host not in now.hosts or host not in then.hosts:
        return False
    keys = now.hosts[host].host_keys
    return any(keys.get(kind, key) != key for kind, key in then.hosts[host].host_keys.items())


def moved(now: Mapping[str, int], then: Mapping[str, int]) -> str:
    """The numbers that differ, in words."""
    return ", ".join(
        f"{name} {number} -> {now.get(name, number)}" for name, number in then.items() if now.get(name) != number
    )


def refuse_forgotten(undone: str, kept: Mapping[str, Kept], records: Sequence[Record]) -> None:
    """Refuse a run of which a host keeps nothing any more, since hosts keep the newest ones alone.

    Raises:
        InputError: with the oldest run that can still be undone.
    """
    gone = {host: of_host.dropped for host, of_host in kept.items() if of_host.dropped >= undone}
    if not gone:
        return
    newest = max(gone.values())
    left = [record.run for record in records if record.run > newest and changes_hosts(record)]
    way = (
        f"The oldest run that can be undone is {left[0]}: fab rollback {left[0]}." if left else "No run can be undone."
    )
    raise InputError(
        f"{fold(gone)}: the state before {undone} is not kept there any more, since hosts keep that of the newest runs "
        f"alone, and none from before they left a cluster. {way} Nothing was changed."
    )


def nothing_to_undo(record: Record) -> str:
    """What to say of a run that hosts keep nothing of, since it changed no file and no service."""
    hosts = fold(record.hosts)
    inverse = INVERSE.get(record.command, "").format(hosts=hosts)
    told = f"{record.run} changed no file and no service, and neither did any run since"
    return f"{told}; {inverse}." if inverse else f"{told}. There is nothing to roll back."


def emptied(kept: Mapping[str, Kept], undone: str, records: Sequence[Record]) -> tuple[str, ...]:
    """The hosts that keep nothing of what a run, or a later one, changed there by its record.

    Args:
        kept: what the hosts keep, by name.
        undone: the run.
        records: all that there are.
    """
    changed = {
        (step.host, record.run)
        for record in records
        for step in record.steps
        for outcome in step.with_status(CHANGED)
        if record.run >= undone and outcome.id.split(":")[0] in KEEPING
        if {change.name for change in outcome.changes} != {"leftovers"}
    }
    return tuple(
        host for host, of_host in kept.items() if any(name == host and run not in of_host.runs for name, run in changed)
    )
