"""The tasks `report` and `check-cluster --html`: gather, render, and write one file."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from getpass import getuser
from pathlib import Path
from typing import Any, NamedTuple

from slurmfab import __version__
from slurmfab.base import atomic_file
from slurmfab.base.errors import Asleep, InputError, SlurmfabError
from slurmfab.base.exit_codes import DONE, LEFT_OUT
from slurmfab.base.hostlist import fold
from slurmfab.base.markup import Markup, fill, joined, policy
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import write
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.checks import kept, runner
from slurmfab.commands.checks.hosts import opener_of
from slurmfab.commands.checks.kept import CheckRun
from slurmfab.commands.checks.results import FAILED, NOT_RUN, PASSED
from slurmfab.commands.nodes.status import ask_controllers
from slurmfab.commands.report.section import NOT_ASKED, Missing, Sources, Tone
from slurmfab.commands.report.sections import SECTIONS
from slurmfab.commands.usage import asking
from slurmfab.commands.usage.asking import Usage
from slurmfab.core.engine import drift, record, requests, session
from slurmfab.core.engine.planning import exclude_unfit_hosts, exclude_without_packages
from slurmfab.core.engine.report import Report
from slurmfab.core.engine.run import Run, RunOptions
from slurmfab.core.engine.session import Output
from slurmfab.core.status import cluster_state, limits_in_use
from slurmfab.core.status.cluster_state import Status
from slurmfab.core.status.limits_in_use import LimitedUse

NEVER_CHECKED = Missing(f"The whole cluster has not been checked yet: {FAB} check-cluster, or {FAB} report --check.")

STYLES = ("colours.css", "page.css", "charts.css")
SCRIPTS = ("page.js",)
"""Files of `templates/report/` that become the page's one style sheet and its one script, in this order."""


def empty(known: Inventory) -> Sources:
    """The sources of a page about the cluster file and its lock alone."""
    return Sources(known, datetime.now().astimezone(), f"{getuser()}@{socket.gethostname()}")


def of_checks(known: Inventory, checks: CheckRun) -> Sources:
    """The sources of a page about one run of the checks, for which no host is asked again."""
    silent = {
        result.host: result.cause
        for result in checks.verdict.results
        if result.is_unreachable and result.check == "host_is_reachable"
    }
    return replace(empty(known), checks=checks, silent=silent)


def gather_sources(known: Inventory, output: Output, password: str = "", checks: CheckRun | None = None) -> Sources:
    """Ask the hosts and Slurm for everything that a page shows; nothing is changed.

    `checks`: the run to show; the last kept one by default. Raises InputError if no host can be reached so.
    """
    with_files = replace(empty(known), records=record.load_all(known.path)[0], checks=checks or last_checks(known))
    shared = replace(output, ask_password=False) if password else output
    run = session.start(known, "", shared, RunOptions("report"), password=password)
    with session.ending(run, tells=False):
        return replace(ask_hosts(run, with_files), gpu_checks=gpu_checks(known, shared, password))


def ask_hosts(run: Run, sources: Sources) -> Sources:
    """Add Slurm's state, facts and differences, excluding silent hosts; InputError if SSH works for none."""
    hosts = requests.hosts_to_ask(run)
    run.progress.begin("asking", hosts)
    found = requests.collect_facts(run, requests.begin_asking(run, hosts))
    requests.exclude_all(run, found.without_python)
    requests.without_sleepers(run, found.facts, found.silent, may_wake=False)
    facts = {host: found.facts[host] for host in hosts if host in found.facts}
    status = ask_controllers(run.inventory.cluster, run.transport)
    asleep = {host: error.reason for host, error in run.failed_hosts.items() if isinstance(error, Asleep)}
    silent = {host: error.reason for host, error in run.failed_hosts.items() if host not in asleep}
    limits, usage = ask_limits(run), ask_usage(run)
    plan = compare(run, facts)
    return replace(
        sources, status=status, facts=facts, silent=silent, asleep=asleep, limits=limits, usage=usage, plan=plan
    )


def ask_limits(run: Run) -> tuple[LimitedUse, ...] | Missing:
    """The limits of accounts and their use; `NOT_ASKED` where the cluster has no accounting."""
    if run.inventory.cluster.database is None:
        return NOT_ASKED
    try:
        found = limits_in_use.ask(run.transport, run.inventory.cluster.controller)
    except SlurmfabError as error:
        return Missing(f"The limits of accounts could not be read. {error}")
    return found or Missing("slurmctld does not tell the limits of accounts.")


