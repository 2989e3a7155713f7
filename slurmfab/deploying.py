"""`fab deploy` and `fab plan`, from the words on the command line to the exit code."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from slurmfab import deploy as deployment
from slurmfab import first_contact, inventory
from slurmfab.consent import NOTHING, Consent
from slurmfab.errors import InputError, SlurmfabError
from slurmfab.first_contact import Contact
from slurmfab.inventory import Inventory
from slurmfab.nodes import admission
from slurmfab.operations import Output, perform, say_failures, start, write_json
from slurmfab.progress import plan_text
from slurmfab.report import DONE, LEFT_OUT
from slurmfab.run import Run

SOMETHING_TO_DO = 4
"""The exit code of a plan that is not empty, as for drift detection by scripts."""


@dataclass(frozen=True)
class Wish:
    """What of a cluster is to be deployed, and on what terms.

    Args:
        hosts: hostlist, empty for all hosts of the cluster file.
        plan_file: a saved plan, which alone is to be done; empty for whatever differs.
        retry_failed: only the hosts that the last run had to leave out.
        consent: what was agreed to beforehand.
    """

    hosts: str = ""
    plan_file: str = ""
    retry_failed: bool = False
    consent: Consent = NOTHING


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
    path = Path(cluster) if cluster else inventory.default_path()
    if wish.hosts and not path.exists():
        known, meeting = first_contact.make(path, wish.hosts, contact, output)
        code = converge(known, "", output, meeting.password, accept_new=contact.accept_new)
        if meeting.lost:
            names = ",".join(meeting.lost)
            print(f"Not in {path}, since they did not answer: {names}. Later: fab add-node {names}.", file=sys.stderr)  # noqa: T201
        return code or (LEFT_OUT if meeting.lost else DONE)
    known = inventory.load(path)
    if contact.said:
        raise InputError(f"{path} says how to reach the hosts; change its ssh section instead of giving options.")
    run = start(known, wish.hosts, output, accept_new=contact.accept_new, command="deploy", consent=wish.consent)
    return perform(run, output, deploy_and_admit)


def converge(
    known: Inventory,
    hosts: str,
    output: Output,
    password: str = "",
    *,
    accept_new: bool = False,
    command: str = "deploy",
) -> int:
    """Deploy what a cluster file says, tell how it went, and keep the record."""
    run = start(known, hosts, output, password, accept_new=accept_new, command=command)
    return perform(run, output, deploy_and_admit)


def deploy_and_admit(run: Run) -> None:
    """Deploy, and try the nodes that have joined and not been tried yet."""
    deployment.deploy(run)
    admission.admit(run)


def plan(cluster: str, wish: Wish, save: str, output: Output) -> int:  # noqa: ARG001
    """Show what a deployment would do; returns 4 when that is anything, and the report's exit code otherwise.

    Args:
        cluster: the cluster file's path, empty for the default one.
        wish: what of it, and on what terms.
        save: file for the plan, for `deploy --plan`; empty for none.
        output: what to tell.
    """
    known = inventory.load(Path(cluster) if cluster else inventory.default_path())
    run = start(known, wish.hosts, output, command="plan", consent=wish.consent)
    try:
        report = deployment.look(run)
    except SlurmfabError:
        say_failures(run)
        raise
    finally:
        run.progress.end()
        run.transport.close()
    write_json(report, output)
    print(plan_text(report, report.steps), file=sys.stderr if output.json == "-" else sys.stdout)
    return report.exit_code or (SOMETHING_TO_DO if any(step.differs for step in report.steps) else 0)
