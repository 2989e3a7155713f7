"""The limits of one user: their accounts and QOS, with the limits of each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slurmfab.on_hosts.agent.accounting.user_limits import ASSOCIATION_FIELDS, OF_ACCOUNT, OF_ALL, OF_USER, QOS_FIELDS
from slurmfab.on_hosts.programs.user_tools.limits import Association, rows, set_limits
from slurmfab.on_hosts.programs.user_tools.limits import associations as read_associations
from slurmfab.on_hosts.programs.user_tools.use import amounts, named, sentence

_TRES = re.compile(r"([^,=]+)=([^,=(]+)\((\d{1,18})\)")
_PLAIN = re.compile(r"([^,=(]+)\((\d{1,18})\)")
_WHOSE = {
    "MaxTRESPU": (OF_USER, ""),
    "MaxJobsPU": (OF_USER, "jobs"),
    "MaxSubmitPU": (OF_USER, "submitted jobs"),
    "MaxTRESPA": (OF_ACCOUNT, ""),
    "MaxJobsPA": (OF_ACCOUNT, "jobs"),
    "GrpTRES": (OF_ALL, ""),
    "GrpJobs": (OF_ALL, "jobs"),
}
"""By sacctmgr's name of a limit: whose use it limits, and of what; empty for what its value names."""

_SCONTROLS = {"MaxSubmitPU": "MaxSubmitJobsPU"}  # scontrol's name of a limit, where it differs from sacctmgr's


@dataclass(frozen=True)
class UsedLimit:
    """A limit of a partition's QOS, and how much of it is used."""

    partitions: tuple[str, ...]  # with this QOS, which count together
    qos: str  # its name
    scope: str  # whose use is limited: `user`, `account` or `all`
    account: str  # the account; empty for the other scopes
    resource: str  # what is counted, such as `GPUs`, `a100 GPUs` or `jobs`
    used: int  # how much is used, in MiB for memory
    limit: int  # how much is allowed

    @property
    def is_used_up(self) -> bool:
        """Whether nothing is left."""
        return self.used >= self.limit

    @property
    def text(self) -> str:
        """The line for people, as in `Using 4/4 GPUs allowed on partition gpu`."""
        where = f"partition{'s' if len(self.partitions) > 1 else ''} {', '.join(self.partitions)}"
        return sentence(self.scope, self.account, (self.used, self.limit), self.resource, f"on {where}")


def used_limits(
    partitions: Mapping[str, tuple[str, ...]],
    limits: Mapping[str, Mapping[str, str]],
    rows: Iterable[Sequence[str]],
    accounts: Iterable[str],
) -> tuple[UsedLimit, ...]:
    """The limits of partitions' QOS; those of the user first, then of their accounts, then of all.

    `partitions`: names of partitions by their QOS. `limits`: values by sacctmgr's names of limits, by QOS. `rows`:
    slurmctld's figures, as `agent.accounting.qos_usage.read` returns them; what is missing is not in use.
    """
    figures = {(qos, scope, account, key): value for qos, scope, account, key, value in rows}
    found = []
    for key, (scope, counted) in _WHOSE.items():
        for qos, names in partitions.items():
            for account in dict.fromkeys(accounts) if scope == OF_ACCOUNT else ("",):
                used = figures_of(figures.get((qos, scope, account, _SCONTROLS.get(key, key)), ""), counted)
                for resource, limit in amounts(limits.get(qos, {}).get(key, ""), counted).items():
                    found.append(UsedLimit(names, qos, scope, account, resource, used.get(resource, 0), limit))
    return tuple(found)


def figures_of(value: str, counted: str) -> dict[str, int]:
    """How much is used, by resource, in scontrol's `gres/gpu=4(2)`, or `2(1)` for a number of jobs."""
    if counted:
        match = _PLAIN.fullmatch(value)
        return {counted: int(match[2])} if match else {}
    return {named(name): int(used) for name, _, used in _TRES.findall(value)}


@dataclass(frozen=True)
class QosLimits:
    """A quality of service."""

    name: str  # its name
    limits: Mapping[str, str] = field(default_factory=dict)  # its limits by sacctmgr's names


@dataclass(frozen=True)
class UserLimits:
    """The associations and QOS of a user; empty for a user without an account."""

    associations: tuple[Association, ...] = ()  # the user's
    # the QOS that the user may request, and those of the partitions that the user may use
    qos: tuple[QosLimits, ...] = ()
    used: tuple[UsedLimit, ...] = ()  # how much of the limits of these partitions' QOS is used


def limits_from(answer: Mapping[str, Any], partitions: Iterable[Mapping[str, str]] = ()) -> UserLimits | None:
    """The limits in an agent's answer, `None` if slurmdbd did not give it; partitions have scontrol's field names."""
    if "associations" not in answer:
        return None
    associations = read_associations(answer["associations"], ASSOCIATION_FIELDS)
    accounts = [one.account for one in associations]
    by_qos = qos_of(partitions, accounts) if associations else {}
    usable = {name for one in associations for name in one.qos} | by_qos.keys()
    qos = tuple(QosLimits(row.pop("Name"), set_limits(row)) for row in rows(answer["qos"], QOS_FIELDS))
    used = used_limits(by_qos, {one.name: one.limits for one in qos}, answer.get("usage", ()), accounts)
    return UserLimits(associations, tuple(one for one in qos if one.name in usable), used)


def qos_of(partitions: Iterable[Mapping[str, str]], accounts: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The partitions that some of these accounts may use, by their QOS; those without a QOS are left out."""
    found: dict[str, tuple[str, ...]] = {}
    for one in partitions:
        qos = one.get("QoS", "N/A")
        allowed, denied = (set(one.get(key, "").split(",")) for key in ("AllowAccounts", "DenyAccounts"))
        usable = [name for name in accounts if name not in denied and ({"ALL", "", name} & allowed)]
        if qos != "N/A" and usable:
            found[qos] = (*found.get(qos, ()), one["PartitionName"])
    return found


def table_rows(limits: UserLimits) -> list[tuple[str, ...]]:
    """One row for each account and each QOS: kind, name, QOS, limits."""
    accounts = [
        ("account", place_of(one), ",".join(one.qos) or "-", format_limits(one.limits)) for one in limits.associations
    ]
    return [*accounts, *(("qos", one.name, "-", format_limits(one.limits)) for one in limits.qos)]


def place_of(association: Association) -> str:
    """The account of an association, with its partition if it has one."""
    return f"{association.account} in {association.partition}" if association.partition else association.account


def format_limits(limits: Mapping[str, str]) -> str:
    """Limits as text: `MaxJobs=1 MaxWall=02:00:00`, or `none`."""
    return " ".join(f"{name}={value}" for name, value in limits.items()) or "none"