def ask_usage(run: Run) -> Usage | Missing:
    """What jobs used lately; `NOT_ASKED` where the cluster has no accounting."""
    if run.inventory.cluster.database is None:
        return NOT_ASKED
    try:
        return asking.ask(run.inventory.cluster, run.transport) or NOT_ASKED
    except SlurmfabError as error:
        return Missing(f"What jobs used could not be read. {error}")


def compare(run: Run, facts: Mapping[str, HostFacts]) -> Report | Missing:
    """What a deployment would do, as `fab plan` has it."""
    from slurmfab.core.engine import converge  # slow to import: all that plans
    from slurmfab.core.plan.plan import make_plan

    try:
        run.require_controller()
        plan_input = exclude_unfit_hosts(run, facts)
        exclude_without_packages(run, plan_input)
        steps = converge.compare_hosts(run, make_plan(plan_input, run.remaining(run.hosts)))
        run.record_steps(*drift.with_drift(plan_input, steps))
    except SlurmfabError as error:
        return Missing(f"The hosts could not be compared with the cluster file. {error}")
    report = run.report()
    return replace(report, finds_work=any(step.differs for step in report.steps))


def last_checks(known: Inventory) -> CheckRun | Missing:
    """The last checks of the whole cluster that were kept."""
    try:
        return kept.last(known.path) or NEVER_CHECKED
    except InputError as error:
        return Missing(f"The results of the last checks cannot be read: {error}")


def gpu_checks(known: Inventory, output: Output, password: str) -> tuple[Mapping[str, Any], ...] | Missing:
    """The history of GPU checks on the controller; `NOT_ASKED` where the cluster file has none."""
    if known.cluster.gpu_checks is None:
        return NOT_ASKED
    from slurmfab.commands.gpu_checks import checking  # few clusters have them

    try:
        return tuple(checking.earlier(known, output, password))
    except SlurmfabError as error:
        return Missing(f"The history of GPU checks could not be read. {error}")


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


def report(cluster: str, file: str, output: session.Output, *, with_checks: bool) -> int:
    """Write a page about a cluster; with checks run before, or the last ones.

    `file`: empty for the cluster's name here. Raises InputError if file or options are wrong, or it cannot be written.
    """
    known = loading.load_named(cluster)
    path = Path(file or f"{known.cluster.name}-report.html")
    if not file:
        atomic_file.refuse_link(path)
    atomic_file.require_writable(path, "--output")
    ask = output.asker()
    password = ask() if ask and output.ask_password else ""
    checks = run_checks(known, replace(output, ask_password=False), password) if with_checks else None
    sources = gather_sources(known, output, password, checks)
    save(sources, path)
    write(summary(sources, path), output.stream)
    return exit_code(sources)


def run_checks(known: Inventory, output: session.Output, password: str) -> CheckRun:
    """Check the whole cluster, show and keep the results; InputError if it has never been deployed."""
    run = runner.run_and_show(known, known.cluster.hosts, (), opener_of(output, password), output)
    runner.keep(known, run)
    return run


def page_of_checks(file: str) -> Callable[[Inventory, CheckRun], None]:
    """A function that writes a page about a run of `check-cluster`; InputError if the file cannot be written."""
    path = Path(file)
    atomic_file.require_writable(path, "--html")
    return lambda known, run: save(of_checks(known, run), path)


def save(sources: Sources, path: Path) -> None:
    """Render a page and write it in one step, for its owner alone. Raises InputError if it cannot be written."""
    atomic_file.write(path, page(sources), atomic_file.OWNER_ONLY, through_link=True)


def exit_code(sources: Sources) -> int:
    """0 if everything answered, 3 if hosts or Slurm did not; nodes that are drained are no failure of the command."""
    status = sources.status
    is_known = not isinstance(status, Missing) and status.exit_code == 0
    return DONE if is_known and not sources.silent else LEFT_OUT


def summary(sources: Sources, path: Path) -> str:
    """What to say at the end: where the page is, and what is not on it."""
    size = path.stat().st_size / 1000
    lines = [f"Written: {path} ({size:.0f} kB, readable by you alone)."]
    if sources.silent:
        lines.append(f"Without answers of {fold(sources.silent)}, which the page names.")
    if not isinstance(sources.status, Missing) and sources.status.exit_code:
        lines.append(f"Without the state of Slurm: {sources.status.trouble()}")
    return "\n".join(lines)
