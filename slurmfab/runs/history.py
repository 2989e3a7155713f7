"""`fab history`: the runs of a cluster, told from their records; no host is asked."""

from __future__ import annotations

import json
import posixpath
import socket
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from slurmfab import atomic_file, inventory
from slurmfab.agent.resource import CHANGED, Outcome
from slurmfab.agent.service import process_start
from slurmfab.errors import InputError
from slurmfab.hostlist import fold
from slurmfab.report import FAILURE, folded, step_as_json
from slurmfab.runs import record
from slurmfab.runs.record import Record

LAST = "last"
"""The word for the newest run."""

TOLD_AT_MOST = 8
"""How many runs a complaint names."""

COUNTED = {
    "directory": ("directory", "directories"),
    "group": ("group", "groups"),
    "packages": ("installation of packages", "installations of packages"),
    "packages-gone": ("removal of packages", "removals of packages"),
    "service": ("service", "services"),
    "ssh-key": ("SSH key", "SSH keys"),
    "user": ("user", "users"),
}
"""What is told by number, in singular and plural."""

DONE_TO = {
    "authorized-keys": "keys",
    "jobs-ended": "jobs cancelled",
    "node-drain": "drained",
    "node-gate": "kept drained for a trial",
    "node-reboot": "restarted",
    "node-resume": "resumed",
    "node-trial": "let in",
    "partition-drain": "partition closed",
    "person": "people",
    "person-gone": "people gone",
}
"""What is told by name: the word for what was done."""

SUBJECTS = ("qos ", "account ", "user ")
"""How the names of changes begin that tell of accounting."""


def show(cluster: str, word: str, json_file: str) -> int:
    """Tell of all runs, newest last, or of one in full.

    Args:
        cluster: the cluster file's path, empty for the default one; the file need not be there.
        word: a run's id, a beginning of one that no other has, or `last`; empty for all runs.
        json_file: file for the same as JSON, `-` for standard output, empty for none.

    Returns:
        The exit code.

    Raises:
        InputError: no run is called so, or several are.
    """
    path = Path(cluster) if cluster else inventory.default_path()
    records, complaints = record.load_all(path)
    for complaint in complaints:
        print(complaint, file=sys.stderr)  # noqa: T201
    chosen = find(records, word, path) if word else None
    if json_file:
        write_json(whole(chosen) if chosen else [summary(one) for one in records], json_file)
    if json_file != "-":
        print(text(chosen) if chosen else overview(records, path))  # noqa: T201
    return 0


def find(records: Sequence[Record], word: str, path: Path) -> Record:
    """The run that a word means.

    Args:
        records: oldest first.
        word: an id, the beginning of one that no other has, or `last`.
        path: the cluster file, for complaints.

    Raises:
        InputError: there is no such run, or more than one.
    """
    if not records:
        raise InputError(none_yet(path))
    if word == LAST:
        return records[-1]
    found = [one for one in records if one.run.startswith(word)]
    exact = [one for one in found if one.run == word]
    if len(exact or found) == 1:
        return (exact or found)[0]
    names = [one.run for one in found or records][-TOLD_AT_MOST:]
    what = f"{len(found)} runs begin like that:" if found else "no run begins like that; the newest are:"
    raise InputError("\n    ".join((f"{word}: {what}", *names)))


def none_yet(path: Path) -> str:
    """What to say while there is no record."""
    return (
        f"No run of this cluster has changed anything yet, as far as {record.directory(path)} knows. "
        "Each that does leaves its record there."
    )


def overview(records: Iterable[Record], path: Path) -> str:
    """All runs in two lines each: when and who on which hosts, and what came of it."""
    rows = [(one.run, at(one), one.by, fold(one.hosts), ended_words(one)) for one in records]
    if not rows:
        return none_yet(path)
    widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:-1]]
    lines = []
    for row, one in zip(rows, records, strict=True):
        cells = (f"{cell:<{width}}" for cell, width in zip(row, [*widths, 0], strict=True))
        lines += ["  ".join(cells).rstrip(), f"    {changed_words(one)}"]
    return "\n".join(lines)


def at(one: Record) -> str:
    """When a run began, in local time."""
    return f"{one.begun.astimezone():%Y-%m-%d %H:%M:%S}"


def ended_words(one: Record) -> str:
    """How a run ended: `done`, `failed on n2`, `done without n3`, `cut off`, or that it goes on."""
    if one.ended is None:
        return "at work" if is_at_work(one) else "cut off"
    unwell = fold({*one.lost, *(step.host for step in one.steps if step.has_failed)})
    if one.error or one.exit_code == FAILURE:
        return f"failed on {unwell}" if unwell else "failed"
    return f"done without {unwell}" if unwell else "done"


