"""What `sstatus` knows: the cluster, a user's limits and a user's jobs; as values and as JSON."""

from __future__ import annotations

import time
from typing import Annotated, Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple, TypedDict

from slurmfab.on_hosts.agent.nodes import lost_jobs
from slurmfab.on_hosts.programs.user_tools import hostnames, jobs, limits, nodes, reasons, use
from slurmfab.on_hosts.programs.user_tools.asking import Answer
from slurmfab.on_hosts.programs.user_tools.use import Limit

JSON_VERSION = 1  # the version of the JSON format; it increases if a key changes its meaning or is removed
DEFAULT_QOS = "normal"  # the QOS of jobs that name none, where an association has no other


class Person(NamedTuple):
    """A user: login name, UID, and whether it is the one who asks."""

    name: str
    uid: str
    is_caller: bool = True


class GpusJson(TypedDict):
    """GPUs of a type."""

    used: int  # how many jobs use
    total: int  # how many there are


class FreeNodesJson(TypedDict):
    """The compute nodes."""

    total: int  # how many there are
    free: int  # how many are in service without jobs
    names: str  # these, as a hostlist


class LimitTextJson(TypedDict):
    """What is told of a limit beside its own values."""

    text: str  # the line for people


class WaitingJson(TypedDict):
    """What is told of a job beside what Slurm says."""

    explanation: str  # why it waits, in plain words; empty for a job that runs


class LostJson(TypedDict):
    """A job that slurmdbd has as pending or running, and slurmctld does not know."""

    id: str  # its number, as sacct shows it
    submitted: int  # in seconds since 1970; it was lost within seconds after that


class SstatusJson(TypedDict):
    """What `sstatus` shows a user."""

    version: int  # of this format: 1
    cluster: str  # the cluster's name
    gpus: Dict[str, GpusJson]  # by type; GPUs without a type are `gpu`
    nodes: FreeNodesJson  # the compute nodes
    user: str  # whose limits and jobs these are
    limits: List[Annotated[Dict[str, Any], Limit, LimitTextJson]]  # of the user
    job_limits: List[str]  # what one job of the user may have at most, as sentences
    jobs: List[Annotated[Dict[str, Any], jobs.Job, WaitingJson]]  # of the user
    lost: List[LostJson]  # jobs of the user that a crash has lost; they have to be submitted again
    notes: List[str]  # what could not be had, such as limits while slurmdbd is down


class State(NamedTuple):
    """All that is shown."""

    cluster: str
    person: Person
    nodes: Tuple[nodes.Node, ...]  # that the user may see
    partitions: Tuple[nodes.Partition, ...]
    limits: Tuple[Limit, ...]  # of the user, with what is used of them
    job_limits: Tuple[str, ...]  # of each of their jobs, as sentences
    jobs: Tuple[jobs.Job, ...]
    notes: Tuple[str, ...]  # what could not be had, in words
    lost: Tuple[lost_jobs.Open, ...] = ()  # jobs of the user that a crash has lost

    @property
    def gpus(self) -> Dict[str, Tuple[int, int]]:
        """By type of GPU: used and all."""
        found: Dict[str, Tuple[int, int]] = {}
        for node in self.nodes:
            for kind in node.gpus:
                used, total = found.get(kind, (0, 0))
                found[kind] = (used + node.gpus_used.get(kind, 0), total + node.gpus[kind])
        return found

    @property
    def free(self) -> List[str]:
        """The names of nodes in service without jobs."""
        return [node.name for node in self.nodes if node.is_free]

    def as_json(self) -> SstatusJson:
        """The state as JSON values."""
        return {
            "version": JSON_VERSION,
            "cluster": self.cluster,
            "gpus": {kind: {"used": used, "total": total} for kind, (used, total) in self.gpus.items()},
            "nodes": {"total": len(self.nodes), "free": len(self.free), "names": hostnames.fold(self.free)},
            "user": self.person.name,
            "limits": [{**one._asdict(), "text": one.text} for one in self.limits],
            "job_limits": list(self.job_limits),
            "jobs": [{**one._asdict(), "explanation": reasons.explained(one.reason, one.id)} for one in self.jobs],
            "lost": [{"id": one.id, "submitted": one.submitted} for one in self.lost],
            "notes": list(self.notes),
        }


