"""A plan as text: an overview by host, the changes of Slurm's configuration, refusals, and every difference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from slurmfab.base.grouping import grouped
from slurmfab.base.hostlist import fold
from slurmfab.core.engine.report import DIFFERS, Report, Step, failures, fold_steps
from slurmfab.core.impact.approvals import task_that_allows
from slurmfab.core.impact.disruptive_changes import format_disruption
from slurmfab.core.impact.forecast import Forecast, Label
from slurmfab.core.impact.restart_requirements import Requirement
from slurmfab.on_hosts.agent.core.resource import FAILED, OK, WOULD_CHANGE

SHOWN_LABELS = 40  # how many differences of Slurm's files have a line of their own; the diffs below show all of them
LABEL_WIDTH = 72  # the most characters of a difference, which may be as long as the addresses of a thousand nodes
NAME_WIDTH = 40  # the most columns for hosts in the overview; a longer hostlist moves the rest of its line

INDENT = "    "


class Difference(NamedTuple):
    """A resource that is not as wanted."""

    phase: str
    id: str
    status: str


def plan_text(report: Report, steps: Sequence[Step]) -> str:
    """What a deployment would do, by all outcomes: lines of changes, refusals, differences and their count."""
    lines: list[str] = []
    for part in (overview(steps), slurm_part(report.forecast), refusals(report), details(steps)):
        lines += [*part, ""] if part else []
    lines += [*left_out(report), ""] if report.others else []
    lines += failures((), report.failed_hosts)
    return "\n".join([*lines, count_text(report)])


def overview(steps: Sequence[Step]) -> list[str]:
    """A line for each group of hosts with the same changes: `cn[01-16]: 2 changes (slurm.conf, slurmd)`."""
    by_host = grouped((step.host, step) for step in steps if step.differs)
    groups: dict[tuple[Difference, ...], list[str]] = {}
    for host, differing in by_host.items():
        differences = tuple(
            Difference(step.phase, one.id, one.status)
            for step in differing
            for one in step.outcomes
            if one.status != OK
        )
        groups.setdefault(differences, []).append(host)
    names = [fold(hosts) for hosts in groups.values()]
    width = min(max(map(len, names), default=0), NAME_WIDTH) + 1
    return [f"{name + ':':<{width}} {count_differences(group)}" for name, group in zip(names, groups, strict=True)]


def left_out(report: Report) -> list[str]:
    """What differs in phases that `--only` leaves out, in lines."""
    heading = f"Left as they are (--only {','.join(report.only)}):"
    return [heading, *(f"{INDENT}{line}" for line in overview(report.others))]


def count_differences(differences: Iterable[Difference]) -> str:
    """How many resources would change or are wrong in another way, and in which phases."""
    found = tuple(differences)
    statuses = [one.status for one in found]
    counts = [
        (statuses.count(WOULD_CHANGE), "change", "changes"),
        (statuses.count(DIFFERS), "other difference", "other differences"),
        (statuses.count(FAILED), "failure", "failures"),
    ]
    counted = [f"{count} {one if count == 1 else many}" for count, one, many in counts if count]
    return f"{', '.join(counted) or 'unknown differences'} ({', '.join(dict.fromkeys(one.phase for one in found))})"


def slurm_part(forecast: Forecast) -> list[str]:
    """The differences of Slurm's files, each with what it requires, and what happens to the daemons."""
    lines: list[str] = []
    for file in dict.fromkeys(label.difference.file for label in forecast.labels):
        lines += [file, *labels([label for label in forecast.labels if label.difference.file == file])]
    return [*lines, f"{INDENT}=> {forecast.renewal}"] if lines and forecast.renewal else lines


def labels(some: Sequence[Label]) -> Iterator[str]:
    """A line for each difference, with its requirement in the last column, and the number of further ones."""
    shown = [(shortened(str(label.difference)), label.need.value) for label in some[:SHOWN_LABELS]]
    width = max(len(text) for text, _ in shown)
    for text, need in shown:
        yield f"{INDENT}{text:<{width}}   [{need}]"
    if len(some) > len(shown):
        rest = {label.need for label in some[SHOWN_LABELS:]}
        needs = ", ".join(need.value for need in Requirement if need in rest)
        yield f"{INDENT}and {len(some) - len(shown)} more   [{needs}]"


def shortened(text: str) -> str:
    """A text that fits into a line, with both ends kept, since the change is mostly at the end."""
    if len(text) <= LABEL_WIDTH:
        return text
    half = (LABEL_WIDTH - 3) // 2
    return f"{text[:half]} … {text[-half:]}"


def refusals(report: Report) -> list[str]:
    """The changes that the command would refuse, with the options that allow them."""
    if not report.forecast.disruptions:
        return []
    command = "deploy" if report.command == "plan" else report.command
    lines = (
        line
        for danger in report.forecast.disruptions
        for line in format_disruption(danger, task_that_allows(report.command))
    )
    return [f"{command} would refuse:", *(f"{INDENT}{line}" for line in lines)]


def details(steps: Sequence[Step]) -> list[str]:
    """Every difference by phase, folded over hosts with the same one."""
    lines: list[str] = []
    for phase, hosts, changes in fold_steps(steps):
        lines += ["", f"{fold(hosts)}: {phase}", *(f"{INDENT}{line}" for line in changes)]
    return lines[1:]


def count_text(report: Report) -> str:
    """The number of changes and hosts, and what could not be compared, as the last line."""
    would = report.count(WOULD_CHANGE)
    hosts = len({step.host for step in report.steps if step.with_status(WOULD_CHANGE)})
    failed = report.count(FAILED)
    where = fold(dict.fromkeys(step.host for step in report.steps if step.has_failed))
    resources = f"{failed} resource{'s' if failed != 1 else ''} on {where} could not be compared (see above)"
    skipped = f"not compared: {fold(report.failed_hosts)}"
    unknown = "; ".join((*((resources,) if failed else ()), *((skipped,) if report.failed_hosts else ())))
    changes = f"{would} change{'s' if would != 1 else ''} would be made on {hosts} host{'s' if hosts != 1 else ''}"
    if not would:
        changes = "" if unknown else "nothing would be changed"
    return f"{report.cluster}: {'; '.join(filter(None, (changes, unknown)))} ({report.seconds:.1f} s)."
