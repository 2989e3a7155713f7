"""Limits that hold jobs back, by Slurm's reasons: how much they allow, and whose jobs count."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from slurmfab.commands.explain.evidence import Attempt, Evidence
from slurmfab.core.status import limits_in_use
from slurmfab.on_hosts.agent.client.amounts import mebibytes_of, number_of, seconds_of, tres_of
from slurmfab.on_hosts.programs.user_tools import use
from slurmfab.on_hosts.programs.user_tools.job_story import length

_REASON = re.compile(
    r"(?P<of>QOS|Assoc)(?P<kind>Grp|Max)"
    r"(?P<what>CPU|Cpu|GRES|Memory|Mem|Node|Job|License|Billing)s?(?P<minutes>Minutes)?"
    r"(?:Per(?P<per>User|Account))?(?:Limit)?"
)
_TRES = {
    "cpu": "cpu",
    "gres": "gres/",
    "memory": "mem",
    "mem": "mem",
    "node": "node",
    "license": "license/",
    "billing": "billing",
    "job": "",
}
ALL = tuple(
    reason % what
    for reason in ("QOSGrp%sLimit", "QOSMax%sPerUser", "QOSMax%sPerAccount", "AssocGrp%sLimit", "AssocMax%sLimit")
    for what in ("Cpu", "GRES", "Mem", "Node", "Jobs")
)
"""Reasons of limits that hold jobs back until others have ended."""


class Amount(NamedTuple):
    """How much a limit allows."""

    most: int  # in MiB for memory
    resource: str  # by Slurm's name; empty for running jobs
    used: int = 0  # as slurmctld counts it

    @property
    def text(self) -> str:
        """For people, as in `1 CPU`."""
        return counted(self.most, use.named(self.resource) or "running jobs")


@dataclass(frozen=True)
class HeldBy:
    """A limit that is used up."""

    whose: str = ""  # as in `QOS gpu allows ann {}`
    amount: Amount | None = None  # `None` where it is not known
    user: str = ""  # whose jobs count; empty for those of all
    accounts: frozenset[str] = field(default_factory=frozenset)  # whose jobs count; empty for all
    qos: str = ""  # with which QOS; empty for any
    is_of_minutes: bool = False  # whether use over time is limited

    @property
    def text(self) -> str:
        """For people, as in `QOS gpu allows ann 4 GPUs`; empty where the limit is not known."""
        if not self.amount:
            return ""
        minutes = counted(self.amount.most, f"{use.named(self.amount.resource).removesuffix('s')} minutes")
        return self.whose.replace("{}", minutes if self.is_of_minutes else self.amount.text)

    def asked(self, job: Attempt) -> float:
        """How much a job counts for it."""
        if not self.amount:
            return 0
        resource = self.amount.resource
        text = tres_of(job.tres).get(resource, "0")
        amount = float(mebibytes_of(text) or 0) if resource == "mem" else float(number_of(text) or 0)
        amount = 1.0 if not resource else amount or (job.cpus if resource == "cpu" else 0.0)
        return amount * job.limit / 60 if self.is_of_minutes else amount

    def holds_back(self, job: Attempt, others: Iterable[Attempt]) -> bool:
        """Whether a job would go beyond it beside others."""
        if not self.amount:
            return False
        used = self.amount.used if self.is_of_minutes else sum(map(self.asked, others))
        return self.asked(job) + used > self.amount.most


def counted(number: float, noun: str) -> str:
    """A number of things for people.

    >>> counted(1, "CPUs"), counted(4, "CPUs"), counted(1, "MiB of memory")
    ('1 CPU', '4 CPUs', '1 MiB of memory')
    """
    return f"{number:.0f} {noun.removesuffix('s') if number == 1 and not noun.startswith('MiB') else noun}"


def is_limit(word: str) -> bool:
    """Whether a reason names a limit of an association or of a QOS."""
    return word.startswith(("QOS", "Assoc")) and word not in ("QOSNotAllowed",)


def counts(limit: HeldBy, job: Attempt, e: Evidence) -> bool:
    """Whether a job is counted by a limit."""
    if not (limit.user or limit.accounts or limit.qos) or limit.is_of_minutes:
        return False
    is_of_qos = not limit.qos or job.qos == limit.qos or e.qos_of.get(job.partition) == limit.qos
    of_whom = (not limit.user or job.user == limit.user) and (not limit.accounts or job.account in limit.accounts)
    return is_of_qos and of_whom


def limit_of(e: Evidence, job: Attempt, word: str) -> HeldBy:
    """The limit that a reason means for a job, with its amount where slurmctld told it."""
    found = _REASON.fullmatch(word)
    if not found:
        return HeldBy()
    return of_qos(e, job, found) if found["of"] == "QOS" else of_association(e, job, found)


def name_of(found: re.Match[str]) -> str:
    """Slurm's name of a limit, such as `GrpTRES`."""
    return found["kind"] + ("Jobs" if found["what"] == "Job" else "TRESMins" if found["minutes"] else "TRES")


