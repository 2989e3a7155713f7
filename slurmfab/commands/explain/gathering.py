"""Asks the hosts for what happened: a controller for Slurm's records, then nodes and controllers for their logs."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

from slurmfab.base import atomic_file
from slurmfab.base.errors import BrokenFile, HostError, SlurmfabError
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.explain.evidence import LOG, Attempt, Evidence, evidence, nodes_in
from slurmfab.commands.logs.asking import Answers, find_job, gather
from slurmfab.commands.logs.asking import Job as LoggedJob
from slurmfab.commands.logs.times import Period
from slurmfab.core.engine import record
from slurmfab.core.engine.record import Record
from slurmfab.hosts.fan_out import on_each
from slurmfab.hosts.session import answer_value
from slurmfab.hosts.transport import Transport
from slurmfab.on_hosts.agent.nodes import lost_jobs

DAYS = 14  # how far back the records of nodes, and users' jobs, are read
USER_DAYS = 1
LONGEST_RUN = 86400.0  # a run of slurmfab that began so much earlier may still have been at work
MOST_HOSTS = 32  # the most nodes of one job that are asked; of more the first ones
_UID = re.compile(r"\buid[ =](\d+)")


@dataclass(frozen=True)
class Asked:
    """What the hosts told, and which of them did not."""

    evidence: Evidence
    hosts: tuple[str, ...]  # that were asked
    lost: Mapping[str, str]  # those that did not answer, each with the reason
    notes: tuple[tuple[str, str], ...] = ()  # what is to be said of logs
    accounts: Mapping[str, Mapping[str, str]] | None = None  # of a user, by host
    health: tuple[str, ...] = ()  # what a node's health check finds now


def ask_controllers(known: Inventory, transport: Transport, request: Mapping[str, Any], job: str = "") -> Asked:
    """What the first controller that answers has on record; HostError of the last one if none answers."""
    lost: dict[str, str] = {}
    last: HostError | None = None
    for host in known.cluster.controllers:
        try:
            answer = answer_value(host, transport.call(host, {"op": "evidence", **request}), "evidence")
        except HostError as error:
            lost[host], last = error.reason, error
            continue
        if not known.cluster.database_hosts:
            answer["missing"] = [[name, "this cluster has no accounting database" if name == "slurmdbd" else why]
                                 for name, why in answer["missing"]]  # fmt: skip
        return Asked(evidence(host, answer, job), (host,), lost)
    assert last is not None
    raise last


def from_log(known: Inventory, transport: Transport, asked: Asked, job: str) -> Asked:
    """The same with a job that has no record any more but is in slurmctld's log; without it if it is not there."""
    try:
        found = find_job(known, transport, job)
    except SlurmfabError:
        return asked
    one = Attempt(
        found.ids[0],
        found.ids[-1],
        state=found.state,
        submitted=found.submitted,
        started=found.start,
        ended=found.end,
        nodes=found.nodes,
        origin=LOG,
    )
    return replace(asked, evidence=replace(asked.evidence, jobs=(one,)))


def with_logs(
    known: Inventory,
    transport: Transport,
    asked: Asked,
    period: Period,
    nodes: Iterable[str],
    *,
    jobs: Sequence[Attempt] = (),
) -> Asked:
    """The same with the lines of logs, about some jobs if any, slurmfab's runs, and the names of UIDs in them."""
    e, cluster = asked.evidence, known.cluster
    members = frozenset(cluster.hosts)
    everywhere = [name for name in dict.fromkeys(nodes) if name in members]
    hosts = tuple(everywhere[:MOST_HOSTS])
    job = logged(jobs, hosts) if jobs else None
    # Nodes are asked from the start of the job on, controllers from its submission.
    asked_for = period._replace(since=job.begin) if job else period
    also = tuple(dict.fromkeys((*hosts, *(event.node for event in e.events))))
    told = gather(known, transport, Answers("", asked_for, hosts, job), every_line=False, also=also)
    uids = {match for line in told.lines for match in _UID.findall(line.text)}
    authors = (*(one.by for one in (*e.jobs, *e.others)), *(step.by for one in e.jobs for step in one.steps))
    uids |= {by for by in authors if by.isdecimal()}
    whole = replace(
        e,
        lines=told.lines,
        files=told.files,
        runs=runs_between(known, period),
        names=names(transport, e.controller, uids),
    )
    everyone = tuple(dict.fromkeys((*asked.hosts, *told.asked)))
    unread = len(everywhere) - len(hosts)
    more = ((e.controller, f"the logs of {unread} more nodes of it were not read."),) if unread else ()
    lost = {**asked.lost, **told.lost}
    return replace(asked, evidence=whole, hosts=everyone, lost=lost, notes=(*told.notes, *more))


