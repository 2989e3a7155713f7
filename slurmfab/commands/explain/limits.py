"""Limits that hold jobs back, by Slurm's reasons: how much they allow, and whose jobs count."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from slurmfab.commands.explain.evidence import Attempt, Evidence
from slurmfab.core.status import limits_in_use
from slurmfab.on_hosts.programs.user_tools import use

_REASON = re.compile(
    r"(?P<of>QOS|Assoc)(?P<kind>Grp|Max)"
    r"(?P<what>CPU|Cpu|GRES|Memory|Mem|Node|Job|License|Billing)s?"
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
}


@dataclass(frozen=True)
class HeldBy:
    """A limit that is used up."""

    text: str = ""  # as in `QOS gpu allows ann 4 GPUs`; empty where the limit is not known
    user: str = ""  # whose jobs count; empty for those of all
    accounts: frozenset[str] = field(default_factory=frozenset)  # whose jobs count; empty for all
    qos: str = ""  # with which QOS; empty for any


def is_limit(word: str) -> bool:
    """Whether a reason names a limit of an association or of a QOS."""
    return word.startswith(("QOS", "Assoc")) and word not in ("QOSNotAllowed",)


def counts(limit: HeldBy, job: Attempt, e: Evidence) -> bool:
    """Whether a job is counted by a limit."""
    if not (limit.user or limit.accounts or limit.qos):
        return False
    is_of_qos = not limit.qos or job.qos == limit.qos or e.qos_of.get(job.partition) == limit.qos
    of_whom = (not limit.user or job.user == limit.user) and (not limit.accounts or job.account in limit.accounts)
    return is_of_qos and of_whom


def limit_of(e: Evidence, job: Attempt, word: str) -> HeldBy:
    """The limit that a reason means for a job, with its amount where slurmctld told it."""
    found = _REASON.fullmatch(word)
    if not found:
        return HeldBy()
    what = found["what"].lower()
    return of_qos(e, job, found, what) if found["of"] == "QOS" else of_association(e, job, found, what)


def of_qos(e: Evidence, job: Attempt, found: re.Match[str], what: str) -> HeldBy:
    """A limit of the QOS of a job or of its partition."""
    per = found["per"] or ("" if found["kind"] == "Grp" else "User")
    suffix = {"User": "PU", "Account": "PA", "": ""}[per]
    name = (f"{found['kind']}Jobs" if what == "job" else f"{found['kind']}TRES") + suffix
    user = job.user if per == "User" else ""
    accounts = frozenset({job.account}) if per == "Account" else frozenset()
    mine = [e.qos_of.get(one, "") for one in job.partition.split(",")]
    for qos in dict.fromkeys(filter(None, (*mine, job.qos))):
        for one in use.read(e.limits):
            is_whose = (one.user in (job.user, *uids(e, job.user)) if per == "User" else not one.user) and (
                one.account == job.account if per == "Account" else not one.account
            )
            amount = allowed(one, name, what) if one.qos == qos and is_whose else ""
            if amount:
                break
        else:
            amount = recorded(e.qos.get(qos, {}), name, what)
        if amount:
            whom = user or (f"account {job.account}" if per == "Account" else "all its jobs together")
            return HeldBy(f"QOS {qos} allows {whom} {amount}", user, accounts, qos)
    return HeldBy("", user, accounts, "" if any(mine) else job.qos)


def uids(e: Evidence, user: str) -> list[str]:
    """The UIDs of a login name, as far as they were asked for."""
    return [uid for uid, name in e.names.items() if name == user]


def of_association(e: Evidence, job: Attempt, found: re.Match[str], what: str) -> HeldBy:
    """A limit of a user in an account, or of an account and all that is below it."""
    all_of = limits_in_use.parse(e.limits) if e.limits else ()
    above = {one.account: one.parent for one in all_of if one.account and not one.user}
    records = use.read(e.limits)
    name = f"{found['kind']}Jobs" if what == "job" else f"{found['kind']}TRES"
    if found["kind"] == "Max":
        mine = next(
            (one for one in records if (one.account, one.user) == (job.account, job.user) and not one.qos), None
        )
        known = next((one.limits for one in e.associations if one.account == job.account), {})
        amount = (allowed(mine, name, what) if mine else "") or recorded(known, name, what)
        text = f"account {job.account} allows {job.user} {amount}" if amount else ""
        return HeldBy(text, job.user, frozenset({job.account}))
    account = job.account
    for _ in range(len(above) + 1):
        for one in records:
            amount = (
                allowed(one, name, what)
                if one.account == account and one.user in ("", job.user) and not one.qos
                else ""
            )
            if amount:
                whom = (
                    f"all users of account {account} together" if not one.user else f"{job.user} in account {account}"
                )
                return HeldBy(f"{amount} are allowed to {whom}", one.user, below(above, account))
        account = above.get(account, "")
        if not account:
            break
    return HeldBy("", "", frozenset({job.account}))


def below(above: dict[str, str], account: str) -> frozenset[str]:
    """An account and all accounts below it."""
    found = {account}
    while more := {one for one, parent in above.items() if parent in found} - found:
        found |= more
    return frozenset(found)


def recorded(limits: Mapping[str, str], name: str, what: str) -> str:
    """The same from what slurmdbd has of a QOS or an association, for slurmctld tells no limit that nobody uses."""
    for resource, most in use.amounts(limits.get(name, ""), "running jobs" if what == "job" else "").items():
        if what == "job" or use.named(_TRES[what]).rstrip("/") in resource or (what == "gres" and "GPU" in resource):
            return amount_text(most, resource)
    return ""


def amount_text(most: int, noun: str) -> str:
    """An amount, as in `1 CPU`."""
    return f"{most} {noun.removesuffix('s') if most == 1 and not noun.startswith('MiB') else noun}"


def allowed(record: use.Record, name: str, what: str) -> str:
    """How much a limit allows that is used up, for people: `4 GPUs`, `1 running job`; empty for another limit."""
    for resource, (most, used) in record.counted.get(name, {}).items():
        fits = (what == "job" and not resource) or (what != "job" and resource.startswith(_TRES[what]))
        if fits and most is not None and used <= most:
            return amount_text(most, "running jobs" if what == "job" else use.named(resource))
    return ""
