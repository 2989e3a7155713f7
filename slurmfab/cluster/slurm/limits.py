"""The keys of `sacctmgr modify qos`, `account` and `user` that set limits, and the kinds of their values.

Source: sacctmgr(1) of Slurm 22.05, 24.11 and 26.05; each name was set, shown and cleared with sacctmgr 22.05.8 and
24.11.5, where it differs from the manual (MinPrioThreshold is only taken as MinPrioThres).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from slurmfab.cluster.slurm.kinds import seconds_in_words, tres
from slurmfab.on_hosts.agent.accounting import limit_values as kinds
from slurmfab.on_hosts.agent.accounting.reading import Key
from slurmfab.on_hosts.agent.client.amounts import clock

NORMAL = "normal"  # the QOS that slurmdbd creates itself and assigns to all users

QOS_LIST = "QOS"
_UNSET = "-1"
_NOTHING = ""


@dataclass(frozen=True)
class Limit:
    """A limit of sacctmgr, with its names and the versions that have it."""

    key: Key  # its name, kind, default, and how it is cleared
    others: tuple[str, ...] = ()  # its other names
    since: tuple[int, int] = (0, 0)  # the first version of Slurm that knows it, as (year, month)


def _limit(names: str, kind: str, default: str = "", clear: str = _UNSET, since: tuple[int, int] = (0, 0)) -> Limit:
    first, *others = names.split()
    return Limit(Key(first, kind, default, clear), tuple(others), since)


_GROUP = (
    _limit("GrpJobs", kinds.NUMBER),
    _limit("GrpJobsAccrue", kinds.NUMBER),
    _limit("GrpSubmitJobs GrpSubmit", kinds.NUMBER),
    _limit("GrpTRES", kinds.TRES),
    _limit("GrpTRESMins", kinds.TRES),
    _limit("GrpTRESRunMins", kinds.TRES),
    _limit("GrpWall", kinds.MINUTES),
)
_JOB = (
    _limit("MaxTRESPerJob MaxTRES MaxTRESPJ", kinds.TRES),
    _limit("MaxTRESPerNode MaxTRESPN", kinds.TRES),
    _limit("MaxTRESMinsPerJob MaxTRESMins MaxTRESMinsPJ", kinds.TRES),
    _limit("MaxWall MaxWallDurationPerJob", kinds.MINUTES),
)
QOS = (
    _limit("Priority", kinds.NUMBER, "0", "0"),
    _limit("Preempt", kinds.NAMES, clear=_NOTHING),
    _limit("PreemptMode", kinds.MODE, clear="cluster"),
    _limit("PreemptExemptTime", kinds.SECONDS),
    _limit("GraceTime", kinds.GRACE, "0", "0"),
    _limit("Flags", kinds.FLAGS),
    _limit("UsageFactor", kinds.FLOAT, "1", "1"),
    _limit("UsageThreshold", kinds.FLOAT),
    _limit("LimitFactor", kinds.FLOAT),
    _limit("MinPrioThres MinPrioThreshold", kinds.NUMBER),
    _limit("MinTRESPerJob MinTRES", kinds.TRES),
    *_GROUP,
    *_JOB,
    _limit("MaxTRESPerUser MaxTRESPU", kinds.TRES),
    _limit("MaxTRESPerAccount MaxTRESPA", kinds.TRES),
    _limit("MaxTRESRunMinsPerUser MaxTRESRunMinsPU", kinds.TRES, since=(23, 2)),
    _limit("MaxTRESRunMinsPerAccount MaxTRESRunMinsPA", kinds.TRES, since=(23, 2)),
    _limit("MaxJobsPerUser MaxJobsPU MaxJobs", kinds.NUMBER),
    _limit("MaxJobsPerAccount MaxJobsPA", kinds.NUMBER),
    _limit("MaxJobsAccruePerUser MaxJobsAccruePU", kinds.NUMBER),
    _limit("MaxJobsAccruePerAccount MaxJobsAccruePA", kinds.NUMBER),
    _limit("MaxSubmitJobsPerUser MaxSubmitJobsPU MaxSubmitPU MaxSubmitJobs", kinds.NUMBER),
    _limit("MaxSubmitJobsPerAccount MaxSubmitJobsPA MaxSubmitPA", kinds.NUMBER),
)
"""Limits of a quality of service, in the order in which they are set and shown."""

ASSOCIATION = (
    _limit("Fairshare Share", kinds.SHARE, "1", "1"),
    _limit("Priority", kinds.NUMBER),
    *_GROUP,
    *_JOB,
    _limit("MaxJobs", kinds.NUMBER),
    _limit("MaxJobsAccrue", kinds.NUMBER),
    _limit("MaxSubmitJobs MaxSubmit", kinds.NUMBER),
    _limit("QOS QosLevel", kinds.NAMES, clear=_NOTHING),
    _limit("DefaultQOS", kinds.WORD),
)
"""Limits of an account, and of a user in an account."""

LEVEL = "AdminLevel"
USER = (_limit(LEVEL, kinds.LEVEL, "None", "None"),)  # limits of a user in all accounts

QOS_FLAGS = (
    "DenyOnLimit", "EnforceUsageThreshold", "NoDecay", "NoReserve", "OverPartQOS", "PartitionMaxNodes",
    "PartitionMinNodes", "PartitionTimeLimit", "Relative", "RequiresReservation", "UsageFactorSafe",
)  # fmt: skip
PREEMPT_MODES = ("off", "cluster", "cancel", "gang", "requeue", "suspend", "within", "priority")


def by_name(limits: Iterable[Limit]) -> Mapping[str, Limit]:
    """Limits by all their names in lower case, as sacctmgr ignores case."""
    return {name.lower(): limit for limit in limits for name in (limit.key.name, *limit.others)}


QOS_BY_NAME = by_name(QOS)
ASSOCIATION_BY_NAME = by_name(ASSOCIATION)
USER_BY_NAME = by_name((*ASSOCIATION, *USER))


def keys(limits: Iterable[Limit], version: tuple[int, int]) -> tuple[Key, ...]:
    """The keys that a version of Slurm, as (year, month), has of limits of a QOS or of an association."""
    return tuple(limit.key for limit in limits if limit.since <= version)


def normal(settings: Mapping[str, str], by_name: Mapping[str, Limit]) -> tuple[tuple[str, str], ...]:
    """Checked settings in sacctmgr's own names (`by_name` in lower case) and normal values, to compare them."""
    return tuple(
        (limit.key.name, normal_value(limit, value))
        for name, value in settings.items()
        if (limit := by_name.get(name.lower()))
    )


