"""What a scenario has measured: samples by way, the figures made of them, and both as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final, Literal

TIMES: Final = "x"
SECONDS: Final = "s"
MEMORY: Final = "MiB"
MEMORY_EACH: Final = "KiB"
PROCESSORS: Final = "ms"
Unit = Literal["x", "s", "MiB", "KiB", "ms"]
Samples = Mapping[str, Sequence["Sample"]]


@dataclass(frozen=True)
class Sample:
    """One way of doing the work, done once.

    Args:
        seconds: from its start to its end, or to what else the scenario waits for.
        cpu_seconds: of processors, by the program and all that it started on this machine; not what sshd or hosts used.
        peak_mib: the largest resident memory of any of its processes.
    """

    seconds: float
    cpu_seconds: float = 0.0
    peak_mib: float = 0.0


@dataclass(frozen=True)
class Target:
    """A figure that a scenario is about.

    Args:
        of: the way that it tells of.
        to: the way that it is compared with; empty for a figure in seconds or MiB.
        at_most: what it shall not be above; `None` where it is only told.
        unit: `x` for a ratio of seconds, `s` for seconds, `MiB` for the peak of memory, `KiB` for the same, `ms` for
            processor time of this machine, without that of sshd and of hosts.
        hosts: how many share the processor time or the `KiB`; 1 for those of the whole run.
    """

    of: str
    to: str = ""
    at_most: float | None = None
    unit: Unit = TIMES
    hosts: int = 1


@dataclass(frozen=True)
class Figure:
    """What became of a target: the median of all rounds, with the lowest and the highest."""

    target: Target
    value: float
    lowest: float
    highest: float

    @property
    def is_met(self) -> bool | None:
        """Whether the value is within its bound; `None` where there is no bound."""
        return None if self.target.at_most is None else self.value <= self.target.at_most


@dataclass(frozen=True)
class Result:
    """A scenario that was run.

    Args:
        scenario: its name.
        title: what it measures, in the words of the table.
        samples: by way, one for each round, in the order of the rounds; peers may lack the later ones.
        targets: the figures that it is about.
        machine: what it ran on, in general words.
        when: date and time (UTC).
        skipped: ways that were left out, with the reason.
        notes: what a reader has to know about these numbers.
    """

    scenario: str
    title: str
    samples: Mapping[str, tuple[Sample, ...]]
    targets: tuple[Target, ...]
    machine: Mapping[str, str] = field(default_factory=dict)
    when: str = ""
    skipped: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def rounds(self) -> int:
        """How many rounds were measured."""
        return max(map(len, self.samples.values()), default=0)

    @property
    def figures(self) -> tuple[Figure, ...]:
        """A figure for each target both of whose ways were measured."""
        return tuple(
            figure(target, self.samples)
            for target in self.targets
            if self.samples.get(target.of) and (not target.to or self.samples.get(target.to))
        )


def figure(target: Target, samples: Samples) -> Figure:
    """The figure of a target; a ratio is taken round by round, since a shared machine is slow for both of a round."""
    values = values_of(target, samples)
    return Figure(target, median(values), min(values), max(values))


def values_of(target: Target, samples: Samples) -> list[float]:
    """A target's value in each round."""
    if target.unit == MEMORY:
        return [sample.peak_mib for sample in samples[target.of]]
    if target.unit == MEMORY_EACH:
        return [1024 * sample.peak_mib / target.hosts for sample in samples[target.of]]
    if target.unit == PROCESSORS:
        return [1000 * sample.cpu_seconds / target.hosts for sample in samples[target.of]]
    seconds = [sample.seconds for sample in samples[target.of]]
    if not target.to:
        return seconds
    # Peers take part in the first rounds alone, where they are slow.
    return [one / other.seconds for one, other in zip(seconds, samples[target.to], strict=False)]


def save(result: Result, directory: Path) -> Path:
    """Write a result as `SCENARIO.json`, with its figures for readers who do not want to compute them again."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{result.scenario}.json"
    figures = [{**asdict(one), "is_met": one.is_met} for one in result.figures]
    path.write_text(json.dumps({**asdict(result), "figures": figures}, indent=1) + "\n")
    return path


def load(path: Path) -> Result:
    """The result that `save` has written; its figures are made anew from the samples."""
    data: dict[str, Any] = json.loads(path.read_text())
    data.pop("figures", None)
    samples = {way: tuple(Sample(**one) for one in many) for way, many in data.pop("samples").items()}
    targets = tuple(Target(**one) for one in data.pop("targets"))
    return Result(samples=samples, targets=targets, notes=tuple(data.pop("notes")), **data)


def load_all(directory: Path, order: Sequence[str] = ()) -> tuple[Result, ...]:
    """The results of a directory, in an order of scenarios; what is in none comes last, by name."""
    found = {result.scenario: result for result in map(load, sorted(directory.glob("*.json")))}
    names = [name for name in order if name in found] + [name for name in found if name not in order]
    return tuple(found[name] for name in names)
