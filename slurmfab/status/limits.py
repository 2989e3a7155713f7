"""What one user may use: accounts, qualities of service, and the limits that each of them sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from slurmfab.agent.user_limits import ASSOCIATION_FIELDS, QOS_FIELDS

_UNLIMITED = ("", "-1")


@dataclass(frozen=True)
class Association:
    """A user in an account.

    Args:
        account: its name.
        partition: where alone it counts, empty for everywhere.
        default_qos: what jobs get that name none, empty for Slurm's own choice.
        qos: what jobs may ask for.
        limits: by sacctmgr's names, those that are set here or above.
    """

    account: str
    partition: str
    default_qos: str
    qos: tuple[str, ...]
    limits: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class QosLimits:
    """A quality of service, and the limits that it sets, by sacctmgr's names."""

    name: str
    limits: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class UserLimits:
    """What a user may use; no associations for somebody without an account."""

    associations: tuple[Association, ...] = ()
    qos: tuple[QosLimits, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The same as JSON values."""
        return asdict(self)


def limits_from(answer: Mapping[str, str]) -> UserLimits | None:
    """The limits in an agent's answer; `None` where slurmdbd did not answer.

    Only those QOS are told of that some account of the user has.
    """
    if "associations" not in answer:
        return None
    associations = tuple(association_from(row) for row in rows(answer["associations"], ASSOCIATION_FIELDS))
    usable = {name for one in associations for name in one.qos}
    qos = (QosLimits(row.pop("Name"), set_limits(row)) for row in rows(answer["qos"], QOS_FIELDS))
    return UserLimits(associations, tuple(one for one in qos if one.name in usable))


def rows(text: str, fields: Sequence[str]) -> list[dict[str, str]]:
    """The lines of a table of sacctmgr's by its fields."""
    parts = (line.split("|") for line in text.splitlines())
    return [dict(zip(fields, values, strict=True)) for values in parts if len(values) == len(fields)]


def association_from(row: Mapping[str, str]) -> Association:
    """One line about a user."""
    named = ("Account", "Partition", "DefaultQOS", "QOS")
    account, partition, default, qos = (row[name] for name in named)
    limits = set_limits({name: value for name, value in row.items() if name not in named})
    return Association(account, partition, default, tuple(filter(None, qos.split(","))), limits)


def set_limits(row: Mapping[str, str]) -> dict[str, str]:
    """Those that limit anything."""
    return {name: value for name, value in row.items() if value not in _UNLIMITED}


def table_rows(limits: UserLimits) -> list[tuple[str, ...]]:
    """A line for each account and each QOS: what it is, its name, which QOS, and the limits."""
    accounts = [("account", place_of(one), ",".join(one.qos) or "-", words(one.limits)) for one in limits.associations]
    return [*accounts, *(("qos", one.name, "-", words(one.limits)) for one in limits.qos)]


def place_of(association: Association) -> str:
    """An account, with the partition where it counts there alone."""
    return f"{association.account} in {association.partition}" if association.partition else association.account


def words(limits: Mapping[str, str]) -> str:
    """Such as `MaxJobs=1 MaxWall=02:00:00`."""
    return " ".join(f"{name}={value}" for name, value in limits.items()) or "none"
