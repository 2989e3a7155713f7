"""Gathers what a page shows: from hosts, from Slurm, and from the files beside the cluster file.

Whatever does not answer becomes a reason on the page, and never the end of the report.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from getpass import getuser
from typing import Any

from slurmfab.base.errors import Asleep, InputError, SlurmfabError
from slurmfab.base.program_name import FAB
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.checks import kept
from slurmfab.commands.checks.kept import CheckRun
from slurmfab.commands.nodes.status import ask_controllers
from slurmfab.commands.report.section import NOT_ASKED, Missing, Sources
from slurmfab.commands.usage import asking
from slurmfab.commands.usage.figures import Usage
from slurmfab.core.engine import drift, record, requests, session
from slurmfab.core.engine.planning import exclude_unfit_hosts, exclude_without_packages
from slurmfab.core.engine.report import Report
from slurmfab.core.engine.run import Run, RunOptions
from slurmfab.core.engine.session import Output
from slurmfab.core.status import limits_in_use
from slurmfab.core.status.limits_in_use import LimitedUse

NEVER_CHECKED = Missing(f"The whole cluster has not been checked yet: {FAB} check-cluster, or {FAB} report --check.")


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


def gather(known: Inventory, output: Output, password: str = "", checks: CheckRun | None = None) -> Sources:
    """Ask the hosts and Slurm for everything that a page shows; nothing is changed.

    `checks`: the run to show; the last kept one by default. Raises InputError if no host can be reached so.
    """
    with_files = replace(empty(known), records=record.load_all(known.path)[0], checks=checks or last_checks(known))
    shared = replace(output, ask_password=False) if password else output
    run = session.start(known, "", shared, RunOptions("report"), password=password)
    try:
        with_hosts = replace(ask_hosts(run, with_files), gpu_checks=gpu_checks(known, shared, password))
    finally:
        run.progress.end()
        run.transport.close()
    return with_hosts


def ask_hosts(run: Run, sources: Sources) -> Sources:
    """Add Slurm's state, the facts of the hosts, and what differs from the plan.

    `run`: excludes hosts that do not answer. `sources`: what is known without the hosts. Raises InputError if the ssh
    section cannot work for any host.
    """
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
