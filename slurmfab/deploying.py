"""`fab deploy` and `fab plan`, from the words on the command line to the exit code.

Loading the modules that plan and change takes as long as hosts take to answer, so both are done at once: this module
imports at its top what the first question needs, and the rest once the hosts have been asked.
"""

# ruff: noqa: PLC0415 - imports inside of functions, for the reason above

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from slurmfab import asking, inventory
from slurmfab.consent import NOTHING, Consent, Wish
from slurmfab.contact import Contact
from slurmfab.errors import InputError, SlurmfabError
from slurmfab.inventory import Inventory
from slurmfab.operations import Output, perform, say_failures, start, write_json
from slurmfab.report import DONE, LEFT_OUT
from slurmfab.run import Run
from slurmfab.runs import retry

if TYPE_CHECKING:
    from slurmfab.report import Report

SOMETHING_TO_DO = 4
"""The exit code of a plan that is not empty, as for drift detection by scripts."""

QUICK_TURNS = 0.0005
"""Seconds after which a thread that computes lets another one go on, if one waits (sys.setswitchinterval).

By Python's own 0.005 every packet of every host would wait that long while the main thread loads modules.
"""


def deploy(cluster: str, wish: Wish, contact: Contact, output: Output) -> int:
    """Deploy from the cluster file, or write it first when hosts are met for the first time.

    Args:
        cluster: the cluster file's path, empty for the default one.
        wish: what of it, and on what terms.
        contact: how to reach hosts at first contact.
        output: what to tell.

    Returns:
        The exit code.
    """
    refuse_misspelled(wish)
    if wish.plan_file:
        from slurmfab.plans import planned

        planned_run = planned.run_of(cluster, wish, contact, output)
        return perform(planned_run, output, deploy_and_admit) if planned_run else DONE
    path = Path(cluster) if cluster else inventory.default_path()
    if wish.hosts and not path.exists():
        from slurmfab import first_contact

        known, meeting = first_contact.make(path, wish.hosts, contact, output)
        code = converge(known, "", output, meeting.password, accept_new=contact.accept_new, consent=wish.consent)
        if meeting.lost:
            names = ",".join(meeting.lost)
            print(f"Not in {path}, since they did not answer: {names}. Later: fab add-node {names}.", file=sys.stderr)  # noqa: T201
        return code or (LEFT_OUT if meeting.lost else DONE)
    known = inventory.load(path)
    if contact.said:
        raise InputError(f"{path} says how to reach the hosts; change its ssh section instead of giving options.")
    hosts = retry.chosen(known, output.progress().line) if wish.retry_failed else wish.hosts
    if hosts is None:
        return DONE
    run = start(known, hosts, output, accept_new=contact.accept_new, command="deploy", consent=wish.consent)
    return perform(run, output, deploy_and_admit)


def refuse_misspelled(wish: Wish) -> None:
    """Refuse what cannot be said together, and names of dangers that there are not.

    Raises:
        InputError: it was said.
    """
    if wish.retry_failed:
        retry.refuse_others(wish.hosts, wish.plan_file)
    if wish.consent.allowed:
        from slurmfab.promises.dangers import require_known

        require_known(wish.consent)


def converge(
    known: Inventory,
    hosts: str,
    output: Output,
    password: str = "",
    *,
    accept_new: bool = False,
    command: str = "deploy",
    consent: Consent = NOTHING,
) -> int:
    """Deploy what a cluster file says, tell how it went, and keep the record."""
    run = start(known, hosts, output, password, accept_new=accept_new, command=command, consent=consent)
    return perform(run, output, deploy_and_admit)


def deploy_and_admit(run: Run) -> None:
    """Deploy, and try the nodes that have joined and not been tried yet."""
    ask_and_load(run)
    from slurmfab import deploy as deployment
    from slurmfab.nodes import admission

    deployment.deploy(run)
    admission.admit(run)


def plan(cluster: str, wish: Wish, save: str, output: Output) -> int:
    """Show what a deployment would do; returns 4 when that is anything, and the report's exit code otherwise.

    Args:
        cluster: the cluster file's path, empty for the default one.
        wish: what of it, and on what terms.
        save: file for the plan, for `deploy --plan`; empty for none.
        output: what to tell.
    """
    from slurmfab.plans import saved_plan

    path = Path(cluster) if cluster else inventory.default_path()
    if save:
        saved_plan.refuse_other_file(Path(save))
    files = saved_plan.Files.of(path)
    known = inventory.load(path)
    run = start(known, wish.hosts, output, command="plan", consent=wish.consent)
    run.digest_key = saved_plan.new_key() if save else ""
    try:
        report = looked(run)
    except SlurmfabError:
        say_failures(run)
        raise
    finally:
        run.progress.end()
        run.transport.close()
    write_json(report, output)
    out = sys.stderr if output.json == "-" else sys.stdout
    from slurmfab.plans.text import plan_text

    print(plan_text(report, report.steps), file=out)
    if save:
        saved_plan.save(saved_plan.of_run(run, files), Path(save))
        print(f"Saved in {save}. To do just that: fab deploy --plan {save}", file=out)
    return report.exit_code or (SOMETHING_TO_DO if any(step.differs for step in report.steps) else 0)


def looked(run: Run) -> Report:
    """What a deployment would do."""
    ask_and_load(run)
    from slurmfab import deploy as deployment

    return deployment.look(run)


def ask_and_load(run: Run) -> None:
    """Ask the hosts for their facts and, while they look, get ready for the answers."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(QUICK_TURNS)
    try:
        asking.ask_ahead(run)
        from slurmfab import deploy  # noqa: F401 - all that plans, compares and changes
        from slurmfab.slurm import render

        render.load_templates()
    finally:
        sys.setswitchinterval(usual)
