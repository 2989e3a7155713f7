"""The end of a run as people see it: what failed, how much was changed, and the next step."""

from __future__ import annotations

import shlex
from pathlib import Path

from slurmfab.base.exit_codes import DONE
from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory import loading
from slurmfab.core.engine import retry
from slurmfab.core.engine.report import NOT_DEPLOYING, UNKNOWN, USER_JOBS, Report, failures
from slurmfab.core.impact.approvals import DeployOptions
from slurmfab.on_hosts.agent.core.resource import CHANGED, WOULD_CHANGE

WITH_NEW_NODES = ("add-node", "replace-node")
"""Commands after which the cluster file or its lock names nodes that nobody has checked yet."""

WRITING = (*WITH_NEW_NODES, "remove-node")  # commands that change the nodes in the cluster file or its lock


def summary(report: Report) -> str:
    """What is wrong, what became of the jobs, and how much was changed on how many hosts."""
    lines = [*failures(report.steps, report.failed_hosts), *(report.jobs.lines if report.jobs else ())]
    changed = report.changes
    # A host that leaves the cluster is changed, and is none of the run's.
    count = len({*report.hosts, *(step.host for step in report.steps if step.with_status(CHANGED))})
    hosts = f"{count} host{'s' if count != 1 else ''}"
    changes = f"{changed} change{'s' if changed != 1 else ''}" if changed else "nothing changed"
    result = f"{changes} on {hosts}"
    failed = {*report.failed_hosts, *report.not_met, *(step.host for step in report.steps if step.has_failed)}
    if failed:
        result += f"; not done: {fold(failed)}"
        cut_off = dict.fromkeys(step.host for step in report.steps if step.with_status(UNKNOWN))
        result += f"; perhaps changed: {fold(cut_off)}" if cut_off else ""
    elif report.exit_code != DONE:
        jobs = report.jobs.unknown if report.jobs and report.jobs.after is None else "jobs were lost"
        result = f"FAILED: {jobs} (see above); {result}"
    elif report.only:
        result += f", {', '.join(report.only)} as wanted, {'other phases are not' if report.others else 'and all else'}"
    elif report.other_hardware:
        result += f", done; hardware of {fold(report.other_hardware)} differs from the lock"
    else:
        result += ", all is as wanted"
    if report.others:
        from slurmfab.core.engine.plan_text import left_out  # not before hosts are asked

        lines += left_out(report)
    return "\n".join([*lines, f"{report.cluster}: {result} ({report.seconds:.1f} s)."])


def next_step(report: Report, path: Path) -> str:
    """What to do after a run, in a line; empty where nothing is left to do."""
    failed = {step.phase for step in report.steps if step.has_failed}
    if failed == {USER_JOBS} and not report.failed_hosts:
        return f"Next: fix the cause, then: {command_for('check-cluster --only jobs', path)}"
    if report.failed_hosts or failed:
        if report.failed_hosts and not report.only and report.command not in (*NOT_DEPLOYING, "rollback"):
            return f"Next: fix the cause, then continue with these hosts: {command_for('deploy --retry-failed', path)}"
        return "Next: fix the cause, then run the same command again; it continues where it stopped."
    if report.exit_code != DONE or report.command not in WRITING:
        return ""
    return after_new_nodes(path) if report.command in WITH_NEW_NODES else f"Next: {commit(path)}."


def after_new_nodes(path: Path) -> str:
    """What to do after a deployment to new hosts."""
    return f"Next: {command_for('check-cluster', path)}; then {commit(path)}."


def after_plan(report: Report, options: DeployOptions, path: Path) -> str:
    """The command that makes a plan's changes, with its options; empty without any, and where it would be refused.

    What made the plan fail, such as a state that slurmctld cannot read, would end the deployment, too.
    """
    if any(step.fatal for step in report.steps):
        return "Next: fix the cause, then plan again."
    if not report.count(WOULD_CHANGE) or report.forecast.disruptions:
        return ""
    if first := retry.after_failures(path, report):
        return first
    arguments = ["deploy", *(["--hosts", shlex.quote(options.hosts)] if options.hosts else [])]
    arguments += ["--only", ",".join(report.only)] if report.only else []
    arguments += ["--move-ids"] if options.approvals.move_ids else []
    arguments += ["--prune"] if options.approvals.prune else []
    return f"Next: {command_for(' '.join(arguments), path)}"


def commit(path: Path) -> str:
    """The advice to keep the cluster file and its lock under version control."""
    return f"commit {path} and {loading.lock_path(path)}"


def command_for(command: str, path: Path) -> str:
    """A command of this program, as the user would type it for this cluster file."""
    return f"{FAB} {command}" + ("" if path == loading.default_path() else f" --cluster {shlex.quote(str(path))}")
