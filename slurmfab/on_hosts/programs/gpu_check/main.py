"""Checks of GPUs and of the network between them, run on the controller by the slurm user, by a timer or on request.

    run.py SETTINGS                     started by the timer: lines for people
    run.py SETTINGS --now --json ...    started by the deployer: JSON lines; ends, with its jobs, when its input ends
    run.py SETTINGS --history           earlier results, as JSON lines

Exit codes: 0 all nodes passed, 1 some fall short, 3 none falls short but some could not be measured, 4 the check
failed.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import threading
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from slurmfab.on_hosts.agent.core.failure_reasons import reason
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.programs.gpu_check import history
from slurmfab.on_hosts.programs.gpu_check.check import Check

LOCK = "lock"
FAILED = 4
INTERRUPTED = 130
PAIR_SIZE = 2


def main(settings: str, *arguments: str) -> int:
    """Run the check, or print earlier results.

    `settings`: path of a JSON file: `program` and `arguments` of all_reduce_perf, its `environment`; `min_busbw` and
    `between_nodes` (GB/s, one number or by type; the second may be null), `mpi`; `partition` and `qos` (or null);
    `drain`; `wait` and `minutes`; `keep` (runs of the history) and its `directory`. `arguments`: `--now`, `--json`,
    `--history`, `--no-drain`, `--hosts=NAME,NAME`, `--wait=MINUTES`.
    """
    os.umask(0o022)
    options: Dict[str, str] = dict(word.partition("=")[::2] for word in arguments)
    try:
        with open(settings, encoding="utf-8") as file:
            wanted = json.load(file)
        if "--history" in options:
            for entry in history.entries(wanted["directory"]):
                print_json(entry)
            return 0
        if options.get("--wait"):
            wanted["wait"] = float(options["--wait"])
        return run_locked(wanted, options)
    except (ResourceFailed, OSError) as error:
        report_failure(reason(error), options)
        return FAILED


def run_locked(settings: Mapping[str, Any], options: Mapping[str, str]) -> int:
    """Run the check, unless another one is running."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(os.path.join(settings["directory"], LOCK), flags, 0o600), "a+", encoding="ascii") as lock:
        os.fchmod(lock.fileno(), 0o600)  # whoever can open it can lock it, also one that was made earlier
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            report_failure("another check is running (process %s)" % (lock.read().strip() or "unknown"), options)
            return FAILED
        lock.truncate(0)
        lock.write("%d\n" % os.getpid())
        lock.flush()
        stop = stop_event(watches_input="--now" in options)
        drains = bool(settings["drain"]) and "--no-drain" not in options
        report = print_json if "--json" in options else print_line
        hosts: List[str] = [name for name in options.get("--hosts", "").split(",") if name]
        code = Check(Context(), settings, stop, drains, report).run(hosts)
        return INTERRUPTED if stop.is_set() else code


def stop_event(*, watches_input: bool) -> threading.Event:
    """An event of signals or, on request, of the input's end, which is the deployer's connection's."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())

    def watch() -> None:
        while os.read(0, 4096):
            pass
        stop.set()

    if watches_input:
        threading.Thread(target=watch, daemon=True).start()
    return stop


def report_failure(why: str, options: Mapping[str, str]) -> None:
    """Print why the check did not run."""
    if "--json" in options:
        print_json({"refused": why})
    else:
        print("The GPUs were not checked: %s" % why, file=sys.stderr)  # noqa: T201


def print_json(entry: Mapping[str, Any]) -> None:
    """Print an entry as JSON; the reader may be gone."""
    try:
        print(json.dumps(entry, sort_keys=True), flush=True)  # noqa: T201
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def print_line(entry: Mapping[str, Any]) -> None:
    """Print an entry as a line for the journal."""
    if "progress" in entry:
        print(format_progress(entry["progress"], ",".join), flush=True)  # noqa: T201
    elif entry.get("end"):
        counts = ", ".join("%d %s" % (count, word) for word, count in entry["counts"].items() if count)
        print("Checked: %s" % (counts or "no node has GPUs"), flush=True)  # noqa: T201
    else:
        print(format_entry(entry), flush=True)  # noqa: T201


def format_progress(progress: Mapping[str, Any], fold: Callable[[Sequence[str]], str]) -> str:
    """`measuring: n1; waiting: n2 (Resources)`, of nodes measured, and lists waiting by Slurm's reason."""
    waits = ", ".join("%s (%s)" % (fold(nodes), why) for why, nodes in sorted(progress["waiting"].items()))
    parts = [
        "measuring: " + fold(progress["measuring"]) if progress["measuring"] else "",
        waits and "waiting: " + waits,
    ]
    return "; ".join(filter(None, parts))


def format_entry(entry: Mapping[str, Any]) -> str:
    """One entry as a line: nodes, GPUs, bandwidth, threshold, and what was done."""
    wanted: Optional[float] = entry.get("wanted")
    figure = ""
    if "busbw" in entry:
        figure = "%.1f GB/s" % entry["busbw"] if entry["busbw"] else "no bus between GPUs"
    if entry.get("busbw") and wanted is not None:
        figure += " (wanted %.1f)" % wanted
    finding = entry.get("why") or figure
    names = "-".join(entry["nodes"]) if len(entry["nodes"]) == PAIR_SIZE else ",".join(entry["nodes"])
    place = "%s [%s]" % (names, entry["gpus"]) if entry.get("gpus") else names
    done = [entry["outcome"], finding, entry.get("action"), entry.get("remark")]
    return "%s: %s" % (place, "; ".join(filter(None, done)))
