"""Asking a cluster whether it works: the checks of `slurmfab.checks`, run by pytest over connections of their own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from slurmfab import atomic_file, failover, inventory, operations
from slurmfab.checks.display import Display
from slurmfab.checks.hosts import Shells, open_shells
from slurmfab.checks.results import Result, Verdict
from slurmfab.errors import InputError, SlurmfabError
from slurmfab.inventory import Inventory
from slurmfab.ssh.host_keys import PinnedKey

if TYPE_CHECKING:
    from slurmfab.checks.plugin import Checks

CHECKS = Path(__file__).parent / "checks"
ORDER = (
    "reachable",
    "daemons",
    "identity",
    "people",
    "munge",
    "clock",
    "ssh",
    "configuration",
    "nodes",
    "health",
    "cgroups",
    "jobs",
    "database",
    "accounting",
    "limits",
    "gpus",
    "mail",
    "backups",
    "performance",
)
"""The groups of checks, each resting on those before it; a new file goes in here, and the order stays visible."""

Opener = Callable[[Inventory, Sequence[str]], AbstractContextManager[Shells]]
INTERRUPTED = 2


def check(
    cluster: str, hosts: str, only: str, junit: str, output: operations.Output, *, with_failover: bool = False
) -> int:
    """Check a cluster and tell what was found.

    Args:
        cluster: the cluster file's path, empty for the default one.
        hosts: hostlist, empty for all hosts.
        only: groups of checks or parts of checks' names, with commas; empty for all checks.
        junit: file for the results as JUnit XML, empty for none.
        output: what else to tell.
        with_failover: whether to try a takeover by the backup controller and back, and nothing else.

    Returns:
        The exit code.
    """
    if with_failover and (hosts or only or junit):
        raise InputError("--failover is about the controllers alone: leave out --hosts, --only and --junit.")
    known = inventory.load(Path(cluster) if cluster else inventory.default_path())
    names = operations.chosen(known.cluster, hosts, known.path)
    display = Display(sys.stderr if output.json == "-" else sys.stdout, verbose=output.verbose)
    ask = output.asker()
    opener = opener_with(ask, ask() if ask and output.ask_password else "")
    groups, report = tuple(filter(None, only.split(","))), Path(junit) if junit else None
    try:
        if with_failover:
            verdict = failover.verify(known, opener=opener, heard=display.heard)
        else:
            verdict = verify(known, names, groups, opener=opener, heard=display.heard, junit=report)
    finally:
        display.end()
    display.show(verdict)
    write_json(verdict, output)
    return verdict.exit_code


def opener_with(ask: Callable[[], str] | None, password: str) -> Opener:
    """What opens the shells of hosts by SSH.

    Args:
        ask: asks for the sudo password; `None` where nobody can be asked.
        password: the sudo password, where it is known already.
    """

    def opener(inventory: Inventory, hosts: Sequence[str]) -> AbstractContextManager[Shells]:
        policies = {host: PinnedKey(host, operations.pinned(inventory, host)) for host in inventory.cluster.hosts}
        return open_shells(inventory, hosts, policies, ask, password)

    return opener


def write_json(verdict: Verdict, output: operations.Output) -> None:
    """The verdict as JSON, where that was asked for."""
    text = json.dumps(verdict.as_json(), indent=2) + "\n"
    if output.json == "-":
        sys.stdout.write(text)
    elif output.json:
        atomic_file.write(Path(output.json), text)


def verify(
    known: Inventory,
    hosts: Sequence[str],
    only: Sequence[str] = (),
    *,
    opener: Opener,
    heard: Callable[[tuple[Result, ...]], None] = lambda _: None,
    junit: Path | None = None,
) -> Verdict:
    """What the checks find on these hosts; changes nothing but that it runs small jobs.

    Args:
        known: the cluster.
        hosts: those to look at; the primary controller is asked as their partner, whether it is among them or not.
        only: groups of checks or parts of checks' names; empty for all.
        opener: opens the shells of hosts.
        heard: told the results of each check as it ends.
        junit: file for the results as JUnit XML.

    Raises:
        InputError: a word of `only` chooses nothing, or the cluster has never been deployed.
    """
    from slurmfab.checks.plugin import Checks  # noqa: PLC0415 - pytest is slow to import

    if not known.lock.ids:
        raise InputError(f"{known.path} has never been deployed, so there is nothing to check: fab deploy.")
    begin = time.monotonic()
    asked = tuple(dict.fromkeys((known.cluster.controller, *hosts)))
    with opener(known, asked) as shells:
        checks = Checks(known, hosts, shells, only, heard)
        try:
            run_pytest(checks, junit)
        finally:
            if checks.slurm:
                with contextlib.suppress(SlurmfabError):
                    checks.slurm.cancel()
    return Verdict(known.cluster.name, tuple(checks.results.values()), time.monotonic() - begin)


def run_pytest(checks: Checks, junit: Path | None) -> None:
    """Run pytest on the checks that ship here, with nothing of the user's: no configuration, no conftest, no plugins.

    Raises:
        InputError: no check is called what was asked for.
        SlurmfabError: pytest could not run them.
        KeyboardInterrupt: the user has had enough.
    """
    import pytest  # noqa: PLC0415 - slow to import

    files = [str(CHECKS / f"test_{group}.py") for group in ORDER]
    options = [
        "-c",
        os.devnull,
        "--rootdir",
        str(CHECKS),
        "--noconftest",
        "--import-mode=importlib",
        "--assert=plain",
        "--capture=no",
        "--disable-plugin-autoload",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:terminal",
        *(["--junitxml", str(junit)] if junit else []),
    ]
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        code = pytest.main([*options, *files], plugins=[checks])
    unknown = checks.unknown_words()
    if unknown:
        raise InputError(f"--only {','.join(unknown)}: no check is called that. Groups of checks: {', '.join(ORDER)}.")
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    if not checks.results:
        raise SlurmfabError(f"pytest did not run the checks (exit code {int(code)}): {said.getvalue().strip()[-500:]}")
