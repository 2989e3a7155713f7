"""Checks of GPUs and of the network between them, made on the controller by the slurm user, by a timer or when asked.

    run.py SETTINGS                     by the timer: lines for people
    run.py SETTINGS --now --json ...    for the deployer: JSON lines; ends, with its jobs, when its input does
    run.py SETTINGS --history           what was measured before, as JSON lines

Exit codes: 0 all nodes are as wanted, 1 some fall short, 3 none does but some could not be measured, 4 it could not be
done at all.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import threading
from typing import Any, Dict, List, Mapping, Optional

from slurmfab.agent.reasons import reason
from slurmfab.agent.resource import Context, ResourceFailed
from slurmfab.programs import gpu_check_history as history
from slurmfab.programs.gpu_check_run import Check

LOCK = "lock"
FAILED = 4
INTERRUPTED = 130
A_PAIR = 2


def main(settings: str, *words: str) -> int:
    """Check, or show what was measured before.

    Args:
        settings: a JSON file: `program` and `arguments` of all_reduce_perf, its `environment`; `min_busbw` and
            `between_nodes` (GB/s, one number or by type; the second may be null), `mpi`; `partition` and `qos` (or
            null); `drain`; `wait` and `minutes`; `keep` (runs of the history) and its `directory`.
        words: `--now`, `--json`, `--history`, `--no-drain`, `--hosts=NAME,NAME`, `--wait=MINUTES`.

    Returns:
        The exit code.
    """
    os.umask(0o022)
    options: Dict[str, str] = dict(word.partition("=")[::2] for word in words)
    try:
        with open(settings, encoding="utf-8") as file:
            wanted = json.load(file)
        if "--history" in options:
            for entry in history.entries(wanted["directory"]):
                tell_json(entry)
            return 0
        if options.get("--wait"):
            wanted["wait"] = float(options["--wait"])
        return locked(wanted, options)
    except (ResourceFailed, OSError) as error:
        refuse(reason(error), options)
        return FAILED


def locked(settings: Mapping[str, Any], options: Mapping[str, str]) -> int:
    """Check, unless another check is at work."""
    with open(os.path.join(settings["directory"], LOCK), "a+", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            refuse("another check is at work (process %s)" % (lock.read().strip() or "unknown"), options)
            return FAILED
        lock.truncate(0)
        lock.write("%d\n" % os.getpid())
        lock.flush()
        stop = stopper(watches_input="--now" in options)
        drains = bool(settings["drain"]) and "--no-drain" not in options
        heard = tell_json if "--json" in options else tell
        hosts: List[str] = [name for name in options.get("--hosts", "").split(",") if name]
        code = Check(Context(), settings, stop, drains, heard).run(hosts)
        return INTERRUPTED if stop.is_set() else code


def stopper(*, watches_input: bool) -> threading.Event:
    """What is set when systemd or whoever has asked wants it to end.

    Args:
        watches_input: whether it ends with its input, that is with the connection of whoever has asked.
    """
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


def refuse(why: str, options: Mapping[str, str]) -> None:
    """Tell why nothing was measured."""
    if "--json" in options:
        tell_json({"refused": why})
    else:
        print("The GPUs were not checked: %s" % why, file=sys.stderr)  # noqa: T201


def tell_json(entry: Mapping[str, Any]) -> None:
    """Print an entry for a program; whoever has asked may be gone."""
    try:
        print(json.dumps(entry, sort_keys=True), flush=True)  # noqa: T201
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def tell(entry: Mapping[str, Any]) -> None:
    """Print an entry for people, who read it in the journal."""
    if entry.get("end"):
        counts = ", ".join("%d %s" % (count, word) for word, count in entry["counts"].items() if count)
        print("Checked: %s" % (counts or "no node has GPUs"), flush=True)  # noqa: T201
    else:
        print(line_of(entry), flush=True)  # noqa: T201


def line_of(entry: Mapping[str, Any]) -> str:
    """One entry as a line: nodes, GPUs, figure, threshold, and what was done."""
    wanted: Optional[float] = entry.get("wanted")
    figure = ""
    if "busbw" in entry:
        figure = "%.1f GB/s" % entry["busbw"] if entry["busbw"] else "no bus between GPUs"
    if entry.get("busbw") and wanted is not None:
        figure += " (wanted %.1f)" % wanted
    told = entry["why"] or figure
    names = "-".join(entry["nodes"]) if len(entry["nodes"]) == A_PAIR else ",".join(entry["nodes"])
    place = "%s [%s]" % (names, entry["gpus"]) if entry["gpus"] else names
    done = [entry["outcome"], told, entry["action"], entry["remark"]]
    return "%s: %s" % (place, "; ".join(filter(None, done)))
