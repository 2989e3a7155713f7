"""Values of slurm.conf that slurmctld judges together: what it logs as an error and ignores, or lets fail later.

The rules are those of `src/common/read_config.c` and `src/slurmctld/read_config.c` of each series. Values with which no
daemon starts are not here: the installed Slurm refuses them before files are replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from slurmfab.cluster.slurm.conf_text import ConfText, Settings
from slurmfab.cluster.slurm.preemption import modes
from slurmfab.cluster.slurm.versions import SlurmVersion

MESSAGE_TIMEOUT, LONGEST_MESSAGE_TIMEOUT = 30, 100  # slurmfab's own value in seconds, and what slurmctld takes silently
UNKILLABLE_STEP_TIMEOUT = 180
UNKILLABLE_FACTOR = 5
"""From 24.05 on UnkillableStepTimeout has to be so many times MessageTimeout, or nodes may go down (KillTaskFailed)."""

_WEIGHTS = tuple(f"priorityweight{one}" for one in ("age", "assoc", "fairshare", "jobsize", "partition", "qos"))
_MOST_PRIORITY = 2**32 - 1


def timeouts(own: Mapping[str, str | None]) -> tuple[int, int]:
    """slurmfab's MessageTimeout and UnkillableStepTimeout, each so that it fits the site's value of the other.

    >>> timeouts({}), timeouts({"MessageTimeout": "100"}), timeouts({"UnkillableStepTimeout": "60"})
    ((30, 180), (30, 500), (12, 180))
    """
    given = {key.lower(): _number(value or "") for key, value in own.items()}
    unkillable = given.get("unkillablesteptimeout")
    message = MESSAGE_TIMEOUT if unkillable is None else max(1, min(MESSAGE_TIMEOUT, unkillable // UNKILLABLE_FACTOR))
    return message, max(UNKILLABLE_STEP_TIMEOUT, (given.get("messagetimeout") or 0) * UNKILLABLE_FACTOR)


@dataclass(frozen=True)
class _Rule:
    """A rule that a file, or a partition's line, may break from the series `since` on."""

    key: str  # what to change
    is_broken: Callable[[Settings], bool]
    reason: str
    others: tuple[str, ...] = ()  # keys whose values are told, too
    since: tuple[int, int] = (0, 0)


def _both(*keys: str) -> Callable[[Settings], bool]:
    return lambda found: all(key in found for key in keys)


def _below(key: str, least: int) -> Callable[[Settings], bool]:
    return lambda found: (_number(found.get(key, "")) or least) < least


def _above(key: str, most: int) -> Callable[[Settings], bool]:
    return lambda found: (_number(found.get(key, "")) or 0) > most


def _has_words(key: str, *words: str) -> Callable[[Settings], bool]:
    return lambda found: set(words) <= _words(found, key)


_OF_ALL = (
    _Rule("DefMemPerCPU", _both("defmempercpu", "defmempernode"), "it is ignored beside DefMemPerNode; remove one"),
    _Rule("MaxMemPerCPU", _both("maxmempercpu", "maxmempernode"), "it is ignored beside MaxMemPerNode; remove one"),
)
_OF_FILE = (
    *_OF_ALL,
    _Rule(
        "UnkillableStepTimeout",
        lambda found: (
            (_number(found.get("unkillablesteptimeout", "")) or _MOST_PRIORITY)
            < UNKILLABLE_FACTOR * (_number(found.get("messagetimeout", "")) or 0)
        ),
        f"it must be at least {UNKILLABLE_FACTOR} times MessageTimeout, or nodes go down (KillTaskFailed)",
        ("MessageTimeout",),
        (24, 5),
    ),
    _Rule(
        "MessageTimeout",
        _above("messagetimeout", LONGEST_MESSAGE_TIMEOUT),
        f"above {LONGEST_MESSAGE_TIMEOUT} a host that is gone is noticed too late",
    ),
    _Rule("MinJobAge", _below("minjobage", 2), "it must be at least 2"),
    _Rule("SchedulerTimeSlice", _below("schedulertimeslice", 5), "it must be at least 5"),
    _Rule(
        "PriorityWeightQOS",
        lambda found: sum(_number(found.get(key, "")) or 0 for key in _WEIGHTS) > _MOST_PRIORITY,
        f"the sum of all PriorityWeights must not exceed {_MOST_PRIORITY}, or priorities overflow",
    ),
    _Rule(
        "JobAcctGatherParams",
        lambda found: (
            bool({"usepss", "noshared"} & _words(found, "jobacctgatherparams"))
            and "linux" not in found.get("jobacctgathertype", "")
        ),
        "UsePSS and NoShared need jobacct_gather/linux",
        ("JobAcctGatherType",),
        (24, 5),
    ),
    _Rule(
        "PrologFlags",
        _has_words("prologflags", "serial", "runinjob"),
        "Serial and RunInJob exclude each other",
        since=(24, 5),
    ),
    _Rule(
        "SlurmdParameters",
        _has_words("slurmdparameters", "l3cache_as_socket", "numa_node_as_socket"),
        "l3cache_as_socket and numa_node_as_socket exclude each other",
        since=(24, 5),
    ),
    _Rule(
        "HealthCheckTimeout",
        lambda found: (
            (_number(found.get("healthchecktimeout", "")) or 0)
            >= (_number(found.get("healthcheckinterval", "")) or _MOST_PRIORITY)
        ),
        "it must be less than HealthCheckInterval",
        ("HealthCheckInterval",),
        (26, 5),
    ),
    _Rule(
        "SchedulerParameters",
        lambda found: (
            "bf_licenses" in _words(found, "schedulerparameters") and found.get("schedulertype") == "sched/builtin"
        ),
        "bf_licenses is ignored with sched/builtin",
        ("SchedulerType",),
    ),
)
_OF_PARTITION = (
    *_OF_ALL,
    _Rule(
        "PreemptMode",
        lambda found: "gang" in _words(found, "preemptmode"),
        "GANG is the whole cluster's, and ignored in a partition; write it under slurm_conf",
        since=(24, 11),
    ),
)


def contradictions(version: SlurmVersion, conf: ConfText) -> Iterator[str]:
    """Yield the rules that a file breaks in a series, such as `slurm_conf.MinJobAge: it must be at least 2 (…)`."""
    series = (version.major, version.minor)
    places: list[tuple[str, str, Settings, tuple[_Rule, ...]]]
    places = [("slurm_conf", "", conf.settings, _OF_FILE)]
    places += [("partitions", f"{name}: ", settings, _OF_PARTITION) for name, settings in conf.partitions.items()]
    for section, name, settings, rules in places:
        for rule in rules:
            if series >= rule.since and rule.is_broken(settings):
                told = (f"{key}={settings.get(key.lower(), '')}" for key in (rule.key, *rule.others))
                yield f"{section}.{rule.key}: {name}{rule.reason} ({', '.join(told)})"
    if conf.settings.get("preempttype", "preempt/none") == "preempt/none":
        for name, one in conf.partitions.items():
            if modes(one.get("preemptmode", "")):
                yield (
                    f"partitions.PreemptMode: {name}: no job preempts those of a partition unless the cluster has a "
                    "PreemptType, or another partition a higher PriorityTier"
                )


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _words(found: Settings, key: str) -> set[str]:
    return {word.strip().lower() for word in found.get(key, "").split(",")}