def normal_value(limit: Limit, value: str) -> str:
    """Normalize one value; flags get sacctmgr's spelling. Raises ValueError if the value is invalid for this limit."""
    kind, name = limit.key.kind, limit.key.name
    if kind == kinds.TRES and value.strip() not in ("", "-1") and (reason := tres(name, value, is_limit=True)):
        raise ValueError(reason)
    try:
        text = kinds.normal(kind, value) or limit.key.default
    except ValueError as error:
        seconds = seconds_in_words(value) if kind in (kinds.MINUTES, kinds.SECONDS, kinds.GRACE) else None
        advice = "" if seconds is None else str(seconds) if kind == kinds.GRACE else clock(seconds)
        if value.strip().lower() in ("unlimited", "infinite", "none", "no", "no limit"):
            advice = "-1, or leave the key out"
        raise ValueError(f"{error}; write {name}: {advice}" if advice else str(error)) from None
    if kind == kinds.FLAGS:
        return ",".join(sorted(_known(flag, QOS_FLAGS, "flag of a QOS") for flag in text.split(",") if flag))
    if kind == kinds.MODE:
        return ",".join(_known(mode, PREEMPT_MODES, "PreemptMode") for mode in text.split(",") if mode)
    return text


def _known(word: str, known: Iterable[str], what: str) -> str:
    """A word as sacctmgr spells it; ValueError, with the most similar one, if it does not know it."""
    spelled = {name.lower(): name for name in known}
    if word.lower() not in spelled:
        near = difflib.get_close_matches(word.lower(), spelled, n=1)
        advice = f"did you mean {spelled[near[0]]}? " if near else ""
        raise ValueError(f'"{word}" is not a {what} ({advice}known: {", ".join(spelled.values())})')
    return spelled[word.lower()]
