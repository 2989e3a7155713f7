"""`deploy --retry-failed`: which hosts the runs before had to leave out, by their records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from slurmfab.errors import InputError
from slurmfab.hostlist import fold
from slurmfab.report import NOT_DEPLOYING
from slurmfab.runs import record

if TYPE_CHECKING:
    from slurmfab.inventory import Inventory
    from slurmfab.runs.record import Record


def refuse_others(hosts: str, plan_file: str) -> None:
    """Refuse what cannot be said together with `--retry-failed`, which chooses the hosts by itself.

    Raises:
        InputError: it was said.
    """
    others = [flag for flag, said in (("--hosts", hosts), ("--plan", plan_file)) if said]
    if others:
        raise InputError(f"--retry-failed chooses the hosts itself; leave out {' and '.join(others)}.")


def chosen(known: Inventory, tell: Callable[[str], None]) -> str | None:
    """The hosts that a retry is about, as a hostlist.

    Args:
        known: the cluster.
        tell: told in a line what it will be, and why.

    Returns:
        The hostlist; empty for all hosts, and `None` when nothing is to be tried again.
    """
    records, complaints = record.load_all(known.path)
    for complaint in complaints:
        tell(complaint)
    cluster = known.cluster
    failed = left_out(records, cluster.hosts)
    if not failed:
        tell("The runs before left out no host that is in the cluster file now; nothing is tried again.")
        return None
    if set(cluster.hosts) <= set(failed):
        tell("The last run did not get through at all, so this one is about all hosts again.")
        return ""
    fresh = [host for host in failed if is_fresh(known, host)]
    if fresh:
        tell(f"{fold(fresh)}: the other hosts know nothing of it yet, so this run is about all of them.")
        return ""
    tell(f"Going on with {fold(failed)}.")
    return fold(failed)


def left_out(records: Iterable[Record], hosts: Iterable[str]) -> tuple[str, ...]:
    """Those of the hosts that failed, or were left out, in the last run that was about them.

    A run that was cut off, or stopped early, got through on none of its hosts.

    Args:
        records: of the cluster, oldest first.
        hosts: of the cluster file.
    """
    is_well: dict[str, bool] = {}
    for one in records:
        if one.command in NOT_DEPLOYING:
            continue
        is_through = one.ended is not None and not one.error
        failed = {*one.lost, *(step.host for step in one.steps if step.has_failed)}
        is_well.update({host: is_through and host not in failed for host in one.hosts})
    return tuple(host for host in hosts if not is_well.get(host, True))


def is_fresh(known: Inventory, host: str) -> bool:
    """Whether a host was lost so early that the other hosts lack its keys, or slurm.conf its hardware."""
    pinned = known.lock.hosts.get(host)
    if pinned is None or not pinned.public_key:
        return True
    return "compute" in known.cluster.roles(host) and pinned.hardware is None
