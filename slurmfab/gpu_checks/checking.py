"""`check-gpus`: a check of GPUs that is asked for now, made by the program on the controller that a timer runs else."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from slurmfab import atomic_file, inventory, operations
from slurmfab.checks.shell import SshShell
from slurmfab.errors import HostError, HostFailed, InputError
from slurmfab.hostlist import expand, fold
from slurmfab.inventory import Inventory
from slurmfab.nodes.draining import compute_nodes
from slurmfab.phases.gpu_checks import BESIDES_WAITING, PROGRAM, SETTINGS, settings
from slurmfab.programs.gpu_check import line_of
from slurmfab.programs.gpu_check_run import ALL_WELL, SOME_FALL_SHORT, SOME_NOT_MEASURED
from slurmfab.verify import opener_with

WAIT = 10
"""Minutes that jobs wait for busy nodes when somebody sits there and waits for them."""

VERSION = 1
"""Of the JSON's shape."""

RUN = f"exec runuser -u slurm -- /usr/bin/python3 -E -s -B {PROGRAM}/run.py {SETTINGS}"
"""As the slurm user: what a check does is the SlurmUser's to do, and needs no root."""

Entry = dict[str, Any]
Ask = Callable[[str, Callable[[str], None], float], int]


def check(cluster: str, hosts: str, wait: int | None, output: operations.Output, *, drains: bool) -> int:
    """Measure, and tell of each node as it comes.

    Args:
        cluster: the cluster file's path, empty for the default one.
        hosts: hostlist of compute nodes, empty for all that have GPUs.
        wait: minutes that jobs wait for busy nodes.
        output: what to tell.
        drains: whether nodes go out of service, and come back.

    Returns:
        The exit code.

    Raises:
        InputError: there is nothing to check, or it is not installed.
        HostError: the controller cannot be asked, or the check could not be made.
    """
    known = loaded(cluster)
    names = compute_nodes(known, hosts) if hosts else ()
    minutes = WAIT if wait is None else wait
    words = ["--now", "--json", f"--wait={minutes}", *(["--hosts=" + ",".join(names)] if names else [])]
    told = sys.stderr if output.json == "-" else sys.stdout
    checks = known.cluster.gpu_checks
    assert checks is not None, "loaded() refuses that"
    seconds = 60.0 * (minutes + 4 * checks.minutes + BESIDES_WAITING)
    with asker(known, output) as ask:
        which = fold(names) if names else "all nodes with GPUs"
        print(f"Measuring {which} by jobs of low priority; they wait up to {minutes} min.", file=told, flush=True)
        entries, code = conversation(
            known.cluster.controller, ask, [*words, *([] if drains else ["--no-drain"])], seconds,
            lambda entry: print(line_of(entry), file=told, flush=True),
        )  # fmt: skip
    print(summary(known.cluster.name, entries), file=told)
    write_json(known, entries, code, output)
    return code


def show_history(cluster: str, hosts: str, output: operations.Output) -> int:
    """Show what was measured before.

    Args:
        cluster: the cluster file's path, empty for the default one.
        hosts: hostlist of nodes, empty for all.
        output: what to tell.

    Returns:
        The exit code, 0.

    Raises:
        InputError, HostError: as `check` does.
    """
    known = loaded(cluster)
    names = set(expand(hosts)) if hosts else set()
    with asker(known, output) as ask:
        entries, _ = conversation(known.cluster.controller, ask, ["--history"], 60.0, lambda _: None)
    chosen = [entry for entry in entries if entry["nodes"] and (not names or names & set(entry["nodes"]))]
    told = sys.stderr if output.json == "-" else sys.stdout
    for entry in chosen:
        print(f"{entry['time'][:16].replace('T', ' ')}  {line_of(entry)}", file=told)
    if not chosen:
        print("Nothing has been measured yet: fab check-gpus.", file=told)
    write_json(known, chosen, 0, output)
    return 0


def loaded(cluster: str) -> Inventory:
    """The cluster, which has GPUs to check.

    Raises:
        InputError: it has not, or nothing is deployed.
    """
    known = inventory.load(Path(cluster) if cluster else inventory.default_path())
    if known.cluster.gpu_checks is None:
        raise InputError(
            f"{known.path} has no gpu_checks, so nobody knows what is wanted. Add the key, as in "
            "`gpu_checks: {min_busbw: {a100: 120}}`, then: fab deploy."
        )
    if not known.lock.ids:
        raise InputError(f"{known.path} has never been deployed, so there is nothing to check: fab deploy.")
    return known


@contextmanager
def asker(known: Inventory, output: operations.Output) -> Iterator[Ask]:
    """A way to run commands on the controller, where the check is installed as the cluster file says.

    Raises:
        HostError: the controller cannot be reached.
        InputError: the check is not installed there.
    """
    controller = known.cluster.controller
    ask = output.asker()
    opener = opener_with(ask, ask() if ask and output.ask_password else "")
    with opener(known, (controller,)) as shells:
        shell = shells[controller]
        if isinstance(shell, HostError):
            raise shell
        assert isinstance(shell, SshShell), "opener_with opens no others"
        there = shell.run(f"test -e {PROGRAM}/run.py && cat {SETTINGS}")
        checks = known.cluster.gpu_checks
        assert checks is not None, "loaded() refuses that"
        if there.code != 0 or there.output.decode(errors="replace") != settings(checks):
            raise InputError(f"{controller} does not check GPUs as {known.path} says. First: fab deploy.")
        yield shell.follow


def conversation(
    controller: str, ask: Ask, words: Sequence[str], seconds: float, heard: Callable[[Entry], None]
) -> tuple[list[Entry], int]:
    """What the program on the controller tells, and its exit code.

    Args:
        controller: its name, for messages.
        ask: runs a command there.
        words: of the command line.
        seconds: how long it may take.
        heard: called with each measurement as it comes.

    Raises:
        HostFailed: it could not be done.
    """
    entries: list[Entry] = []
    refused: list[str] = []
    noise: list[str] = []

    def hear(line: str) -> None:
        try:
            entry = json.loads(line)
        except ValueError:
            noise.append(line)
            return
        if "refused" in entry:
            refused.append(entry["refused"])
        elif entry.get("nodes") is not None:
            entries.append(entry)
            if entry["nodes"] and "--history" not in words:
                heard(entry)

    code = ask(" ".join([RUN, *map(shlex.quote, words), "2>&1"]), hear, seconds)
    has_ended = "--history" in words or any(entry.get("end") for entry in entries)
    if refused or not has_ended or code not in (ALL_WELL, SOME_FALL_SHORT, SOME_NOT_MEASURED):
        why = refused or noise[-1:] or [f"the program ended with exit code {code}"]
        raise HostFailed(controller, f"the GPUs were not checked: {why[0].rstrip('.')}.")
    return entries, code


def summary(name: str, entries: Sequence[Entry]) -> str:
    """The last line: how many there are of each outcome."""
    counts: dict[str, int] = next((dict(entry["counts"]) for entry in entries if entry.get("end")), {})
    said = ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)
    return f"{name}: {said or 'no node has GPUs'}."


def write_json(known: Inventory, entries: Sequence[Entry], code: int, output: operations.Output) -> None:
    """The measurements as JSON, where that was asked for."""
    measurements = [entry for entry in entries if entry["nodes"]]
    whole = {"version": VERSION, "cluster": known.cluster.name, "exit_code": code, "measurements": measurements}
    text = json.dumps(whole, indent=2) + "\n"
    if output.json == "-":
        sys.stdout.write(text)
    elif output.json:
        atomic_file.write(Path(output.json), text)