def is_at_work(one: Record) -> bool:
    """Whether the deployer of an unfinished run still works, as far as this machine can tell.

    A process of its number that is younger than the run is another one.
    """
    is_here = one.by.rpartition("@")[2] == socket.gethostname()
    start = process_start(one.pid) if is_here and one.pid else 0.0
    return bool(start) and start <= one.begun.timestamp() + 1


def changed_words(one: Record) -> str:
    """What a run has changed, in brief: `slurm.conf on ctl,n[1-3]; 4 services`."""
    done = [(step.host, outcome) for step in one.steps for outcome in step.with_status(CHANGED)]
    hosts_of: dict[str, list[str]] = {}
    counts: dict[str, int] = {}
    acts: dict[str, list[str]] = {}
    told: dict[str, None] = {}
    for host, outcome in done:
        kind, _, name = outcome.id.partition(":")
        if kind in DONE_TO:
            acts.setdefault(DONE_TO[kind], []).extend(name.split(","))
        elif files := files_of(outcome):
            for file in files:
                hosts_of.setdefault(file, []).append(host)
        elif kind in COUNTED:
            counts[kind] = counts.get(kind, 0) + 1
        else:
            told.update(accounts_of(outcome))
    files_on: dict[str, list[str]] = {}
    for file, hosts in hosts_of.items():
        files_on.setdefault(fold(hosts), []).append(file)
    words = [f"{', '.join(files)} on {hosts}" for hosts, files in files_on.items()]
    words += [f"{count} {COUNTED[kind][count != 1]}" for kind, count in counts.items()]
    words += [f"{word}: {fold(names)}" for word, names in acts.items()]
    words += [f"accounting: {', '.join(told)}"] if told else []
    if not words and one.ended is None:
        return "what it has changed is not known"
    return "; ".join(words) or ("small things" if done else "nothing changed")


def accounts_of(outcome: Outcome) -> dict[str, None]:
    """What slurmdbd was told of, each once: such as `qos high` and `user ann`; none for other kinds of outcomes."""
    if outcome.id.partition(":")[0] not in {"accounts", "accounts-rest"}:
        return {}
    subjects = (" ".join(change.name.split()[:2]) for change in outcome.changes)
    return dict.fromkeys(subject for subject in subjects if subject.startswith(SUBJECTS))


def files_of(outcome: Outcome) -> tuple[str, ...]:
    """The names of the files that a resource has changed."""
    kind, _, name = outcome.id.partition(":")
    if kind == "slurm-files":
        names = (change.name.removesuffix(" access") for change in outcome.changes if change.name != "leftovers")
        return tuple(dict.fromkeys(names))
    if kind in {"absent", "block", "file", "munge-key", "munge-key-switch", "restored", "slurmdbd-conf"}:
        return (posixpath.basename(name.partition("#")[0]),)
    return ()


def text(one: Record) -> str:
    """A run in full: who, when, why it ended as it did, and what changed where, folded over equal hosts."""
    until = f" to {one.ended.astimezone():%H:%M:%S}" if one.ended else ""
    lines = [f"{one.run}: {ended_words(one)}", f"{one.command} by {one.by}, {at(one)}{until}, on {fold(one.hosts)}"]
    lines += [f"It undoes {one.undoes} and what came after it."] if one.undoes else []
    lines += [f"It goes back to before {one.undoes}."] if one.undoes else []
    lines += [f"    {line}" for line in one.error.splitlines()]
    for phase, hosts, changes in folded(one.steps):
        lines += ["", f"{fold(hosts)}: {phase}", *(f"    {line}" for line in changes)]
    if one.lost:
        lines += ["", *(f"{host}: left out: {why}" for host, why in one.lost.items())]
    if one.ended is None:
        lines += [
            "",
            "It came to no end, so it may have changed more than is told here; fab plan shows how things are.",
        ]
    return "\n".join(lines)


def summary(one: Record) -> dict[str, Any]:
    """A run as JSON values, in brief."""
    return {
        "run": one.run,
        "command": one.command,
        "undoes": one.undoes,
        "by": one.by,
        "begun": one.begun.isoformat(),
        "ended": one.ended.isoformat() if one.ended else None,
        "hosts": list(one.hosts),
        "outcome": ended_words(one),
        "changed": changed_words(one),
        "lost": dict(one.lost),
        "error": one.error,
    }


def whole(one: Record) -> dict[str, Any]:
    """A run as JSON values, with all steps and what was deployed."""
    steps = [step_as_json(step) for step in one.steps]
    return {**summary(one), "steps": steps, "cluster_file": one.cluster_file, "lock": one.lock}


def write_json(values: Any, file: str) -> None:
    """Write JSON values to a file, or to standard output for `-`."""
    written = json.dumps(values, indent=2) + "\n"
    if file == "-":
        sys.stdout.write(written)
    else:
        atomic_file.write(Path(file), written)
