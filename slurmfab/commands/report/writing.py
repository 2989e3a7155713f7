"""The tasks `report` and `check-cluster --html`: gather, render, and write one file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from slurmfab.base import atomic_file
from slurmfab.base.errors import InputError
from slurmfab.base.exit_codes import DONE, LEFT_OUT
from slurmfab.base.hostlist import fold
from slurmfab.base.terminal import write
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.checks import runner
from slurmfab.commands.checks.kept import CheckRun
from slurmfab.commands.checks.opener import opener_of
from slurmfab.commands.report import gathering
from slurmfab.commands.report.page import page
from slurmfab.commands.report.section import Missing, Sources
from slurmfab.core.engine import session


def report(cluster: str, file: str, output: session.Output, *, with_checks: bool) -> int:
    """Write a page about a cluster; with checks run before, or the last ones.

    `file`: empty for the cluster's name here. Raises InputError if file or options are wrong, or it cannot be written.
    """
    known = loading.load_named(cluster)
    path = Path(file or f"{known.cluster.name}-report.html")
    atomic_file.require_writable(path, "--output")
    ask = output.asker()
    password = ask() if ask and output.ask_password else ""
    checks = run_checks(known, replace(output, ask_password=False), password) if with_checks else None
    sources = gathering.gather(known, output, password, checks)
    save(sources, path)
    write(summary(sources, path), output.stream)
    return exit_code(sources)


def run_checks(known: Inventory, output: session.Output, password: str) -> CheckRun:
    """Check the whole cluster, show the results, and keep them.

    `password`: the sudo password, if the user has been asked for it; empty if not. Raises InputError if the cluster has
    never been deployed.
    """
    run = runner.run_and_show(known, known.cluster.hosts, (), opener_of(output, password), output)
    runner.keep(known, run)
    return run


def page_of_checks(file: str) -> Callable[[Inventory, CheckRun], None]:
    """A function that writes a page about a run of `check-cluster`; InputError if the file cannot be written."""
    path = Path(file)
    atomic_file.require_writable(path, "--html")
    return lambda known, run: save(gathering.of_checks(known, run), path)


def save(sources: Sources, path: Path) -> None:
    """Render a page and write it in one step, for its owner alone. Raises InputError if it cannot be written."""
    atomic_file.write(path, page(sources), atomic_file.OWNER_ONLY)
    try:
        path.chmod(atomic_file.OWNER_ONLY)  # a page with the same content is not written again
    except OSError as error:
        raise InputError(f"{path}: its permissions cannot be set: {error.strerror}.") from error


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
