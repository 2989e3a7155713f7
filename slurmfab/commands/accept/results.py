"""The results of acceptance jobs: verdicts, lines for people, JSON and JUnit XML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from slurmfab.base import junit
from slurmfab.base.exit_codes import DONE, FAILURE, LEFT_OUT
from slurmfab.base.json_output import Key, shows
from slurmfab.base.terminal import in_one_line, without_middle
from slurmfab.commands.accept.wanted import PlannedRun, WantedFigure, WantedJob

PASSED, FAILED, NO_FIGURE, TIMED_OUT, NOT_STARTED = "passed", "failed", "no figure", "timed out", "not started"
VERDICTS = (PASSED, FAILED, NO_FIGURE, TIMED_OUT, NOT_STARTED)
BAD = (FAILED, NO_FIGURE, TIMED_OUT)  # the verdicts, and those that make the run fail
WIDEST_PLACE = 24  # columns for the nodes of a job; a longer hostlist is shortened in the middle
LONGEST_WORDS = 300  # characters of a reason, which may come from a job


@shows(
    Key("job", "run.job.name", text="name of the job"), Key("figure", "figure_name"), Key("place", "run.place"),
    "nodes", "job_id", Key("user", "run.job.user"), "verdict",
    Key("words", form=lambda words: words[:LONGEST_WORDS]), "value", "unit", "target", "tolerance", "difference",
    Key("earlier_median", "earlier"), "earlier_runs", "change", "has_fallen", Key("seconds", digits=3),
)  # fmt: skip
@dataclass(frozen=True)
class Result:
    """A figure of a run with its verdict; or why a run has no figures."""

    run: PlannedRun
    verdict: str  # such as `passed`
    figure: WantedFigure | None = None  # what was looked for; `None` if the run has no figures at all
    value: float | None = None  # the figure; null if there is none
    words: str = ""  # why the verdict is not `passed`, for people; empty if the figure says it
    nodes: str = ""  # where it ran, as a hostlist; empty if it did not run
    job_id: str = ""  # Slurm's number of the job; empty if it was not submitted
    seconds: float = 0.0  # from the job's submission to its end
    earlier: float | None = None  # median of earlier runs at this place; null if there are none
    earlier_runs: int = 0  # how many these are

    @property
    def name(self) -> str:
        """The job's name, with that of the figure if it has one: `hpcc:hpl`."""
        return full_name(self.run.job, self.figure)

    @property
    def figure_name(self) -> str:
        """Name of the figure; empty if the job has one only."""
        return self.figure.name if self.figure else ""

    @property
    def unit(self) -> str:
        """Of the figure."""
        return self.figure.unit if self.figure else ""

    @property
    def target(self) -> float | None:
        """What was expected; null for nothing."""
        return self.figure.target if self.figure else None

    @property
    def tolerance(self) -> float | None:
        """Percent by which it may miss its target."""
        return self.figure.tolerance if self.figure else None

    @property
    def difference(self) -> float | None:
        """Percent by which the figure is above or below its target."""
        if self.value is None or not self.target:
            return None
        return (self.value - self.target) / self.target * 100

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


@shows("version", "cluster", "sender", Key("exit_code", text="of the task"), Key("seconds", digits=3), "results")
@dataclass(frozen=True)
class Verdict:
    """The results of `fab accept`."""

    version: ClassVar[int] = 1  # of this format: 1
    cluster: str  # the cluster's name
    sender: str  # the host from which jobs were submitted
    results: tuple[Result, ...]  # the figures, in the order in which they came
    seconds: float  # how long it took

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

    def as_junit(self) -> str:
        """The results as JUnit XML."""
        return junit.as_xml("acceptance", map(junit_case, self.results), self.seconds)


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