def of_qos(e: Evidence, job: Attempt, found: re.Match[str]) -> HeldBy:
    """A limit of the QOS of a job or of its partition."""
    per = found["per"] or ("" if found["kind"] == "Grp" else "User")
    name = name_of(found) + {"User": "PU", "Account": "PA", "": ""}[per]
    user = job.user if per == "User" else ""
    accounts = frozenset({job.account}) if per == "Account" else frozenset()
    whom = user or (f"account {job.account}" if per == "Account" else "all its jobs together")
    for qos in of_job(e, job):
        amount = in_use(e, job, qos, found, name) or recorded(e.qos.get(qos, {}), name, found["what"])
        if amount:
            return HeldBy(f"QOS {qos} allows {whom} {{}}", amount, user, accounts, qos, bool(found["minutes"]))
    return HeldBy("", None, user, accounts, "" if of_partitions(e, job) else job.qos)


def of_job(e: Evidence, job: Attempt) -> list[str]:
    """The QOS of a job's partitions, and its own."""
    return list(dict.fromkeys(filter(None, (*of_partitions(e, job), job.qos))))


def of_partitions(e: Evidence, job: Attempt) -> list[str]:
    """The QOS of a job's partitions."""
    return [qos for one in job.partition.split(",") if (qos := e.qos_of.get(one))]


def in_use(e: Evidence, job: Attempt, qos: str, found: re.Match[str], name: str) -> Amount | None:
    """A limit of a QOS as slurmctld counts it; `None` for none."""
    per = found["per"] or ("" if found["kind"] == "Grp" else "User")
    for one in use.read(e.limits):
        is_whose = (one.user in (job.user, *uids(e, job.user)) if per == "User" else not one.user) and (
            one.account == job.account if per == "Account" else not one.account
        )
        amount = allowed(one, name, found["what"]) if one.qos == qos and is_whose else None
        if amount:
            return amount
    return None


def uids(e: Evidence, user: str) -> list[str]:
    """The UIDs of a login name, as far as they were asked for."""
    return [uid for uid, name in e.names.items() if name == user]


def of_association(e: Evidence, job: Attempt, found: re.Match[str]) -> HeldBy:
    """A limit of a user in an account, or of an account and all that is below it."""
    records, name, what = use.read(e.limits), name_of(found), found["what"]
    if found["kind"] == "Max":
        mine = next(
            (one for one in records if (one.account, one.user) == (job.account, job.user) and not one.qos), None
        )
        known = next((one.limits for one in e.associations if one.account == job.account), {})
        amount = (allowed(mine, name, what) if mine else None) or recorded(known, name, what)
        whose = f"account {job.account} allows {job.user} {{}}"
        return HeldBy(whose, amount, job.user, frozenset({job.account}))
    above = {one.account: one.parent for one in limits_in_use.parse(e.limits) if one.account and not one.user}
    account, minutes = job.account, bool(found["minutes"])
    for _ in range(len(above) + 1):
        own = [one for one in records if one.account == account and one.user in ("", job.user) and not one.qos]
        for one in own:
            amount = allowed(one, name, what)
            if amount:
                whom = f"{job.user} in" if one.user else "all users of"
                together = "" if one.user else " together"
                whose = f"{{}} are allowed to {whom} account {account}{together}"
                return HeldBy(whose, amount, one.user, below(above, account), "", minutes)
        account = above.get(account, "")
        if not account:
            break
    return HeldBy("", None, "", frozenset({job.account}))


def below(above: dict[str, str], account: str) -> frozenset[str]:
    """An account and all accounts below it."""
    found = {account}
    while more := {one for one, parent in above.items() if parent in found} - found:
        found |= more
    return frozenset(found)


def recorded(limits: Mapping[str, str], name: str, what: str) -> Amount | None:
    """A limit as slurmdbd has it of a QOS or an association, for slurmctld tells no limit that nobody uses."""
    text, wanted = limits.get(name, ""), _TRES[what.lower()]
    for resource, most in [("", text)] if not wanted else tres_of(text).items():
        amount = mebibytes_of(most) if resource == "mem" else number_of(most)
        if resource.startswith(wanted) and amount is not None:
            return Amount(amount, resource)
    return None


def allowed(record: use.Record, name: str, what: str) -> Amount | None:
    """How much a limit allows that is used up at most, as slurmctld counts it; `None` for another limit."""
    wanted = _TRES[what.lower()]
    for resource, (most, used) in record.counted.get(name, {}).items():
        fits = resource.startswith(wanted) if wanted else not resource
        if fits and most is not None and (used <= most or name == "GrpTRESMins"):
            return Amount(most, resource, used)
    return None


def of_time(e: Evidence, job: Attempt, word: str) -> str:
    """The limit of a job's time that a reason means, where the job asks for more; empty where it is not known."""
    limits: Iterator[tuple[str, str]] = iter(())
    if word == "PartitionTimeLimit":
        limits = (
            (f"partition {one}", e.partitions[one].max_time) for one in job.partition.split(",") if one in e.partitions
        )
    elif word == "QOSMaxWallDurationPerJobLimit":
        limits = ((f"QOS {one}", e.qos.get(one, {}).get("MaxWall", "")) for one in of_job(e, job))
    elif word == "AssocMaxWallDurationPerJobLimit":
        own = (one.limits for one in e.associations if one.account == job.account)
        limits = ((f"account {job.account}", one.get("MaxWall", "")) for one in own)
    for whose, most in limits:
        seconds = seconds_of(most)
        if seconds is not None and (not job.limit or job.limit > seconds):
            asked = length(job.limit) if job.limit else "without end"
            return f"{whose} allows jobs of {length(seconds)} at most, and this one asks for {asked}"
    return ""
