"""`fab upgrade --plan`: what an upgrade would do, printed and as JSON."""

from __future__ import annotations

import shlex

from slurmfab.base.errors import SlurmfabError
from slurmfab.base.terminal import columns, write
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.slurm_packages import SlurmPackages
from slurmfab.commands.upgrade import asking, last_files, making, target, text
from slurmfab.commands.upgrade.plan import UpgradePlan
from slurmfab.core.engine import session
from slurmfab.core.engine.run import Run, RunOptions
from slurmfab.core.engine.session import Output
from slurmfab.core.engine.summary import command_for


def plan(cluster: str, to: str, suite: str, output: Output) -> int:
    """Show what an upgrade would do, changing nothing; 4 if there is something, 1 if refused, 3 without some hosts.

    `to`, `suite`: empty for the cluster file's. Raises InputError for a wrong version, or none; SlurmfabError if the
    controller or the database's host does not answer.
    """
    known = loading.load_named(cluster)
    wanted = target.target_of(known.cluster, to, suite)
    run = session.start(known, "", output, RunOptions("upgrade"))
    try:
        found = made(run, wanted, to, suite)
    except SlurmfabError:
        session.print_failures(run)
        raise
    finally:
        run.progress.end()
        run.transport.close()
    show(found, output)
    if not found.is_done and not found.refusals:
        write(f"\nNext: {command(known, to, suite)}", output.stream)
    return found.exit_code


def made(
    run: Run,
    wanted: SlurmPackages,
    to: str,
    suite: str,
    *,
    at_once: str = "10%",
    drain: bool = False,
    is_whole: bool = True,
) -> UpgradePlan:
    """The plan of an upgrade to the key `wanted`, from what hosts say; with `is_whole` the last step is compared.

    Raises SlurmfabError if the controller or the database's host does not answer.
    """
    asked = asking.ask(run, wanted, target.asked_version(wanted, to, suite), suite)
    plan = making.make(asked, at_once, drain=drain)
    is_none = plan.is_done and run.inventory.lock.upgrade is None
    if not is_whole or plan.refusals or is_none:
        return plan
    return last_files.with_files(run, plan, asked.facts, final_key(plan, wanted))


def final_key(plan: UpgradePlan, wanted: SlurmPackages) -> SlurmPackages:
    """The key `slurm` as the upgrade leaves it: of a suite the series that it has."""
    version = f"{plan.target.series}.*" if not wanted.version or plan.target.suite else wanted.version
    return wanted.model_copy(update={"version": version})


def show(found: UpgradePlan, output: Output) -> None:
    """Print a plan, and write it as JSON where that was asked for."""
    output.write_json(found)
    write(text.text(found, columns(output.stream)), output.stream)


def command(known: Inventory, to: str, suite: str) -> str:
    """The command that carries the upgrade out."""
    words = ["upgrade", *(["--to", shlex.quote(to)] if to else []), *(["--suite", shlex.quote(suite)] if suite else [])]
    return command_for(" ".join(words), known.path)
