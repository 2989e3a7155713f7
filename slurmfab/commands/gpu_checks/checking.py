"""The task `check-gpus`: runs the GPU check program on the controller now, instead of at the timer's next date."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

from slurmfab.base.errors import HostFailed, InputError
from slurmfab.base.hostlist import expand, fold
from slurmfab.base.paths import GPU_CHECK_PROGRAM, GPU_CHECK_SETTINGS
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.checks.hosts import opened, opener_of
from slurmfab.commands.nodes.drain import compute_nodes
from slurmfab.core.engine import missing_lock, session
from slurmfab.core.plan.phases.gpu_checks import BESIDES_WAITING, own_partition, settings
from slurmfab.on_hosts.agent.core import json_objects
from slurmfab.on_hosts.programs.gpu_check import history
from slurmfab.on_hosts.programs.gpu_check.check import ALL_PASSED, SOME_FALL_SHORT, SOME_NOT_MEASURED
from slurmfab.on_hosts.programs.gpu_check.main import format_entry, format_progress

WAIT = 10  # default minutes that the jobs of an interactive check wait for busy nodes

RUN = f"exec runuser -u slurm -- /usr/bin/python3 -E -S -s -B {GPU_CHECK_PROGRAM}/run.py {GPU_CHECK_SETTINGS}"
"""Command that runs the GPU check program as user slurm: SlurmUser's rights suffice for a check."""

Entry = dict[str, Any]
Ask = Callable[[str, Callable[[str], None], float], int]


class FiguresJson(TypedDict, total=False):
    """What was measured; left out where nothing was."""

    busbw: float  # the bandwidth that is judged, in GB/s
    average: float  # the average over all sizes of messages, in GB/s
    size: int  # bytes of the largest message
    wrong: int  # how many values were wrong
    checked: bool  # whether values were checked
    first_busbw: float  # of the first of two measurements, in GB/s


class MoreJson(FiguresJson, total=False):
    """What is left out where no job ran."""

    wanted: float | None  # the threshold in GB/s; null for none
    seconds: float  # from the job's submission to its end


class MeasurementJson(MoreJson):
    """A measurement of a node, or between two nodes."""

    run: str  # tells the runs of the check from each other
    time: str  # of the result, in UTC
    nodes: list[str]  # one node, or two for the network between them
    gpus: str  # the node's GPUs, as `a100 x4`
    outcome: str  # `passed`, `falls short` or `not measured`
    why: str  # the cause, if not passed
    action: str  # `drained`, `stays drained` or `back in service`; empty for none
    remark: str  # why nothing was done; may be empty


@dataclass(frozen=True)
class GpuChecks:
    """The results of `fab check-gpus`, or with `--history` earlier ones."""

    version: int  # of this format: 1
    cluster: str  # the cluster's name
    exit_code: int  # of the task
    measurements: list[Annotated[dict[str, Any], MeasurementJson]]  # the measurements


def check(cluster: str, hosts: str, wait: int | None, output: session.Output, *, drains: bool) -> int:
    """Check GPUs of hosts (empty: all) now, waiting minutes for busy nodes (`None`: 10), and print results."""
    known = loaded(cluster)
    names = compute_nodes(known, hosts) if hosts else ()
    minutes = WAIT if wait is None else wait
    arguments = ["--now", "--json", f"--wait={minutes}", *(["--hosts=" + ",".join(names)] if names else [])]
    stream = output.stream
    checks = known.cluster.gpu_checks
    assert checks is not None, "loaded() refuses that"
    seconds = 60.0 * (minutes + 4 * checks.minutes + BESIDES_WAITING)
    with asker(known, output) as ask:
        which = fold(names) if names else "all nodes with GPUs"
        print(f"Measuring {which} by jobs of low priority; they wait up to {minutes} min.", file=stream, flush=True)
        entries, code = conversation(
            known.cluster.controller, ask, [*arguments, *([] if drains else ["--no-drain"])], seconds,
            lambda entry: print(format_heard(entry), file=stream, flush=True),
        )  # fmt: skip
    print(summary(known.cluster.name, entries), file=stream)
    write_json(known, entries, code, output)
    return code


def show_history(cluster: str, hosts: str, output: session.Output) -> int:
    """Print the results of earlier GPU checks. `hosts`: hostlist of nodes; empty for all."""
    known = loaded(cluster)
    names = set(expand(hosts)) if hosts else set()
    chosen = [entry for entry in earlier(known, output) if not names or names & set(entry["nodes"])]
    stream = output.stream
    for entry in chosen:
        print(f"{entry.get('time', '')[:16].replace('T', ' ')}  {format_entry(entry)}", file=stream)
    if not chosen:
        print(f"Nothing has been measured yet: {FAB} check-gpus.", file=stream)
    write_json(known, chosen, 0, output)
    return 0


