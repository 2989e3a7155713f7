"""The limits that slurmdbd has: of a user in each of their accounts, and of QOS."""

from __future__ import annotations

from typing import Iterator, Mapping, NamedTuple, Sequence, Tuple

from slurmfab.on_hosts.programs.user_tools.asking import ASSOCIATION_FIELDS, QOS_FIELDS

UNLIMITED = frozenset({"", "-1"})


class Association(NamedTuple):
    """A user in an account."""

    account: str  # its name
    partition: str  # the only partition that it is for; empty for all
    default_qos: str  # the QOS of jobs that name none; empty for Slurm's default
    qos: Tuple[str, ...]  # the QOS that jobs may have
    # by sacctmgr's names, such as `MaxTRES`: those that are set here or in the accounts above
    limits: Mapping[str, str]


class Qos(NamedTuple):
    """A quality of service."""

    name: str
    flags: Tuple[str, ...]  # such as `DenyOnLimit`, with which jobs beyond a limit are refused and do not wait
    limits: Mapping[str, str]  # by sacctmgr's names, such as `MaxTRESPU`: those that are set


def associations(shown: str, fields: Sequence[str] = ASSOCIATION_FIELDS) -> Tuple[Association, ...]:
    """The rows of `questions.associations`, or of a table with other fields."""
    return tuple(
        Association(
            row.pop("Account"), row.pop("Partition"), row.pop("DefaultQOS"), names(row.pop("QOS")), set_limits(row)
        )
        for row in rows(shown, fields)
    )


def qos(shown: str) -> Tuple[Qos, ...]:
    """The rows of `questions.QOS`."""
    return tuple(Qos(row.pop("Name"), names(row.pop("Flags")), set_limits(row)) for row in rows(shown, QOS_FIELDS))


def rows(shown: str, fields: Sequence[str]) -> Iterator[dict[str, str]]:
    """Yield the rows of a table of sacctmgr; lines with other fields are none."""
    for line in shown.split("\n"):
        values = line.split("|")
        if len(values) == len(fields):
            yield dict(zip(fields, values))  # noqa: B905 - zip(strict=) is Python 3.10's


def names(text: str) -> Tuple[str, ...]:
    """The names in a list."""
    return tuple(filter(None, text.split(",")))


def set_limits(row: Mapping[str, str]) -> Mapping[str, str]:
    """The limits of a row that are set."""
    return {name: value for name, value in row.items() if value not in UNLIMITED}
