"""Preemption: the keys of slurm.conf that follow from the settings of partitions and QOS.

Slurm preempts in one of two ways (slurm.conf(5), PreemptType): a job is preempted by jobs of partitions with a higher
PriorityTier, or by jobs whose QOS lists its own in Preempt. Both need a PreemptMode other than OFF for the whole
cluster, or no daemon starts (“PreemptType and PreemptMode values incompatible”, read_config.c).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

BY_QOS = "preempt/qos"
BY_PARTITION = "preempt/partition_prio"
OFF = "OFF"
SUSPEND = "SUSPEND"
DEFAULT_MODE = "REQUEUE"  # the PreemptMode if the cluster file does not set one
_BESIDE = {"GANG", "WITHIN"}  # words of a PreemptMode that do not state what happens to a preempted job
_NO_LIST = ("", "-1", "NONE")  # values of a QOS's Preempt for an empty list (sacctmgr(1))

Settings = Mapping[str, str]


@dataclass(frozen=True)
class Preemption:
    """The keys of slurm.conf for preemption."""

    type: str
    mode: str
    requeues: bool  # whether preempted jobs may be requeued
    # whether partitions without a PreemptMode get OFF, as that of the cluster is only set because Slurm requires it
    partitions_default_to_off: bool


def preemption(
    partitions: Iterable[Settings], qos: Iterable[Settings], own: Mapping[str, str | None]
) -> Preemption | None:
    """The keys of slurm.conf for the preemption that partitions and QOS declare; `None` for none.

    >>> preemption([{"PriorityTier": "1", "PreemptMode": "CANCEL"}, {"PriorityTier": "2"}], [], {}).mode
    'CANCEL'

    Args:
        partitions: keys and values of each partition's line.
        qos: keys and values of each QOS.
        own: the user's keys of slurm.conf; with PreemptType, or a PreemptMode that preempts no job, nothing is added.
    """
    partitions, qos = tuple(map(_lower, partitions)), tuple(map(_lower, qos))
    settings = {key.lower(): value for key, value in own.items()}
    if "preempttype" in settings or ("preemptmode" in settings and not modes(settings["preemptmode"] or OFF)):
        return None
    by_qos, by_partition = preempts_by_qos(qos), preempts_by_partition(partitions)
    if not by_qos and not by_partition:
        return None
    mode = settings.get("preemptmode") or common_mode(qos if by_qos else partitions)
    declared = {word for one in (*partitions, *qos) for word in modes(_mode_of(one))}
    return Preemption(
        type=BY_QOS if by_qos else BY_PARTITION,
        mode=mode,
        requeues=DEFAULT_MODE in {*modes(mode), *declared},
        partitions_default_to_off=not by_qos and "preemptmode" not in settings,
    )


def preempts_by_qos(qos: Iterable[Settings]) -> bool:
    """Whether a QOS preempts the jobs of others (Preempt)."""
    return any(_lower(one).get("preempt", "").upper() not in _NO_LIST for one in qos)


def preempts_by_partition(partitions: Iterable[Settings]) -> bool:
    """Whether a partition has a PreemptMode and another partition a higher PriorityTier."""
    all_of_them = tuple(map(_lower, partitions))
    highest = max(map(_tier, all_of_them), default=0)
    return any(modes(_mode_of(one)) and _tier(one) < highest for one in all_of_them)


def modes(value: str) -> set[str]:
    """The actions of a PreemptMode on jobs: CANCEL, REQUEUE, SUSPEND; none for OFF, GANG or an empty value.

    >>> modes("suspend,gang")
    {'SUSPEND'}
    """
    return {word.strip().upper() for word in value.split(",")} - _BESIDE - {"", OFF, "CLUSTER"}


def common_mode(entries: Sequence[Settings]) -> str:
    """The cluster's PreemptMode for the declared ones; gang scheduling resumes suspended jobs."""
    declared = {word for one in entries for word in modes(_mode_of(one))}
    if SUSPEND in declared:
        return f"{SUSPEND},GANG"
    return next(iter(declared)) if len(declared) == 1 else DEFAULT_MODE


def partition_settings(settings: Settings, wanted: Preemption | None) -> Settings:
    """The settings of a partition's line; with PreemptMode=OFF added if partitions default to it."""
    if wanted is None or not wanted.partitions_default_to_off or "preemptmode" in _lower(settings):
        return settings
    return {**settings, "PreemptMode": OFF}


def _lower(settings: Settings) -> Settings:
    """Settings by keys in lower case, as Slurm ignores case."""
    return {key.lower(): value for key, value in settings.items()}


def _mode_of(settings: Settings) -> str:
    return settings.get("preemptmode", "")


def _tier(settings: Settings) -> int:
    """A partition's PriorityTier, 1 by default; Priority is its old name (slurm.conf(5))."""
    tier = settings.get("prioritytier", settings.get("priority", "1"))
    return int(tier) if tier.isdecimal() else 1