def earlier(known: Inventory, output: session.Output, password: str = "") -> list[Entry]:
    """The measurements of earlier GPU checks, oldest first.

    Raises InputError if the check is not installed, HostError if the controller or the program fails.
    """
    with asker(known, output, password) as ask:
        entries, _ = conversation(known.cluster.controller, ask, ["--history"], 60.0, lambda _: None)
    return [entry for entry in entries if entry["nodes"]]


def loaded(cluster: str) -> Inventory:
    """Load the cluster; InputError if its file is invalid or lacks `gpu_checks`, or it was never deployed."""
    known = loading.load_named(cluster)
    if known.cluster.gpu_checks is None:
        raise InputError(
            f"{known.path} has no gpu_checks, so nobody knows what is wanted. Add the key, as in "
            f"`gpu_checks: {{min_busbw: {{a100: 120}}}}`, then: {FAB} deploy."
        )
    missing_lock.require_deployed(known)
    return known


@contextmanager
def asker(known: Inventory, output: session.Output, password: str = "") -> Iterator[Ask]:
    """A context with a function that runs a command on the controller, as `SshShell.follow` does.

    Raises HostError if it cannot be reached; InputError if the check is not installed there, or with other settings
    than the cluster file's.
    """
    controller = known.cluster.controller
    with opened(opener_of(output, password), known, controller) as host:
        there = host.run(f"test -e {GPU_CHECK_PROGRAM}/run.py && cat {GPU_CHECK_SETTINGS}")
        checks = known.cluster.own_gpu_checks
        assert checks is not None, "loaded() refuses that"
        if there.rc or there.stdout != settings(checks, own_partition(known.cluster, known.lock)):
            raise InputError(f"{controller} does not check GPUs as {known.path} says. First: {FAB} deploy.")
        yield host.backend.shell.follow


def conversation(
    controller: str, ask: Ask, arguments: Sequence[str], seconds: float, heard: Callable[[Entry], None]
) -> tuple[list[Entry], int]:
    """Run the GPU check program on the controller; returns the entries that it printed, and its exit code.

    `ask`: runs a command on the controller (see `asker`). `heard`: called with each measurement when it arrives, and
    with what the others wait for. Raises HostFailed if the program refused, failed or did not finish.
    """
    entries: list[Entry] = []
    refused: list[str] = []
    noise: list[str] = []

    def hear(line: str) -> None:
        found = json_objects.parse(line.encode())
        entry = history.parse(line.encode())
        if found is None:
            noise.append(line)
        elif "refused" in found:
            refused.append(str(found["refused"]))
        elif entry is not None and "progress" in entry:
            heard(entry)
        elif entry is not None and "nodes" in entry:
            entries.append(entry)
            if entry["nodes"] and "--history" not in arguments:
                heard(entry)

    code = ask(" ".join([RUN, *map(shlex.quote, arguments), "2>&1"]), hear, seconds)
    has_ended = "--history" in arguments or any(entry.get("end") for entry in entries)
    if refused or not has_ended or code not in (ALL_PASSED, SOME_FALL_SHORT, SOME_NOT_MEASURED):
        why = refused or noise[-1:] or [f"the program ended with exit code {code}"]
        raise HostFailed(controller, f"the GPUs were not checked: {why[0].rstrip('.')}.")
    return entries, code


def format_heard(entry: Entry) -> str:
    """A measurement, or what becomes of the others, as a line."""
    return format_progress(entry["progress"], fold) if "progress" in entry else format_entry(entry)


def summary(name: str, entries: Sequence[Entry]) -> str:
    """The last line of output: how many nodes have each outcome."""
    counts: dict[str, int] = next((dict(entry.get("counts", {})) for entry in entries if entry.get("end")), {})
    counted = ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)
    return f"{name}: {counted or 'no node has GPUs'}."


def write_json(known: Inventory, entries: Sequence[Entry], code: int, output: session.Output) -> None:
    """Write the measurements as JSON, if the user asked for it.

    Args:
        entries: entries of the history; those without nodes are left out.
        output: the output options; `json` is the file, `-` for standard output.
    """
    measurements = [entry for entry in entries if entry["nodes"]]
    output.write_json(GpuChecks(1, known.cluster.name, code, measurements))