def with_lost(transport: Transport, asked: Asked) -> Asked:
    """The same with what is not running of the jobs that slurmctld calls running, as their nodes tell."""
    e = asked.evidence
    hosts = sorted({job.host for job in e.running if job.host})[:MOST_HOSTS]
    found, lost = ask_hosts(transport, hosts, {"op": "job-processes"}, "job_processes")
    looked = {host: lost_jobs.Looked(e.now, {int(step.split(".")[0]) for step in answer["steps"]})
              for host, answer in found.items()}  # fmt: skip
    gone = lost_jobs.lost(e.running, e.now, looked, e.boots, has_extern=False)
    why = {str(one.job.number): one.why for one in gone}
    return replace(asked, evidence=replace(e, lost=why), lost={**asked.lost, **lost})


def with_waits(transport: Transport, asked: Asked, name: str = "") -> Asked:
    """The same with what ended jobs wait for that still hold nodes: those of the question, or those on a node."""
    e = asked.evidence
    own = {one.number for one in e.jobs}
    there: dict[str, list[int]] = {}
    for one in e.over:
        for node in nodes_in(one.node_list):
            if node == name if name else str(one.number) in own:
                there.setdefault(node, []).append(one.number)
    waits, lost = {}, dict(asked.lost)
    for node in [node for node in there if node not in lost][:MOST_HOSTS]:
        found, silent = ask_hosts(transport, [node], {"op": "ended-jobs", "jobs": there[node]}, "ended_jobs")
        lost.update(silent)
        told = found.get(node, {})
        waits.update({(one, node): tuple(told[str(one)]) for one in there[node] if str(one) in told})
    return replace(asked, evidence=replace(e, waits=waits), lost=lost)


def logged(jobs: Sequence[Attempt], hosts: tuple[str, ...]) -> LoggedJob:
    """A job as questions for logs have it: its ids, its first submission and its first start."""
    ids = tuple(dict.fromkeys(one for job in jobs for one in (job.id, job.number)))
    submitted = min((job.submitted for job in jobs if job.submitted), default=0)
    started = min((job.started for job in jobs if job.started), default=submitted)
    return LoggedJob(ids, "", "", hosts, submitted, started, 0, "")


def names(transport: Transport, host: str, uids: Iterable[str]) -> Mapping[str, str]:
    """The login names of UIDs, as a controller knows them; none where it does not answer any more."""
    wanted = sorted(uids)
    if not wanted:
        return {}
    try:
        lines = transport.call(host, {"op": "evidence", "uids": wanted})
        found: dict[str, str] = answer_value(host, lines, "evidence").get("names", {})
    except HostError:
        return {}
    return {uid: name for uid, name in found.items() if name}


def runs_between(known: Inventory, period: Period) -> tuple[Record, ...]:
    """The recorded runs of a period, oldest first; the records of others are not opened."""
    found = []
    for path in atomic_file.kept(record.directory(known.path), known.path):
        try:
            begun = datetime.strptime(path.stem.partition("-")[0], "%Y%m%dT%H%M%S.%fZ").replace(tzinfo=timezone.utc)
        except ValueError:
            continue
        if period.since - LONGEST_RUN <= begun.timestamp() <= period.until:
            with contextlib.suppress(BrokenFile, OSError):
                found.append(record.record_from(record.stored(path, known.path), path.stem))
    return tuple(found)


def ask_hosts(
    transport: Transport, hosts: Iterable[str], request: Mapping[str, Any], value: str
) -> tuple[dict[str, Any], dict[str, str]]:
    """What several hosts answer to one question, by host, and those that do not answer, each with the reason."""
    ask: Callable[[str], Any] = lambda host: answer_value(host, transport.call(host, request), value)  # noqa: E731
    found: dict[str, Any] = {}
    lost: dict[str, str] = {}
    for host, result in on_each(hosts, ask):
        if isinstance(result, SlurmfabError):
            lost[host] = result.reason if isinstance(result, HostError) else str(result)
        else:
            found[host] = result
    return found, lost
