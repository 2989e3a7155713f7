"""Who gives way to whom: the keys of slurm.conf that follow from what partitions and QOS say of preemption.

Slurm preempts in one of two ways (slurm.conf(5), PreemptType): a job gives way to jobs of partitions with a higher
PriorityTier, or to jobs whose QOS names its own in Preempt. Either needs a PreemptMode other than OFF for the whole
cluster, or no daemon starts (“PreemptType and PreemptMode values incompatible”, read_config.c).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

BY_QOS = "preempt/qos"
BY_PARTITION = "preempt/partition_prio"
OFF = "OFF"
SUSPEND = "SUSPEND"
USUAL = "REQUEUE"
"""What becomes of a job that gives way, where nobody says it."""

_BESIDE = {"GANG", "WITHIN"}
"""Words of a PreemptMode that say nothing of what becomes of a job."""

_NO_LIST = ("", "-1", "NONE")
"""Values of a QOS's Preempt that name nobody (sacctmgr(1))."""

Settings = Mapping[str, str]


@dataclass(frozen=True)
class Preemption:
    """What slurm.conf says of preemption.

    Args:
        type: PreemptType.
        mode: PreemptMode of the cluster.
        requeues: whether jobs that give way are queued again.
        spares_the_silent: whether a partition without a PreemptMode of its own is to have OFF, since the cluster's is
            there only because Slurm wants one.
    """

    type: str
    mode: str
    requeues: bool
    spares_the_silent: bool


def preemption(
    partitions: Iterable[Settings], qos: Iterable[Settings], own: Mapping[str, str | None]
) -> Preemption | None:
    """What slurm.conf has to say so that preemption works as partitions and QOS declare it; `None` for nothing.

    >>> preemption([{"PriorityTier": "1", "PreemptMode": "CANCEL"}, {"PriorityTier": "2"}], [], {}).mode
    'CANCEL'

    Args:
        partitions: keys and values of each partition's line.
        qos: keys and values of each QOS.
        own: the user's keys of slurm.conf. Who sets PreemptType, or a PreemptMode that preempts nobody, knows better.
    """
    partitions, qos = tuple(map(_lower, partitions)), tuple(map(_lower, qos))
    said = {key.lower(): value for key, value in own.items()}
    if "preempttype" in said or ("preemptmode" in said and not modes(said["preemptmode"] or OFF)):
        return None
    by_qos, by_partition = preempts_by_qos(qos), preempts_by_partition(partitions)
    if not by_qos and not by_partition:
        return None
    mode = said.get("preemptmode") or common_mode(qos if by_qos else partitions)
    return Preemption(
        type=BY_QOS if by_qos else BY_PARTITION,
        mode=mode,
        requeues=USUAL in {*modes(mode), *(word for one in (*partitions, *qos) for word in modes(_mode_of(one)))},
        spares_the_silent=not by_qos and "preemptmode" not in said,
    )


def preempts_by_qos(qos: Iterable[Settings]) -> bool:
    """Whether some QOS names others whose jobs give way to its own."""
    return any(_lower(one).get("preempt", "").upper() not in _NO_LIST for one in qos)


def preempts_by_partition(partitions: Iterable[Settings]) -> bool:
    """Whether some partition's jobs give way, by its PreemptMode, to those of one with a higher PriorityTier."""
    all_of_them = tuple(map(_lower, partitions))
    highest = max(map(_tier, all_of_them), default=0)
    return any(modes(_mode_of(one)) and _tier(one) < highest for one in all_of_them)


def modes(value: str) -> set[str]:
    """What a PreemptMode says may become of a job: CANCEL, REQUEUE, SUSPEND; nothing for OFF, GANG or no value.

    >>> modes("suspend,gang")
    {'SUSPEND'}
    """
    return {word.strip().upper() for word in value.split(",")} - _BESIDE - {"", OFF, "CLUSTER"}


def common_mode(entries: Sequence[Settings]) -> str:
    """The cluster's PreemptMode beside those that are declared; jobs that are suspended go on by gang scheduling."""
    declared = {word for one in entries for word in modes(_mode_of(one))}
    if SUSPEND in declared:
        return f"{SUSPEND},GANG"
    return next(iter(declared)) if len(declared) == 1 else USUAL


def partition_settings(settings: Settings, wanted: Preemption | None) -> Settings:
    """What a partition's line says: as declared, and OFF where only those give way that say so."""
    if wanted is None or not wanted.spares_the_silent or "preemptmode" in _lower(settings):
        return settings
    return {**settings, "PreemptMode": OFF}


def _lower(settings: Settings) -> Settings:
    """The same by keys in small letters; Slurm takes no notice of case."""
    return {key.lower(): value for key, value in settings.items()}


def _mode_of(settings: Settings) -> str:
    return settings.get("preemptmode", "")


def _tier(settings: Settings) -> int:
    """A partition's tier: 1 where it says nothing; Priority is its old name (slurm.conf(5))."""
    said = settings.get("prioritytier", settings.get("priority", "1"))
    return int(said) if said.isdigit() else 1
