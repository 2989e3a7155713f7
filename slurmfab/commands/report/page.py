"""A page from its sources: the head, the sections, one style sheet and one script, all in one file."""

from __future__ import annotations

from typing import NamedTuple

from slurmfab import __version__
from slurmfab.base.hostlist import fold
from slurmfab.base.markup import Markup, fill, joined, policy
from slurmfab.commands.checks.results import FAILED, NOT_RUN, PASSED
from slurmfab.commands.report.section import Missing, Sources, Tone
from slurmfab.commands.report.sections import SECTIONS
from slurmfab.core.status import cluster_state
from slurmfab.core.status.cluster_state import Status


class Statement(NamedTuple):
    """One part of the verdict."""

    tone: Tone
    text: str


class Figure(NamedTuple):
    """A number in the head: its name, its value, what it is of, and the share that is in use, from 0 to 100."""

    name: str
    value: str
    of: str
    percent: float | None = None


def head(sources: Sources) -> Markup:
    """The head of a page."""
    found = statements(sources)
    tones = {one.tone for one in found}
    tone: Tone = "bad" if "bad" in tones else "watch" if "watch" in tones else "good"
    return fill(
        "head.html.j2",
        sources=sources,
        when=f"{sources.made:%A, %d %B %Y, %H:%M} ({sources.made:%Z})",
        versions=versions(sources),
        tone=tone,
        statements=found,
        figures=figures(sources),
        silent=sources.silent,
        absent=absent(sources),
    )


def versions(sources: Sources) -> str:
    """The versions of slurmfab and Slurm."""
    status, lock = sources.status, sources.inventory.lock
    slurm = lock.slurm if isinstance(status, Missing) else status.slurm or lock.slurm
    return f"slurmfab {__version__}" + (f", Slurm {slurm}" if slurm else "")


def statements(sources: Sources) -> list[Statement]:
    """How the cluster is: hosts, nodes, checks and drift."""
    found = []
    if not isinstance(sources.facts, Missing):
        count = len(sources.inventory.cluster.hosts)
        found.append(
            Statement("bad", f"{fold(sources.silent)} {verb(len(sources.silent), 'does', 'do')} not answer")
            if sources.silent
            else Statement("good", "the only host answers" if count == 1 else f"all {count} hosts answer")
        )
    if not isinstance(sources.status, Missing):
        found.append(of_nodes(sources.status))
    if not isinstance(sources.checks, Missing):
        verdict = sources.checks.verdict
        failed, passed, left = (len(verdict.having(outcome)) for outcome in (FAILED, PASSED, NOT_RUN))
        rest = f", {left:,} not run" if left else ""
        all_ = "" if left else "all "
        words = f"{failed:,} of {failed + passed:,} checks failed" if failed else f"{all_}{passed:,} checks passed"
        found.append(Statement("bad" if failed else "watch" if left else "good", f"{words}{rest}"))
    if not isinstance(sources.plan, Missing):
        differing = {step.host for step in sources.plan.steps if step.differs}
        words = f"{fold(differing)} {verb(len(differing), 'differs', 'differ')} from the cluster file"
        found.append(Statement("watch", words) if differing else Statement("good", "no drift found"))
    return found


def of_nodes(status: Status) -> Statement:
    """How Slurm and its nodes are."""
    if status.exit_code:
        return Statement("bad", "Slurm does not answer")
    nodes = status.seen.nodes
    out = [node.name for node in nodes if not node.state.is_in_service and not node.state.is_under_way]
    if not out:
        return Statement("good", f"all {len(nodes)} nodes are in service")
    return Statement("watch", f"{len(out)} of {len(nodes)} nodes {verb(len(out), 'is', 'are')} out of service")


def verb(count: int, one: str, many: str) -> str:
    """The form of a verb for a number."""
    return one if count == 1 else many


def figures(sources: Sources) -> list[Figure]:
    """The figures of the head; none while the state of Slurm is unknown."""
    status = sources.status
    if isinstance(status, Missing) or status.exit_code:
        return []
    seen = status.seen
    cpus, gpus = cluster_state.cpus(seen.nodes), cluster_state.gpus(seen.nodes)
    serving = sum(node.state.is_in_service for node in seen.nodes)
    return [
        Figure("Nodes in service", f"{serving:,}", f"of {len(seen.nodes):,}", share(serving, len(seen.nodes))),
        *(
            [Figure("GPUs in use", f"{gpus.used:,}", f"of {gpus.total:,}", share(gpus.used, gpus.total))]
            if gpus.total
            else []
        ),
        Figure("CPUs in use", f"{cpus.used:,}", f"of {cpus.total:,}", share(cpus.used, cpus.total)),
        Figure("Jobs running", f"{cluster_state.count_running(seen.jobs):,}", "now"),
        Figure("Jobs waiting", f"{cluster_state.count_pending(seen.jobs):,}", "in the queue"),
    ]


def share(part: int, whole: int) -> float:
    """A share in percent."""
    return round(100 * part / whole, 1) if whole else 0.0


def absent(sources: Sources) -> list[str]:
    """The reasons for what is missing although it was asked for."""
    parts = (sources.status, sources.facts, sources.plan, sources.records, sources.gpu_checks)
    reasons = [part.reason for part in parts if isinstance(part, Missing)]
    if not isinstance(sources.status, Missing) and sources.status.exit_code:
        reasons.append(f"The state of Slurm is unknown. {sources.status.trouble()}")
    return [reason for reason in reasons if reason]


STYLES = ("colours.css", "page.css", "charts.css")
SCRIPTS = ("page.js",)
"""Files of `templates/report/` that become the page's one style sheet and its one script, in this order."""


def page(sources: Sources) -> str:
    """The whole page as HTML."""
    style, script = joined(STYLES), joined(SCRIPTS)
    return fill(
        "page.html.j2",
        name=sources.inventory.cluster.name,
        policy=policy(style, script),
        # Both are files of this package, and neither holds its own end tag.
        style=Markup(style),
        script=Markup(script),
        head=head(sources),
        sections=[made for section in SECTIONS if (made := section(sources))],
        version=__version__,
    )
