"""A plan as people read it at any hour: what changes where in a few lines, then Slurm's part, then every detail."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from slurmfab.agent.resource import FAILED, OK, WOULD_CHANGE
from slurmfab.hostlist import fold
from slurmfab.promises.dangers import told
from slurmfab.promises.forecast import Forecast, Label
from slurmfab.promises.needs import Need
from slurmfab.report import DIFFERS, Report, Step, folded

SHOWN_LABELS = 40
"""How many differences of Slurm's files are told one by one; a diff follows anyway."""

LABEL_WIDTH = 72
"""The most characters of a difference; the address list of a thousand nodes tells nobody anything."""

INDENT = "    "


def plan_text(report: Report, steps: Sequence[Step]) -> str:
    """What a deployment would do: an overview folded over equal hosts, Slurm's part, and details folded likewise.

    Args:
        report: of the look.
        steps: what was found, all of it.
    """
    lines: list[str] = []
    for part in (overview(steps), slurm_part(report.forecast), refusals(report), details(steps)):
        lines += [*part, ""] if part else []
    lines += [str(error) for error in report.lost.values()]
    return "\n".join([*lines, last_word(report)])


def overview(steps: Sequence[Step]) -> list[str]:
    """Each group of hosts that differ in the same things: `cn[01-16]: 2 changes (slurm.conf, slurmd)`."""
    by_host: dict[str, list[Step]] = {}
    for step in steps:
        if step.differs:
            by_host.setdefault(step.host, []).append(step)
    groups: dict[tuple[tuple[str, str, str], ...], list[str]] = {}
    for host, differing in by_host.items():
        things = tuple(
            (step.phase, one.id, one.status) for step in differing for one in step.outcomes if one.status != OK
        )
        groups.setdefault(things, []).append(host)
    names = [fold(hosts) for hosts in groups.values()]
    width = max(map(len, names), default=0) + 1
    return [f"{name + ':':<{width}} {in_short(things)}" for name, things in zip(names, groups, strict=True)]


def in_short(things: Iterable[tuple[str, str, str]]) -> str:
    """How many things would change or are otherwise wrong, and in which phases."""
    statuses = [status for _, _, status in things]
    counts = [
        (statuses.count(WOULD_CHANGE), "change", "changes"),
        (statuses.count(DIFFERS), "other difference", "other differences"),
        (statuses.count(FAILED), "failure", "failures"),
    ]
    words = [f"{count} {one if count == 1 else many}" for count, one, many in counts if count]
    phases = dict.fromkeys(phase for phase, _, _ in things)
    return f"{', '.join(words) or 'nothing that is known'} ({', '.join(phases)})"


def slurm_part(forecast: Forecast) -> list[str]:
    """Each difference of Slurm's files with its need, by file, and what becomes of the daemons."""
    lines: list[str] = []
    for file in dict.fromkeys(label.difference.file for label in forecast.labels):
        lines += [file, *labels([label for label in forecast.labels if label.difference.file == file])]
    return [*lines, f"{INDENT}=> {forecast.renewal}"] if lines and forecast.renewal else lines


def labels(some: Sequence[Label]) -> Iterator[str]:
    """A line for each difference, the needs below each other, and how many there are besides."""
    shown = [(shortened(str(label.difference)), label.need.value) for label in some[:SHOWN_LABELS]]
    width = max(len(words) for words, _ in shown)
    for words, need in shown:
        yield f"{INDENT}{words:<{width}}   [{need}]"
    if len(some) > len(shown):
        rest = {label.need for label in some[SHOWN_LABELS:]}
        needs = ", ".join(need.value for need in Need if need in rest)
        yield f"{INDENT}and {len(some) - len(shown)} more   [{needs}]"


def shortened(words: str) -> str:
    """Words that fit into a line, with both ends kept, since what changes is mostly at the end."""
    if len(words) <= LABEL_WIDTH:
        return words
    half = (LABEL_WIDTH - 3) // 2
    return f"{words[:half]} … {words[-half:]}"


def refusals(report: Report) -> list[str]:
    """For what the command that this is the plan of would be refused, and what to say to have it all the same."""
    if not report.forecast.dangers:
        return []
    command = "deploy" if report.command == "plan" else report.command
    lines = (line for danger in report.forecast.dangers for line in told(danger))
    return [f"{command} would refuse:", *(f"{INDENT}{line}" for line in lines)]


def details(steps: Sequence[Step]) -> list[str]:
    """Every difference by phase, folded over the hosts where it is the same."""
    lines: list[str] = []
    for phase, hosts, changes in folded(steps):
        lines += ["", f"{fold(hosts)}: {phase}", *(f"{INDENT}{line}" for line in changes)]
    return lines[1:]


def last_word(report: Report) -> str:
    """How much would be changed, on how many hosts."""
    would = report.count(WOULD_CHANGE)
    if not would:
        return f"{report.cluster}: nothing would be changed ({report.seconds:.1f} s)."
    hosts = len({step.host for step in report.steps if step.with_status(WOULD_CHANGE)})
    changes = f"{would} change{'s' if would != 1 else ''} would be made on {hosts} host{'s' if hosts != 1 else ''}"
    return f"{report.cluster}: {changes} ({report.seconds:.1f} s)."
