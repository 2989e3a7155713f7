"""The results of acceptance jobs: verdicts, lines for people, JSON and JUnit XML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypedDict

from slurmfab.base import junit
from slurmfab.base.exit_codes import DONE, FAILURE, LEFT_OUT
from slurmfab.base.terminal import in_one_line, without_middle
from slurmfab.commands.accept.wanted import PlannedRun, WantedFigure, WantedJob

PASSED, FAILED, NO_FIGURE, TIMED_OUT, NOT_STARTED = "passed", "failed", "no figure", "timed out", "not started"
VERDICTS = (PASSED, FAILED, NO_FIGURE, TIMED_OUT, NOT_STARTED)
BAD = (FAILED, NO_FIGURE, TIMED_OUT)
"""The verdicts, and those that make the run fail."""

VERSION = 1
"""Version of the JSON format."""

WIDEST_PLACE = 24
"""Columns for the nodes of a job; a longer hostlist is shortened in the middle."""

LONGEST_WORDS = 300
"""Characters of a reason, which may come from a job."""


class FigureJson(TypedDict):
    """A figure of a run with its verdict; or why a run has no figures.

    Args:
        job: name of the job.
        figure: name of the figure; empty if the job has one only.
        place: where it was meant to run: a hostlist, or a number of nodes, as `2 nodes`.
        nodes: where it ran, as a hostlist; empty if it did not run.
        job_id: Slurm's number of the job; empty if it was not submitted.
        user: who ran it.
        verdict: such as `passed`.
        words: why the verdict is not `passed`; for people.
        value: the figure; null if there is none.
        unit: of the figure.
        target: what was expected; null for nothing.
        tolerance: percent by which it may miss its target.
        difference: percent by which it is above or below its target.
        earlier_median: of earlier runs at this place; null if there are none.
        earlier_runs: how many these are.
        change: percent by which it is above or below that median.
        has_fallen: whether it is worse than in earlier runs, by more than its tolerance.
        seconds: from the job's submission to its end.
    """

    job: str
    figure: str
    place: str
    nodes: str
    job_id: str
    user: str
    verdict: str
    words: str
    value: float | None
    unit: str
    target: float | None
    tolerance: float | None
    difference: float | None
    earlier_median: float | None
    earlier_runs: int
    change: float | None
    has_fallen: bool
    seconds: float


class AcceptanceJson(TypedDict):
    """The results of `fab accept`.

    Args:
        version: of this format: 1.
        cluster: the cluster's name.
        sender: the host from which jobs were submitted.
        exit_code: of the task.
        seconds: how long it took.
        results: the figures.
    """

    version: int
    cluster: str
    sender: str
    exit_code: int
    seconds: float
    results: list[FigureJson]


@dataclass(frozen=True)
class Result:
    """A figure of a run with its verdict; or why a run has no figures."""

    run: PlannedRun
    verdict: str  # one of `VERDICTS`
    figure: WantedFigure | None = None  # what was looked for; `None` if the run has no figures at all
    value: float | None = None  # the figure; `None` if there is none
    words: str = ""  # why the verdict is not `passed`; empty if the figure says it
    nodes: str = ""  # where it ran, as a hostlist; empty if it did not run
    job_id: str = ""  # Slurm's number of the job; empty if it was not submitted
    seconds: float = 0.0
    earlier: float | None = None  # median of earlier runs at this place; `None` if there are none
    earlier_runs: int = 0  # how many these are

    @property
    def name(self) -> str:
        """The job's name, with that of the figure if it has one: `hpcc:hpl`."""
        return full_name(self.run.job, self.figure)

    @property
    def difference(self) -> float | None:
        """Percent by which the figure is above or below its target."""
        target = self.figure.target if self.figure else None
        return None if self.value is None or not target else (self.value - target) / target * 100

    @property
    def change(self) -> float | None:
        """Percent by which the figure is above or below the median of earlier runs."""
        return None if self.value is None or not self.earlier else (self.value - self.earlier) / self.earlier * 100

    @property
    def has_fallen(self) -> bool:
        """Whether the figure is worse than in earlier runs, by more than its tolerance."""
        if self.figure is None or self.value is None or self.earlier is None:
            return False
        return self.figure.loss(self.value, self.earlier) > self.figure.tolerance

    @property
    def remark(self) -> str:
        """What is told behind the verdict: its reason, and that the figure has become worse."""
        runs = f"{self.earlier_runs} earlier run{'s' if self.earlier_runs > 1 else ''}"
        fallen = f"worse than before: {signed(self.change)} against the median of {runs} ({number(self.earlier)})"
        words = [in_one_line(self.words)[:LONGEST_WORDS], fallen if self.has_fallen else ""]
        return "; ".join(filter(None, words))