def state(
    person: Person,
    answers: Mapping[str, Answer],
    rows: Sequence[Sequence[str]],
    settings: Mapping[str, Any],
    lost: Sequence[lost_jobs.Open] = (),
) -> State:
    """What Slurm's answers say. `answers`: to `nodes`, `partitions`, `use`, `associations` and `qos`."""
    has_accounts = bool(settings.get("accounting"))
    found = nodes.read(answers["nodes"].text)
    there = nodes.read_partitions(answers["partitions"].text)
    mine = jobs.with_lost(jobs.read(rows), rows, lost_jobs.boots_in(one.fields for one in found), time.time())
    notes = []
    if settings.get("needs_account") and not answers["associations"].code and not answers["associations"].text.strip():
        whose = "You are" if person.is_caller else "%s is" % person.name
        notes.append("%s in no account of this cluster, and jobs need one; %s." % (whose, reasons.ASK))
    if answers["nodes"].code and "denied" not in answers["nodes"].trouble:
        notes.append("Slurm tells nothing about nodes (%s)." % answers["nodes"].trouble)
    if has_accounts and any(answers[name].code for name in ("associations", "qos")):
        notes.append(
            "Some limits are unknown: slurmdbd does not answer (%s)." % trouble(answers, "associations", "qos")
        )
    of_user, of_a_job = limits_of(person, answers, there, mine) if has_accounts else ([], [])
    return State(
        cluster=str(settings.get("cluster", "Cluster")),
        person=person,
        nodes=found,
        partitions=there,
        limits=tuple(of_user),
        job_limits=tuple(of_a_job),
        jobs=tuple(mine),
        notes=tuple(notes),
        lost=tuple(lost),
    )


def trouble(answers: Mapping[str, Answer], *names: str) -> str:
    """Why the first of some questions has no answer."""
    return next((answers[name].trouble for name in names if answers[name].code), "")


def limits_of(
    person: Person, answers: Mapping[str, Answer], there: Sequence[nodes.Partition], mine: Sequence[jobs.Job]
) -> Tuple[List[Limit], List[str]]:
    """The limits of a user on partitions, with QOS, and in accounts; and those of each job. Answers as for `state`."""
    records = use.read(answers["use"].text)
    associations = limits.associations(answers["associations"].text)
    accounts = list(dict.fromkeys([one.account for one in associations] or [one.account for one in mine]))
    by_name = {one.name: one.limits for one in limits.qos(answers["qos"].text)}
    who = (person.name, person.uid, accounts)
    found: List[Limit] = []
    of_a_job: List[str] = []
    own = [one.qos for one in mine]
    for one in associations:
        own += [one.default_qos or (DEFAULT_QOS if DEFAULT_QOS in one.qos else ""), *one.qos]
    places = [
        (qos, "on partition%s %s" % ("s" if len(names) > 1 else "", ", ".join(names)))
        for qos, names in qos_of(there, accounts).items()
    ]
    for qos, where in [*places, *((one, "with QOS %s" % one) for one in dict.fromkeys(filter(None, own)))]:
        found += use.of_named_qos(qos, where, by_name.get(qos, {}), records, who)
        of_a_job += use.of_a_job(by_name.get(qos, {}), where)
    found += use.of_associations(records, person.name, accounts)
    for one in associations:
        of_a_job += use.of_a_job(one.limits, "in account %s" % one.account)
    return found, list(dict.fromkeys(of_a_job))


def qos_of(there: Sequence[nodes.Partition], accounts: Sequence[str]) -> Dict[str, List[str]]:
    """The partitions that some of these accounts may use, by their QOS; those without a QOS are left out."""
    found: Dict[str, List[str]] = {}
    for one in there:
        usable = [
            name
            for name in accounts
            if name not in one.deny_accounts and (not one.allow_accounts or name in one.allow_accounts)
        ]
        if one.qos and usable:
            found.setdefault(one.qos, []).append(one.name)
    return found
