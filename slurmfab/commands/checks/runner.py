"""Runs the checks of `slurmfab.commands.checks` and the site's own, over SSH connections of their own."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from slurmfab.base import atomic_file, own_modules
from slurmfab.base.errors import InputError, SlurmfabError
from slurmfab.base.junit import as_xml
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.checks import failover, kept, own
from slurmfab.commands.checks.display import Display
from slurmfab.commands.checks.hosts import Opener, opener_of
from slurmfab.commands.checks.kept import CheckRun
from slurmfab.commands.checks.resting import with_causes
from slurmfab.commands.checks.results import FAILED, Result, Verdict, as_case
from slurmfab.core.engine import missing_lock, retry, session

if TYPE_CHECKING:
    from slurmfab.commands.checks.plugin import Checks
    from slurmfab.core.status.snapshot import Node

CHECKS = Path(__file__).parent
ORDER = (
    "reachable",
    "release",
    "system",
    "daemons",
    "identity",
    "people",
    "storage",
    "munge",
    "clock",
    "ssh",
    "network",
    "configuration",
    "site",
    "nodes",
    "health",
    "power",
    "cgroups",
    "jobs",
    "database",
    "accounting",
    "limits",
    "directory",
    "logins",
    "gpus",
    "mps",
    "mail",
    "tools",
    "modules",
    "registry",
    "rest",
    "jupyter",
    "docker",
    "mpi",
    "podman",
    "containers",
    "backups",
    "monitoring",
    "performance",
    "afterwards",
)
"""The groups of checks in the order in which they run; each relies on those before it. Add new files here."""

WhenDone = Callable[[Inventory, CheckRun], None]  # gets the cluster and the results when the checks have run

OPTIONS = (
    *("-c", os.devnull, "--rootdir", str(CHECKS), "--import-mode=importlib"),
    *("--continue-on-collection-errors", "--capture=no", "--disable-plugin-autoload"),
    *("-p", "no:cacheprovider", "-p", "no:terminal"),
    *("-p", "no:unraisableexception", "-p", "no:threadexception"),  # they collect garbage, 50 ms and more each time
)
"""Options of pytest that keep a user's configuration and plugins away, and conftest files from above the checks."""

USERS_OPTIONS = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS")
"""Environment variables that pytest would take options and plugins from."""

COLLECTED = (0, 1, 5)
"""Exit codes of pytest that has collected what there is: all, all but broken files, and nothing (pytest.ExitCode)."""


def check(
    cluster: str,
    hosts: str,
    only: str,
    junit: str,
    output: session.Output,
    *,
    with_failover: bool = False,
    when_done: WhenDone = lambda _known, _run: None,
    writes_json: bool = True,
) -> int:
    """Check a cluster, print the results, keep those of the whole cluster, and return the exit code.

    `only`: groups or parts of checks' names, by commas. `with_failover`: only a takeover and back. `when_done`: gets
    the cluster and the results. `writes_json`: whether the results are what `--json` is for. Raises InputError if an
    option is wrong, or the cluster has never been deployed.
    """
    if with_failover and (hosts or only or junit):
        raise InputError("--failover is about the controllers alone: leave out --hosts, --only and --junit.")
    if junit:
        atomic_file.require_writable(Path(junit), "--junit")
    known = loading.load_named(cluster)
    names = session.select_hosts(known.cluster, hosts, known.path)
    groups = tuple(filter(None, only.split(",")))
    run = run_and_show(known, names, groups, opener_of(output), output, junit=junit, with_failover=with_failover)
    if not (hosts or groups or with_failover):
        keep(known, run)
    when_done(known, run)
    if writes_json:
        output.write_json(run.verdict)
    return run.verdict.exit_code


def run_and_show(
    known: Inventory,
    hosts: Sequence[str],
    only: Sequence[str],
    opener: Opener,
    output: session.Output,
    *,
    junit: str = "",
    with_failover: bool = False,
) -> CheckRun:
    """Run the checks and show their results; arguments and errors are those of `check`."""
    display = Display(output.stream, verbose=output.verbose)
    begun = datetime.now(timezone.utc)
    display.begin(known.cluster.controllers if with_failover else hosts)
    try:
        if with_failover:
            verdict = failover.verify(known, opener=opener, heard=display.check_done)
        else:
            file = Path(junit) if junit else None
            verdict = verify(
                known, hosts, only, opener=opener, heard=display.check_done, waits=display.show_status, junit=file
            )
    finally:
        display.end()
    display.show(verdict)
    return kept.this_run(verdict, begun)


def keep(known: Inventory, run: CheckRun) -> None:
    """Keep the results for `fab report`; where that is not possible, say so and go on."""
    try:
        kept.keep(known.path, run)
    except InputError as error:
        print(f"The results were not kept for {FAB} report: {error}", file=sys.stderr)  # noqa: T201


def verify(
    known: Inventory,
    hosts: Sequence[str],
    only: Sequence[str] = (),
    *,
    opener: Opener,
    heard: Callable[[tuple[Result, ...]], None] = lambda _: None,
    waits: Callable[[str], None] = lambda _: None,
    junit: Path | None = None,
) -> Verdict:
    """Run the checks on these hosts, and on the primary controller that they are compared with.

    They change nothing, but run small jobs. `heard`: gets the results of each check; `waits`: what is waited for, and
    on which hosts. Raises InputError as `check`.
    """
    from slurmfab.commands.checks.plugin import Checks  # pytest is slow to import

    missing_lock.require_deployed(known)
    begin = time.monotonic()
    asked = tuple(dict.fromkeys((known.cluster.controller, *hosts)))
    with opener(known, asked) as shells:
        checks = Checks(known, hosts, shells, only, heard, waits=waits)
        try:
            run_checks(known, checks)
        finally:
            if checks.slurm:
                with contextlib.suppress(SlurmfabError):
                    checks.slurm.cancel()
    results = after_failures(known.path, with_causes(checks.results.values(), known.cluster.controller))
    if junit:
        cases = map(as_case, checks.results, results)
        atomic_file.write(junit, as_xml("check-cluster", cases, time.monotonic() - begin), through_link=True)
    return Verdict(known.cluster.name, results, time.monotonic() - begin)


