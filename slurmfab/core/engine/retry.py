"""How earlier deployments ended on hosts, from their records: what `--retry-failed` is about, and what to do first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from slurmfab.base import atomic_file
from slurmfab.base.errors import BrokenFile, InputError
from slurmfab.base.folding import fold_lines
from slurmfab.base.hostlist import fold, shell_word
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import in_one_line
from slurmfab.core.engine import record
from slurmfab.core.engine.report import NOT_DEPLOYING
from slurmfab.on_hosts.agent.core.resource import FAILED, WOULD_CHANGE

if TYPE_CHECKING:
    from slurmfab.cluster.inventory.loading import Inventory
    from slurmfab.core.engine.record import Record
    from slurmfab.core.engine.report import Report


MOST_RECORDS = 5  # so many records, from the newest on, are looked through for the last deployment of each host

NUMBER = re.compile(r"\d+")

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


class Failure(NamedTuple):
    """How the last deployment of a host failed there."""

    when: str  # when it began, such as `2026-11-29 15:20`
    whys: Mapping[str, str]  # the messages by resource; by an empty text where the host or the run was given up

    @property
    def why(self) -> str:
        """The messages in a line."""
        told = [f"{name}: {why}" if name else why for name, why in self.whys.items()]
        return in_one_line("; ".join(one.rstrip(".") for one in told))


def last_failures(path: Path, hosts: Iterable[str], *, but: str = "") -> dict[str, Failure]:
    """The failures of hosts whose last deployment failed there; `but`: the ID of a run that does not count."""
    left, found = set(hosts), dict[str, Failure]()
    for file in list(reversed(atomic_file.kept(record.directory(path), path)))[:MOST_RECORDS]:
        if not left:
            break
        with suppress(OSError, BrokenFile):
            one = record.record_from(record.stored(file, path), file.stem) if file.stem != but else None
            if one is None or one.command in NOT_DEPLOYING or one.only or one.ended is None:
                continue
            when = one.begun.astimezone().strftime("%Y-%m-%d %H:%M")
            for host in left.intersection(one.hosts):
                left.remove(host)
                outcomes = [outcome for step in one.steps if step.host == host for outcome in step.outcomes]
                whys = {outcome.id: outcome.message for outcome in outcomes if outcome.status == FAILED}
                if not whys and (why := one.lost.get(host) or one.error):
                    whys = {"": why}
                if whys:
                    found[host] = Failure(when, whys)
    return found


def repeated(path: Path, report: Report, run: str) -> str:
    """That hosts failed for the reason of their deployment before, and what to look at instead; empty if none did.

    `run`: the ID of the run of the report. Numbers in a reason, such as process IDs, do not tell it from another.
    """
    now = dict[str, set[str]]()
    for step in report.steps:
        whys = {NUMBER.sub("", f"{one.id}: {one.message}") for one in step.with_status(FAILED)}
        now.setdefault(step.host, set()).update(whys)
    for host, why in report.reasons.items():
        now.setdefault(host, {NUMBER.sub("", f": {why}")})
    before = last_failures(path, [host for host, whys in now.items() if whys], but=run)
    same = {
        host: one.when
        for host, one in before.items()
        if now[host] & {NUMBER.sub("", f"{name}: {why}") for name, why in one.whys.items()}
    }
    if not same:
        return ""
    hosts = shell_word(same)
    return (
        f"{fold(same)}: the deployment of {max(same.values())} failed for the same reason, so another one will not "
        f"help before that has changed. More about it: {FAB} logs {hosts}; {FAB} check-cluster --hosts {hosts}."
    )


def after_failures(path: Path, report: Report) -> str:
    """What to do before a planned deployment, whose last one failed at what it would change now; or empty."""
    would = [(step.host, one) for step in report.steps for one in step.with_status(WOULD_CHANGE)]
    planned = {(host, one.id) for host, one in would}
    # What the controller says of other hosts, such as nodes that are not ready, has failed on these (`apart`).
    planned |= {
        (change.name, f"{one.id.partition(':')[0]}:{change.name}") for _, one in would for change in one.changes
    }
    before = last_failures(path, {host for host, _ in planned})
    told = [
        (host, f"{name}: {why}")
        for host, one in before.items()
        for name, why in one.whys.items()
        if (host, name) in planned
    ]
    return "\n".join(["Next: first what made the last deployment fail at that:", *fold_lines(told)]) if told else ""
