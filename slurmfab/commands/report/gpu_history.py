"""The history of GPU checks: the bandwidth of each node, the worst first, and of all nodes of a type together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from slurmfab.on_hosts.programs.gpu_check.check import NOT_MEASURED, SHORT

PAIR = " and "
"""Between the names of two nodes that were measured together."""

MOST_CHECKS = 30
"""So many checks are shown, the newest ones."""


@dataclass(frozen=True)
class Point:
    """One measurement."""

    check: int  # number of the check it belongs to, from 0 for the oldest one that is shown
    time: str  # when it was made, as in `2026-11-22 03:30`
    busbw: float | None  # bus bandwidth in GB/s; `None` where none was measured
    wanted: float | None  # the threshold in GB/s; `None` where there is none
    outcome: str  # `passed`, `falls short` or `not measured`
    words: str = ""  # the reason, and what was done with the node


@dataclass(frozen=True)
class History:
    """The measurements of a node, or of two nodes together."""

    name: str  # of the node, or of both
    gpus: str  # such as `a100 x4`; empty where unknown
    points: tuple[Point, ...]  # oldest first, one for each check at most

    @property
    def figures(self) -> tuple[float, ...]:
        """The bandwidths that were measured, oldest first."""
        return tuple(point.busbw for point in self.points if point.busbw is not None)

    @property
    def wanted(self) -> float | None:
        """The last threshold."""
        return next((point.wanted for point in reversed(self.points) if point.wanted is not None), None)

    @property
    def last(self) -> Point:
        """The last measurement."""
        return self.points[-1]

    @property
    def is_short(self) -> bool:
        """Whether the last measurement fell short."""
        return self.last.outcome == SHORT

    @property
    def change(self) -> float:
        """The last bandwidth as a part of the median before it; 1 where there is nothing to compare."""
        *earlier, newest = self.figures or (1.0,)
        return newest / median(earlier) if earlier and median(earlier) else 1.0


@dataclass(frozen=True)
class Band:
    """All nodes of one type in one check: the lowest, the median and the highest bandwidth, in GB/s."""

    check: int
    lowest: float
    middle: float
    highest: float
    count: int


def histories(entries: Iterable[Mapping[str, Any]]) -> tuple[tuple[str, ...], tuple[History, ...]]:
    """The measurements by node, the nodes with the worst last measurement first.

    Args:
        entries: of the history of GPU checks, oldest first; those without nodes are left out.

    Returns:
        The times of the checks that are shown, oldest first, and the histories.
    """
    measured = [entry for entry in entries if entry.get("nodes")]
    runs: dict[str, str] = {}
    for entry in measured:
        runs.setdefault(str(entry["run"]), minute(entry))
    shown = list(runs)[-MOST_CHECKS:]
    number = {run: place for place, run in enumerate(shown)}
    found: dict[str, dict[int, Point]] = {}
    gpus: dict[str, str] = {}
    for entry in measured:
        if entry["run"] in number:
            name = PAIR.join(entry["nodes"])
            found.setdefault(name, {})[number[entry["run"]]] = point_of(entry, number[entry["run"]])
            gpus[name] = str(entry.get("gpus") or gpus.get(name, ""))
    every = [History(name, gpus[name], tuple(points.values())) for name, points in found.items()]
    return tuple(runs[run] for run in shown), tuple(sorted(every, key=badness))


def badness(history: History) -> tuple[bool, bool, float]:
    """What orders histories: those that fall short, those that were not measured, and the largest losses first."""
    return (not history.is_short, history.last.outcome != NOT_MEASURED, history.change)


def minute(entry: Mapping[str, Any]) -> str:
    """When an entry was made, to the minute."""
    return str(entry.get("time", ""))[:16].replace("T", " ")


def point_of(entry: Mapping[str, Any], check: int) -> Point:
    """The measurement in an entry."""
    words = "; ".join(str(entry[name]) for name in ("why", "action", "remark") if entry.get(name))
    busbw, wanted = entry.get("busbw"), entry.get("wanted")
    figure = float(busbw) if busbw else None  # 0 stands for a node without a bus between GPUs
    return Point(check, minute(entry), figure, float(wanted) if wanted else None, str(entry["outcome"]), words)


def bands(of_type: Sequence[History]) -> tuple[Band, ...]:
    """The bandwidths of several nodes by check; checks without any are left out."""
    by_check: dict[int, list[float]] = {}
    for history in of_type:
        for point in history.points:
            if point.busbw is not None:
                by_check.setdefault(point.check, []).append(point.busbw)
    return tuple(
        Band(check, min(figures), median(figures), max(figures), len(figures))
        for check, figures in sorted(by_check.items())
    )
