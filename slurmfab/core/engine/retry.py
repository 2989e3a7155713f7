"""`deploy --retry-failed`: the hosts on which earlier runs failed, from the records of these runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from slurmfab.base.errors import InputError
from slurmfab.base.hostlist import fold
from slurmfab.core.engine import record
from slurmfab.core.engine.report import NOT_DEPLOYING

if TYPE_CHECKING:
    from slurmfab.cluster.inventory.loading import Inventory
    from slurmfab.core.engine.record import Record


NODES = "nodes"  # name of the phase in which slurmctld is asked, on the controller, whether nodes are ready


def refuse_others(hosts: str, plan_file: str) -> None:
    """Refuse, by InputError, `--hosts` and `--plan` beside `--retry-failed`, which chooses the hosts itself."""
    others = [flag for flag, value in (("--hosts", hosts), ("--plan", plan_file)) if value]
    if others:
        raise InputError(f"--retry-failed chooses the hosts itself; leave out {' and '.join(others)}.")


def hosts_to_retry(known: Inventory, tell: Callable[[str], None]) -> str | None:
    """The hosts to deploy to again, as a hostlist.

    `tell`: prints a line; it tells which hosts these are, and why. Returns the hostlist; empty for all hosts, and
    `None` if there is no host to retry.
    """
    records, complaints = record.load_all(known.path)
    for complaint in complaints:
        tell(complaint)
    cluster = known.cluster
    failed = failed_before(records, cluster.hosts)
    if not failed:
        tell("No hosts to retry: the last run of each host in the cluster file succeeded.")
        return None
    if set(cluster.hosts) <= set(failed):
        tell("The last run did not complete on any host, so this run is about all hosts.")
        return ""
    new = [host for host in failed if is_new(known, host)]
    if new:
        tell(f"{fold(new)}: not in the configuration of the other hosts yet, so this run is about all hosts.")
        return ""
    asked = with_controller(records, known.cluster.controller, failed)
    tell(f"Retrying {fold(asked)}.")
    return fold(asked)


def with_controller(records: Iterable[Record], controller: str, failed: tuple[str, ...]) -> tuple[str, ...]:
    """The hosts that failed, with the controller if slurmctld reported one of them as not ready for jobs."""
    late = {step.host for one in records for step in one.steps if step.phase == NODES and step.has_failed}
    return tuple(dict.fromkeys((controller, *failed))) if late & set(failed) else failed


def failed_before(records: Iterable[Record], hosts: Iterable[str]) -> tuple[str, ...]:
    """The hosts that failed or were excluded in the last run that was about them.

    A run that was interrupted or stopped early counts as failed on all of its hosts; one of some phases alone does not
    count. `records`: the records of the cluster, oldest first.
    """
    succeeded: dict[str, bool] = {}
    for one in records:
        if one.command in NOT_DEPLOYING or one.only:
            continue
        is_complete = one.ended is not None and not one.error
        failed = {*one.lost, *(step.host for step in one.steps if step.has_failed)}
        succeeded.update({host: is_complete and host not in failed for host in one.hosts})
    return tuple(host for host in hosts if not succeeded.get(host, True))


def is_new(known: Inventory, host: str) -> bool:
    """Whether a host failed so early that the lock lacks its public key or its hardware."""
    pinned = known.lock.hosts.get(host)
    if pinned is None or not pinned.public_key:
        return True
    return "compute" in known.cluster.roles(host) and pinned.hardware is None
