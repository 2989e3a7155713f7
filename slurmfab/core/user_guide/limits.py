"""Limits of QOS and accounts: in the words of people, and as numbers that no job can exceed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from slurmfab.cluster.slurm.limits import ASSOCIATION_BY_NAME, QOS_BY_NAME, Limit, normal
from slurmfab.core.user_guide.amounts import counted, duration
from slurmfab.on_hosts.agent.client.amounts import seconds_of, tres_of

_EACH, _TOGETHER, _JOB = "for each user", "for all together", "for each job"
_WHOSE: Mapping[str, str] = {
    "MaxTRESPerJob": _JOB,
    "MaxTRESPerNode": "for each job on each node",
    "MaxTRESPerUser": _EACH,
    "MaxTRESPerAccount": "for each account",
    "GrpTRES": _TOGETHER,
    "MaxWall": _JOB,
    "MaxJobsPerUser": _EACH,
    "MaxJobsPerAccount": "for each account",
    "MaxJobs": _EACH,
    "GrpJobs": _TOGETHER,
    "MaxSubmitJobsPerUser": _EACH,
    "MaxSubmitJobsPerAccount": "for each account",
    "MaxSubmitJobs": _EACH,
    "GrpSubmitJobs": _TOGETHER,
}
"""Limits that users run into, and whose they are; others are named as sacctmgr(1) does."""

_OF_A_JOB = ("MaxTRESPerJob", "MaxTRESPerUser", "MaxTRESPerAccount", "GrpTRES")
"""Limits of resources that a single job cannot exceed either."""

_GIVING_WAY = {"requeue": "stopped and queued again", "cancel": "cancelled", "suspend": "suspended"}
"""What PreemptMode does to jobs."""

_QUIET = ("Fairshare", "Priority", "QOS", "DefaultQOS", "Flags", "GraceTime", "LimitFactor", "PreemptExemptTime")
"""Settings that are no limits, or that another part of the guide tells."""


@dataclass(frozen=True)
class Cap:
    """What no job can exceed."""

    of: str  # `minutes`, `nodes`, `cpus`, `memory` (MiB), `gpus`, or `gpus:TYPE`
    most: int  # how many a job may have
    says: str


def limit_texts(settings: Mapping[str, str], *, is_qos: bool) -> list[str]:
    """The limits of a QOS (`is_qos`), or of an account or user, in the cluster file, each in a few words."""
    return [text for name, value in _normal(settings, is_qos) if (text := _phrase(name, value))]


def caps(settings: Mapping[str, str], whose: str, *, is_qos: bool) -> Iterator[Cap]:
    """Yield what no job can exceed by these settings of a QOS or account, `whose` name is in the words."""
    for name, value in _normal(settings, is_qos):
        if name == "MaxWall":
            minutes = (seconds_of(value) or 0) // 60
            yield Cap("minutes", minutes, f"{whose}: {duration(minutes)} {_JOB}")
        elif name in _OF_A_JOB:
            for tres, amount in tres_of(value).items():
                if of := _countable(tres):
                    yield Cap(of, _whole(amount), f"{whose}: {_amount(tres, amount)} {_WHOSE[name]}")


def _normal(settings: Mapping[str, str], is_qos: bool) -> tuple[tuple[str, str], ...]:
    by_name: Mapping[str, Limit] = QOS_BY_NAME if is_qos else ASSOCIATION_BY_NAME
    return tuple((name, value) for name, value in normal(settings, by_name) if value)


def _phrase(name: str, value: str) -> str:
    """A setting in words; empty for one that is no limit."""
    if name in _QUIET:
        return ""
    if name in _OWN_WORDS:
        return _OWN_WORDS[name](value)
    if name not in _WHOSE:
        return f"{name} {value}"
    if "Jobs" in name:
        jobs = f"{value} jobs, waiting ones included," if "Submit" in name else counted(int(value), "running job")
        return f"{jobs} {_WHOSE[name]}"
    return f"{', '.join(_amount(*one) for one in tres_of(value).items())} {_WHOSE[name]}"


def _wall(value: str) -> str:
    return f"{duration((seconds_of(value) or 0) // 60)} {_JOB}"


def giving_way(modes: str) -> str:
    """What happens to jobs when others take their place, by a PreemptMode; empty if nothing does (slurm.conf(5)).

    >>> giving_way("requeue"), giving_way("OFF")
    ('its jobs may be stopped and queued again', '')
    """
    found = {mode.strip().lower() for mode in modes.split(",")} & _GIVING_WAY.keys()
    return f"its jobs may be {' or '.join(_GIVING_WAY[mode] for mode in sorted(found))}" if found else ""


def _hours(value: str, whose: str) -> str:
    """Minutes of resources as hours."""
    parts = (
        f"{int(amount) // 60:,} {'CPU' if tres == 'cpu' else 'GPU' if tres == 'gres/gpu' else tres} hours"
        for tres, amount in tres_of(value).items()
        if amount.isdecimal()
    )
    return f"{', '.join(parts)} {whose}"


_OWN_WORDS: Mapping[str, Callable[[str], str]] = {
    "UsageFactor": "use counts {} times".format,
    "Preempt": lambda value: f"its jobs may take the place of jobs of {value.replace(',', ', ')}",
    "PreemptMode": giving_way,
    "MaxWall": _wall,
    "GrpTRESMins": lambda value: _hours(value, "for all together"),
    "GrpTRESRunMins": lambda value: _hours(value, "left to run, for all running jobs together"),
    "MaxTRESMinsPerJob": lambda value: _hours(value, _JOB),
}
"""Settings that are neither numbers of jobs nor of resources."""


def _amount(tres: str, amount: str) -> str:
    """An amount of a trackable resource in words (sacctmgr(1), TRES)."""
    kind, _, name = tres.partition("/")
    if tres in ("cpu", "node"):
        return counted(int(amount), {"cpu": "CPU", "node": "node"}[tres])
    if tres == "mem":
        return f"{amount} of memory"
    if kind == "gres" and name.partition(":")[0] == "gpu":
        gpu_type = name.partition(":")[2]
        return f"{counted(int(amount), 'GPU')}{f' of type {gpu_type}' if gpu_type else ''}"
    return f"{name or kind}: {amount}"


def _countable(tres: str) -> str:
    """What a cap calls a trackable resource; empty for one that the form does not ask for."""
    known = {"cpu": "cpus", "node": "nodes", "mem": "memory", "gres/gpu": "gpus"}
    return f"gpus:{tres[9:]}" if tres.startswith("gres/gpu:") else known.get(tres, "")


def _whole(amount: str) -> int:
    """An amount as a number; memory in MiB."""
    powers = {"M": 0, "G": 1, "T": 2, "P": 3}
    return int(amount[:-1]) * 1024 ** powers[amount[-1]] if amount[-1] in powers else int(amount)
