"""How much of the limits of a user's accounts and QOS is used, as slurmctld counts it."""

from __future__ import annotations

import re
from typing import Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from slurmfab.on_hosts.agent.client.amounts import NONE, UNITS

USER, ACCOUNT, ALL = "user", "account", "all"
"""Whose use is limited: of the user, of the user's account, or of all users."""

QUEUED = "jobs in the queue"
WHOSE: Dict[str, Tuple[str, str]] = {
    "MaxTRESPU": (USER, ""),
    "MaxJobsPU": (USER, "jobs"),
    "MaxSubmitJobsPU": (USER, QUEUED),
    "MaxTRESPA": (ACCOUNT, ""),
    "MaxJobsPA": (ACCOUNT, "jobs"),
    "MaxSubmitJobsPA": (ACCOUNT, QUEUED),
    "GrpTRES": (ALL, ""),
    "GrpJobs": (ALL, "jobs"),
    "GrpSubmitJobs": (ALL, QUEUED),
}
"""The limits of QOS that hold jobs back until others have ended: whose use counts, and of what if that has no name."""

OF_ASSOCIATIONS: Dict[str, str] = {
    "GrpTRES": "%s",
    "GrpTRESRunMins": "minutes of %s by running jobs",
    "GrpTRESMins": "minutes of %s",
    "GrpWall": "minutes of run time",
    "GrpJobs": "jobs",
    "MaxJobs": "jobs",
    "GrpSubmitJobs": QUEUED,
    "MaxSubmitJobs": QUEUED,
}
"""Those of accounts, and of users in them, by scontrol's names: what is counted, for people."""

OF_A_JOB: Dict[str, Tuple[str, str]] = {
    "MaxTRES": ("%d %s", ""),
    "MaxTRESPerNode": ("%d %s", " on each node"),
    "MaxTRESMins": ("%d minutes of %s", ""),
}
"""The limits of one job, by sacctmgr's names: how an amount of a resource is told; MaxWall is a time."""

_ASSOCIATION = r"ClusterName=\S* Account=(\S*) UserName=([^\s(]*)\S* Partition=(\S*)"
_QOS = r"QOS=([^\s(]+)(?:\(\d+\))?"
_WHO = r"([^\s(]*)(?:\((\d+)\))?"
_AMOUNT = r"(N|\d{1,18}(?:\.\d{1,18})?)\((\d{1,18})(?:\.\d+)?\)"
_SECTIONS = {"Account Limits": ACCOUNT, "User Limits": USER}
_RESOURCES = {"cpu": "CPUs", "node": "nodes", "mem": "MiB of memory", "gres/gpu": "GPUs"}

Counted = Mapping[str, Mapping[str, Tuple[Optional[int], int]]]
"""By scontrol's name of a limit, for each resource: the limit, or `None`, and how much is used."""


class Record(NamedTuple):
    """What slurmctld counts for an association, or for a QOS."""

    account: str  # name of the account; for a QOS, of the account whose use it is
    user: str  # login name, or UID if Slurm tells that alone; empty for all users of the account or QOS
    partition: str  # of an association that is for one partition alone
    qos: str  # name of the QOS; empty for an association
    counted: Counted


class Limit(NamedTuple):
    """A limit, and how much of it is used."""

    whose: str  # whose use counts: `user`, `account` or `all`
    account: str  # the account, where it is about one
    where: str  # as in `on partition gpu`, `with QOS normal`, `in account physics`
    resource: str  # what is counted, such as `GPUs` or `jobs`
    used: int  # how much is used, in MiB for memory
    limit: int  # how much is allowed

    @property
    def text(self) -> str:
        """The line for people, as in `Using 4/4 GPUs allowed on partition gpu`."""
        return sentence(self.whose, self.account, (self.used, self.limit), self.resource, self.where)

    @property
    def is_used_up(self) -> bool:
        """Whether nothing is left."""
        return self.used >= self.limit


def sentence(whose: str, account: str, numbers: Tuple[int, int], resource: str, where: str) -> str:
    """The line for people about a limit.

    >>> sentence("user", "", (4, 4), "GPUs", "on partition gpu")
    'Using 4/4 GPUs allowed on partition gpu'

    Args:
        whose: `USER`, `ACCOUNT` or `ALL`.
        resource: what is counted.
        where: where the limit holds.
    """
    start = {ALL: "All users together: using", ACCOUNT: "Account %s: using" % account}.get(whose, "Using")
    return "%s %d/%d %s allowed %s" % (start, *numbers, resource, where)


def named(resource: str) -> str:
    """A resource's name for people, from Slurm's.

    >>> named("gres/gpu:a100"), named("cpu")
    ('a100 GPUs', 'CPUs')
    """
    if resource.startswith("gres/gpu:"):
        return "%s GPUs" % resource[len("gres/gpu:") :]
    return _RESOURCES.get(resource, resource)


