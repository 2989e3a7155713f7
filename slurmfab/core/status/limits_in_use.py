"""The limits of all accounts, users and QOS, and how much of each is used, from slurmctld's memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from slurmfab.core.status.snapshot import readable
from slurmfab.hosts.session import answer_value
from slurmfab.hosts.transport import Transport
from slurmfab.on_hosts.agent.slurm.reading import LIMITS
from slurmfab.on_hosts.programs.user_tools.use import named

_ASSOCIATION = re.compile(r"ClusterName=\S* Account=(\S*) UserName=([^\s(]*)\S* Partition=(\S*)")
_QOS = re.compile(r"QOS=([^\s(]+)(?:\(\d+\))?")
_PARENT = re.compile(r"ParentAccount=([^\s(]*)")
_SHARES, _USAGE = "SharesRaw/Norm/Level/Factor", "UsageRaw/Norm/Efctv"
_AMOUNT = re.compile(r"(N|\d{1,18}(?:\.\d{1,18})?)\((\d{1,18}(?:\.\d{1,18})?)\)")

_COUNTED = {
    "GrpJobs": "running jobs",
    "GrpSubmitJobs": "submitted jobs",
    "MaxJobs": "running jobs",
    "MaxSubmitJobs": "submitted jobs",
}
"""What a limit with a bare number counts."""

_OF_USERS = ("MaxJobs", "MaxSubmitJobs")
"""Limits that slurmctld counts for users alone; those of accounts are what their users inherit."""

_TRES = ("GrpTRES", "GrpTRESMins")  # limits with a list of resources
_OF_OTHERS = ("Account Limits", "User Limits")  # from here on, a QOS has the use of single accounts and users
_TEXT = "Comment="  # how a line begins that has a text of an administrator

_MINUTES = 60


@dataclass(frozen=True)
class Limit:
    """A limit that is set, and its use."""

    name: str  # by scontrol's name, such as `GrpTRES`
    resource: str  # what is counted, such as `GPUs`, `CPU hours` or `running jobs`
    used: float  # how much is used
    limit: float  # how much is allowed

    @property
    def part(self) -> float:
        """The part that is used; 1 where nothing is allowed."""
        return self.used / self.limit if self.limit else 1.0


@dataclass(frozen=True)
class LimitedUse:
    """An account, a user in an account, or a QOS."""

    account: str = ""  # name of the account; empty for a QOS
    user: str = ""  # login name; empty for the account itself and for a QOS
    qos: str = ""  # name of the QOS; empty for the others
    partition: str = ""  # the only partition that it is for; empty for all
    parent: str = ""  # the account above an account; empty for root and for the others
    # its part of the cluster by its shares among its siblings, from 0 to 1; `None` where it has none
    shares: float | None = None
    usage: float | None = None  # the part of the use that was its own lately, from 0 to 1; `None` where it has none
    # how much its running jobs have now, such as `{"CPUs": 12, "running jobs": 3}`
    running: Mapping[str, float] = field(default_factory=dict)
    limits: tuple[Limit, ...] = ()  # that are set

    @property
    def fullest(self) -> float:
        """The part of the limit of which most is used; 0 without limits."""
        return max((limit.part for limit in self.limits), default=0.0)


def ask(transport: Transport, controller: str) -> tuple[LimitedUse, ...]:
    """Accounts, users and QOS by slurmctld, in its order; none if it is silent, HostError if the host is."""
    lines = transport.call(controller, {"op": "slurm", "parts": [LIMITS]})
    with readable(controller):
        return parse(answer_value(controller, lines, "slurm").get(LIMITS, ""))


def parse(shown: str) -> tuple[LimitedUse, ...]:
    """What `scontrol show assoc_mgr flags=assoc,qos` printed."""
    return tuple(read_record(lines) for lines in records(shown.split("\n")))


def records(lines: Iterable[str]) -> Iterator[list[str]]:
    """The lines of each association and QOS, without those about single accounts and users of a QOS."""
    found: list[str] = []
    is_own = False
    for line in lines:
        if line.startswith(("ClusterName=", "QOS=")):
            if found:
                yield found
            found, is_own = [line], True
        elif not line.startswith(" ") or line.strip() in _OF_OTHERS:
            is_own = False
        elif is_own:
            found.append(line.strip())
    if found:
        yield found


def read_record(lines: list[str]) -> LimitedUse:
    """One association or QOS from its lines. Raises ValueError if the first line is that of neither."""
    head, *rest = lines
    of_qos, of_account = _QOS.match(head), _ASSOCIATION.match(head)
    values = dict(
        word.split("=", 1) for line in rest for word in line.split() if "=" in word and not line.startswith(_TEXT)
    )
    if of_qos:
        limits, running = read_limits(values, is_user=False)
        return LimitedUse(qos=of_qos[1], running=running, limits=limits)
    if not of_account:
        raise ValueError(f"{head[:80]!a} is neither an association nor a QOS")
    account, user, partition = of_account.groups()
    limits, running = read_limits(values, is_user=bool(user))
    above = next((match[1] for line in rest if (match := _PARENT.search(line))), "")
    return LimitedUse(
        account=account,
        user=user,
        partition=partition,
        parent="" if user else above,
        shares=part_of(values.get(_SHARES, ""), 1),
        usage=part_of(values.get(_USAGE, ""), 2),
        running=running,
        limits=limits,
    )


def part_of(value: str, place: int) -> float | None:
    """The number at a place of a text such as `1/0.50/2/0.00`; `None` if there is none."""
    parts = value.split("/")
    try:
        return float(parts[place])
    except (IndexError, ValueError):
        return None


def read_limits(values: Mapping[str, str], *, is_user: bool) -> tuple[tuple[Limit, ...], dict[str, float]]:
    """Limits that are set, and what running jobs have, by scontrol's `GrpTRES: cpu=100(12),gres/gpu=N(2)`."""
    limits: list[Limit] = []
    running: dict[str, float] = {}
    for name, (resource, limit, used) in amounts(values):
        if name in ("GrpTRES", "GrpJobs") and used:
            running[resource] = used
        if limit is not None and (is_user or name not in _OF_USERS):
            limits.append(Limit(name, resource, used, limit))
    return tuple(limits), running


def amounts(values: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, float | None, float]]]:
    """The limits of a record: scontrol's name, what is counted, the limit (`None` for no limit) and the use."""
    for name, resource in _COUNTED.items():
        if match := _AMOUNT.fullmatch(values.get(name, "")):
            yield name, (resource, None if match[1] == "N" else float(match[1]), float(match[2]))
    for name in _TRES:
        for tres, match in tres_of(values.get(name, "")):
            limit, used = None if match[1] == "N" else float(match[1]), float(match[2])
            if name == "GrpTRESMins":
                yield name, (hours_of(tres), None if limit is None else limit / _MINUTES, used / _MINUTES)
            else:
                yield name, (named(tres), limit, used)


def tres_of(value: str) -> Iterator[tuple[str, re.Match[str]]]:
    """The resources in a text such as `cpu=100(12),gres/gpu=N(2)`, each with its limit and use."""
    for part in value.split(","):
        tres, _, text = part.partition("=")
        if match := _AMOUNT.fullmatch(text):
            yield tres, match


def hours_of(tres: str) -> str:
    """The name of hours of a resource: `CPU hours`, `a100 GPU hours`."""
    return f"{named(tres).removesuffix('s')} hours"