@dataclass(frozen=True)
class Columns:
    """The widths of the columns of a table whose rows are not known yet."""

    name: int  # of names of jobs and figures
    place: int

    def header(self) -> str:
        """The first line of the table."""
        return f"{'JOB':<{self.name}}  {'NODES':<{self.place}}  {'FIGURE':>16}  {'TARGET':>9}  {'DIFF':>10}  VERDICT"

    def row(self, result: Result) -> str:
        """The line of a result."""
        place = shortened(result.nodes or result.run.place)
        figure = result.figure
        value = f"{number(result.value)} {figure.unit}".strip() if figure and result.value is not None else "-"
        target = number(figure.target) if figure else "-"
        verdict = result.verdict.upper() if result.verdict in BAD else result.verdict
        start = f"{result.name:<{self.name}}  {place:<{self.place}}  {value:>16}  {target:>9}"
        end = f"{signed(result.difference):>10}  {verdict}"
        return f"{start}  {end}{f': {result.remark}' if result.remark else ''}"


def columns(jobs: Sequence[WantedJob], runs: Sequence[PlannedRun]) -> Columns:
    """Columns that are wide enough for some jobs."""
    names = [full_name(job, figure) for job in jobs for figure in (None, *job.figures)]
    places = [shortened(run.place) for run in runs]
    return Columns(max(map(len, ["JOB", *names])), max(map(len, ["NODES", *places])))


def full_name(job: WantedJob, figure: WantedFigure | None) -> str:
    """A job's name, with that of a figure if it has one."""
    return f"{job.name}:{figure.name}" if figure and figure.name else job.name


def shortened(place: str) -> str:
    """A hostlist that fits into its column."""
    return without_middle(place, WIDEST_PLACE)


def number(value: float | None) -> str:
    """A figure with four digits that count, or all digits of a whole number; `-` for none.

    >>> number(118.2461), number(120.0), number(0.00123456), number(None)
    ('118.2', '120', '0.001235', '-')
    """
    if value is None:
        return "-"
    return f"{value:.0f}" if abs(value) >= 1000 and abs(value) < 10**9 else f"{value:.4g}"  # noqa: PLR2004


def signed(percent: float | None) -> str:
    """A difference in percent; `-` for none.

    >>> signed(-1.53), signed(0.0)
    ('-1.5 %', '+0.0 %')
    """
    return "-" if percent is None else f"{percent:+.1f} %"


@dataclass(frozen=True)
class Verdict:
    """The results of `fab accept`."""

    cluster: str
    sender: str  # the host from which jobs were submitted
    results: tuple[Result, ...]  # in the order in which they came
    seconds: float

    def count(self, verdict: str) -> int:
        """The number of results with this verdict."""
        return sum(one.verdict == verdict for one in self.results)

    @property
    def exit_code(self) -> int:
        """1 if a figure is bad or missing, 3 if a job never started, 0 otherwise."""
        if any(one.verdict in BAD for one in self.results):
            return FAILURE
        return LEFT_OUT if self.count(NOT_STARTED) or not self.results else DONE

    @property
    def headline(self) -> str:
        """The last line for people."""
        counts = ((verdict, self.count(verdict)) for verdict in VERDICTS)
        counted = ", ".join(f"{found} {verdict}" for verdict, found in counts if found)
        fallen = sum(one.has_fallen for one in self.results)
        worse = f"; {fallen} worse than before" if fallen else ""
        return f"{self.cluster}: {counted or 'nothing was run'}{worse}, in {self.seconds:.0f} s from {self.sender}."

    def as_json(self) -> AcceptanceJson:
        """The results as JSON values."""
        return {
            "version": VERSION,
            "cluster": self.cluster,
            "sender": self.sender,
            "exit_code": self.exit_code,
            "seconds": round(self.seconds, 3),
            "results": [as_json(one) for one in self.results],
        }

    def as_junit(self) -> str:
        """The results as JUnit XML."""
        return junit.as_xml("acceptance", map(junit_case, self.results), self.seconds)


def as_json(result: Result) -> FigureJson:
    """A result as JSON values."""
    figure = result.figure
    return {
        "job": result.run.job.name,
        "figure": figure.name if figure else "",
        "place": result.run.place,
        "nodes": result.nodes,
        "job_id": result.job_id,
        "user": result.run.job.user,
        "verdict": result.verdict,
        "words": result.words[:LONGEST_WORDS],
        "value": result.value,
        "unit": figure.unit if figure else "",
        "target": figure.target if figure else None,
        "tolerance": figure.tolerance if figure else None,
        "difference": result.difference,
        "earlier_median": result.earlier,
        "earlier_runs": result.earlier_runs,
        "change": result.change,
        "has_fallen": result.has_fallen,
        "seconds": round(result.seconds, 3),
    }


def junit_case(result: Result) -> junit.Case:
    """A result as a test case."""
    name, line = f"{result.name} on {result.nodes or result.run.place}", " ".join(sentence(result))
    case = junit.Case(result.run.job.name, name, result.seconds)
    if result.verdict in BAD:
        return case._replace(failure=line)
    return case._replace(skipped=line) if result.verdict == NOT_STARTED else case


def sentence(result: Result) -> Iterator[str]:
    """The words of a result that is not `passed`."""
    yield f"{result.verdict}:"
    if result.value is not None and result.figure is not None:
        yield f"{number(result.value)} {result.figure.unit}, wanted {number(result.figure.target)}".strip()
    if result.remark:
        yield result.remark
