"""How much of the limits of the partitions' QOS a user has used, as in `Using 4/4 GPUs allowed on partition gpu`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from slurmfab.on_hosts.agent.accounting.qos_usage import OF_ACCOUNT, OF_ALL, OF_USER
from slurmfab.on_hosts.programs.user_tools.use import amounts, named, sentence

_TRES = re.compile(r"([^,=]+)=([^,=(]+)\((\d+)\)")
_PLAIN = re.compile(r"([^,=(]+)\((\d+)\)")
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

_SCONTROLS = {"MaxSubmitPU": "MaxSubmitJobsPU"}
"""scontrol's name of a limit, where it differs from sacctmgr's."""


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

    Args:
        partitions: names of partitions by their QOS.
        limits: values by sacctmgr's names of limits, by QOS.
        rows: slurmctld's figures, as `agent.accounting.qos_usage.read` returns them; what is missing is not in use.
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