def after_failures(path: Path, results: Sequence[Result]) -> tuple[Result, ...]:
    """The results; a repair that is a deployment comes after what made the last one fail on the same host."""
    deploys = [one for one in results if one.outcome == FAILED and f"{FAB} deploy" in one.repair]
    failed = retry.last_failures(path, {one.host for one in deploys}) if deploys else {}
    return tuple(
        replace(
            one, repair=f"first what made the deployment of {there.when} fail there ({there.why}); then {one.repair}"
        )
        if one in deploys and (there := failed.get(one.host))
        else one
        for one in results
    )


def run_checks(known: Inventory, checks: Checks) -> None:
    """Collect the checks of this package and the site's own, and run those that the user selected.

    Raises InputError if a word of `only` matches no check. Raises SlurmfabError if pytest could not collect the checks.
    Raises KeyboardInterrupt if the user pressed Ctrl-C.
    """
    for name in USERS_OPTIONS:
        os.environ.pop(name, None)
    conftest = own.directory(known.path) / own.CONFTEST
    # One check imports what it likes, so all are left out beside a file that others can change.
    unsafe = [path for path in own.loaded(known.path) if not is_used(path, known, checks)]
    own_files = [path for path in own.files(known.path) if not unsafe and is_used(path, known, checks)]
    if own_files:
        own_modules.judge(own.directory(known.path), own.trusted(known.path))
    with (
        contextlib.redirect_stderr(io.StringIO()) as output,
        contextlib.redirect_stdout(output),
        own_modules.compiled_anew() if own_files else contextlib.nullcontext(),
    ):
        # The messages of ours say what was compared; pytest says it for assertions of the site.
        collect(checks, CHECKS, [CHECKS], "plain", output)
        in_order = sorted(checks.together, key=lambda check: ORDER.index(check.partition(".")[0]))
        checks.together = {check: checks.together[check] for check in in_order}
        if own_files:
            try:
                collect(checks, own_files[0].parent, own_files, "rewrite", output)
            except SlurmfabError:
                errors = [
                    line[1:].split("E  ")[-1].strip() for line in output.getvalue().splitlines() if line[:1] == "E"
                ]
                if not (errors and conftest.exists()):
                    raise
                checks.file_fails(conftest, f"it cannot be loaded: {errors[-1]}")
        unknown = checks.unknown_words()
        if unknown:
            groups = ", ".join((*ORDER, *map(own.group_of, own_files)))
            raise InputError(f"--only {','.join(unknown)}: no check is called that. Groups of checks: {groups}.")
        last = {name: checks.together.pop(name) for name in [*checks.together] if checks.by_pytest and is_last(name)}
        checks.run_all()
        if checks.by_pytest:
            run_by_pytest(known, checks, own_files, output)
            checks.together = last
            checks.run_all()


def is_last(check: str) -> bool:
    """Whether a check comes after the site's own."""
    return check.partition(".")[0] == ORDER[-1]


def run_by_pytest(known: Inventory, checks: Checks, files: Sequence[Path], output: io.StringIO) -> None:
    """Have pytest run the site's own checks, with their fixtures, conftest.py and marks."""
    from slurmfab.commands.checks.plugin import OwnRun
    from slurmfab.core.status import selection

    def nodes() -> tuple[Node, ...]:
        raise InputError("on(...): a check names hosts by their roles; states change while it runs.")

    run = OwnRun(checks, lambda words: selection.chosen(known, words, nodes=nodes, option="on"))
    call_pytest([run], files[0].parent, files, "rewrite", output)


def is_used(path: Path, known: Inventory, checks: Checks) -> bool:
    """Whether a file of the site's own is safe to run; if not, that is the result of a check."""
    why = own.why_unsafe(path, known.path)
    if why:
        checks.file_fails(path, why)
    return not why


def collect(checks: Checks, top: Path, files: Sequence[Path], assertions: str, output: io.StringIO) -> None:
    """Have pytest collect checks, without the user's configuration, conftest files and plugins.

    `top`: the directory of the files; pytest would list all above it. `assertions`: `plain`, or `rewrite` for failed
    ones to tell what they compared. Raises SlurmfabError if it could not.
    """
    kept_out = ("--noconftest",) if top == CHECKS else ()
    call_pytest([checks], top, files, assertions, output, "--collect-only", *kept_out)


def call_pytest(
    plugins: Sequence[object], top: Path, files: Sequence[Path], assertions: str, output: io.StringIO, *more: str
) -> None:
    """Call pytest, see `collect`; `more`: further options."""
    import pytest  # slow to import

    options = (*OPTIONS, *more, "--confcutdir", str(top), f"--assert={assertions}")
    code = pytest.main([*options, *map(str, files)], plugins=[*plugins])
    if code == pytest.ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    if code not in COLLECTED:
        raise SlurmfabError(f"pytest did not collect the checks (exit code {int(code)}): {output.getvalue()[-500:]}")