def amounts(value: str, counted: str) -> Dict[str, int]:
    """The amounts in a limit as sacctmgr prints it, by resource's name for people.

    >>> amounts("cpu=8,mem=10G,gres/gpu:a100=4", "")
    {'CPUs': 8, 'MiB of memory': 10240, 'a100 GPUs': 4}

    Args:
        value: such as `gres/gpu=4`, or `2` for a number of jobs.
        counted: what a bare number counts; empty for a list of resources.
    """
    pairs = [(counted, value)] if counted else [part.split("=", 1) for part in value.split(",") if "=" in part]
    found = {}
    for name, text in pairs:
        match = re.fullmatch(r"(\d{1,18}(?:\.\d{1,18})?)([KMGTP]?)", text)
        if match:
            found[named(name)] = int(float(match[1]) * UNITS[match[2] or "M"])
    return found


def of_a_job(limits: Mapping[str, str], where: str) -> Iterator[str]:
    """Yield what one job may have at most, for people, as in `A job may have at most 8 CPUs in account physics`."""
    for name, (each, behind) in OF_A_JOB.items():
        listed = ", ".join(each % (amount, what) for what, amount in amounts(limits.get(name, ""), "").items())
        if listed:
            yield "A job may have at most %s%s %s" % (listed, behind, where)
    if limits.get("MaxWall"):
        yield "A job may run for at most %s %s" % (limits["MaxWall"], where)


def read(shown: str) -> Tuple[Record, ...]:
    """What `scontrol show assoc_mgr flags=assoc,qos` printed; texts of administrators in it are left out."""
    found: List[Record] = []
    for lines in paragraphs(shown.split("\n")):
        head = re.match(_ASSOCIATION, lines[0])
        if head:
            found.append(Record(head[1], head[2], head[3], "", counted_in(lines[1:])))
        else:
            found.extend(of_qos(lines))
    return tuple(found)


def paragraphs(lines: Iterable[str]) -> Iterator[List[str]]:
    """Yield the lines of each association and each QOS."""
    found: List[str] = []
    for line in lines:
        if re.match(_ASSOCIATION, line) or re.fullmatch(_QOS, line):
            if found:
                yield found
            found = [line]
        elif found and line.startswith(" ") and not line.strip().startswith("Comment="):
            found.append(line.strip())
    if found:
        yield found


def of_qos(lines: Sequence[str]) -> Iterator[Record]:
    """Yield what a QOS counts: for all, accounts and users (Slurm 22.05 prints `4001`, later ones `ann(4001)`)."""
    head = re.fullmatch(_QOS, lines[0])
    qos = head[1] if head else ""
    whose, who = ALL, ""
    part: List[str] = []
    for line in [*lines[1:], "Account Limits"]:
        if line in _SECTIONS or (whose != ALL and "=" not in line):
            if part:
                yield Record(who if whose == ACCOUNT else "", who if whose == USER else "", "", qos, counted_in(part))
            whose, part = _SECTIONS.get(line, whose), []
            match = re.fullmatch(_WHO, line)
            who = match[1] if match else ""
        else:
            part.append(line)


def counted_in(lines: Iterable[str]) -> Counted:
    """Limits and use in lines such as `GrpTRES=cpu=100(12),gres/gpu=N(2)` and `GrpJobs=N(2) GrpSubmitJobs=N(4)`."""
    found: Dict[str, Dict[str, Tuple[Optional[int], int]]] = {}
    for line in lines:
        for word in line.split():
            name, _, value = word.partition("=")
            for part in value.split(","):
                resource, _, amount = part.rpartition("=")
                match = re.fullmatch(_AMOUNT, amount)
                if match:
                    limit = None if match[1] == "N" else int(float(match[1]))
                    found.setdefault(name, {})[resource] = (limit, int(match[2]))
    return found


def of_associations(records: Iterable[Record], user: str, accounts: Iterable[str]) -> Iterator[Limit]:
    """Yield the limits of a user in their accounts, and of these accounts."""
    known = frozenset(accounts)
    for record in records:
        if record.qos or record.account not in known or record.user not in ("", user):
            continue
        where = "in account %s" % record.account if record.user else "in all"
        whose = USER if record.user else ACCOUNT
        for name, counted in OF_ASSOCIATIONS.items():
            if name.startswith("Max") and not record.user:
                continue  # of each user of the account, whose own record has it, too
            for resource, (limit, used) in record.counted.get(name, {}).items():
                if limit is not None:
                    what = counted % named(resource) if "%s" in counted else counted
                    yield Limit(whose, record.account, where, what, used, limit)


def of_named_qos(
    qos: str, where: str, limits: Mapping[str, str], records: Sequence[Record], who: Tuple[str, str, Sequence[str]]
) -> Iterator[Limit]:
    """Yield limits of a QOS `where` it holds; slurmctld's if slurmdbd, and thus `limits`, has none."""
    user, uid, accounts = who
    for name, (whose, counted) in WHOSE.items():
        for account in dict.fromkeys(accounts) if whose == ACCOUNT else ("",):
            there = (one for one in records if one.qos == qos and one.account == account)
            mine = next((one for one in there if one.user in ((user, uid) if whose == USER else ("",))), None)
            count = mine.counted.get(name, {}) if mine else {}
            used = {counted or named(one): amount for one, (_, amount) in count.items()}
            wanted = {counted or named(one): limit for one, (limit, _) in count.items() if limit is not None}
            wanted.update(amounts(limits.get(name, ""), counted))
            for resource, limit in wanted.items():
                if str(limit) not in NONE:
                    yield Limit(whose, account, where, resource, used.get(resource, 0), limit)
