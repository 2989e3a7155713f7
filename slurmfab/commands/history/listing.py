"""`fab history`: the recorded runs of a cluster; no host is contacted."""

from __future__ import annotations

import posixpath
import socket
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from slurmfab.base.errors import InputError
from slurmfab.base.exit_codes import FAILURE
from slurmfab.base.folding import fold_lines
from slurmfab.base.grouping import grouped
from slurmfab.base.hostlist import fold
from slurmfab.base.json_output import Key, shows
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import table, write
from slurmfab.cluster.inventory import loading
from slurmfab.core.engine import record
from slurmfab.core.engine.record import Record
from slurmfab.core.engine.report import UNKNOWN, fold_steps
from slurmfab.core.engine.session import Output
from slurmfab.on_hosts.agent.core.resource import CHANGED, Outcome
from slurmfab.on_hosts.agent.services.process import process_start

LAST = "last"  # what a user types for the newest run
MOST_RUNS_NAMED = 8  # how many runs an error message names

COUNTED_KINDS = {
    "directory": ("directory", "directories"),
    "earlier-directory": ("directory", "directories"),
    "group": ("group", "groups"),
    "packages": ("installation of packages", "installations of packages"),
    "packages-former": ("removal of packages", "removals of packages"),
    "packages-gone": ("removal of packages", "removals of packages"),
    "service": ("service", "services"),
    "ssh-key": ("SSH key", "SSH keys"),
    "user": ("user", "users"),
}
"""Kinds of resources of which only the number is shown, in singular and plural."""

NAMED_KINDS = {
    "authorized-keys": "keys",
    "drill": "drills",
    "jobs-ended": "jobs cancelled",
    "node-drain": "drained",
    "node-gate": "drained until tested",
    "node-reboot": "restarted",
    "node-resume": "resumed",
    "node-trial": "tested",
    "partition-drain": "partition closed",
    "person": "people",
    "person-gone": "people removed",
}
"""Kinds of resources whose names are shown, with the word for what was done to them."""

ACCOUNTING_SUBJECTS = ("qos ", "account ", "user ")
"""How the names of changes begin that show an entry of the accounting database."""


SUMMARY = (
    Key("run", "record.run", text="its id"), Key("command", "record.command"), Key("only", "record.only"),
    Key("undoes", "record.undoes"), Key("by", "record.by"), "begun", "ended", Key("hosts", "record.hosts"), "outcome",
    "changed", Key("lost", "record.lost"), Key("error", "record.error"),
)  # fmt: skip


@shows(*SUMMARY)
@dataclass(frozen=True)
class Listed:
    """A run, without its steps."""

    record: Record

    @property
    def begun(self) -> str:
        """When."""
        return self.record.begun.isoformat()

    @property
    def ended(self) -> str | None:
        """When; null if it is unfinished."""
        return self.record.ended.isoformat() if self.record.ended else None

    @property
    def outcome(self) -> str:
        """Its result, for people."""
        return result_text(self.record)

    @property
    def changed(self) -> str:
        """What it changed, for people."""
        return changes_text(self.record)


@dataclass(frozen=True)
class History:
    """All runs."""

    version: int  # of this format: 1
    runs: tuple[Listed, ...]  # oldest first


@shows("version", *SUMMARY, *(Key(name, f"record.{name}") for name in ("steps", "cluster_file", "lock")))
@dataclass(frozen=True)
class RecordedRun(Listed):
    """A run in full: `fab history --run RUN`."""

    version: ClassVar[int] = 1  # of this format: 1


def show(cluster: str, word: str, json_file: str) -> int:
    """Print all runs, newest last, or one in full, by id, unique prefix or `last`; also as JSON into a file.

    The cluster file need not be there. Raises InputError if no run, or several, have that id.
    """
    path = loading.named_path(cluster)
    records, complaints = record.load_all(path)
    for complaint in complaints:
        write(complaint, sys.stderr)
    chosen = find(records, word, path) if word else None
    Output(json=json_file).write_json(RecordedRun(chosen) if chosen else History(1, tuple(map(Listed, records))))
    if json_file != "-":
        write(text(chosen) if chosen else overview(records, path), sys.stdout)
    return 0


def find(records: Sequence[Record], word: str, path: Path) -> Record:
    """The run by id, unique prefix or `last`; InputError if none, or more than one, is meant."""
    if not records:
        raise InputError(no_runs_text(path))
    if word == LAST:
        return records[-1]
    found = [one for one in records if one.run.startswith(word)]
    exact = [one for one in found if one.run == word]
    if len(exact or found) == 1:
        return (exact or found)[0]
    names = [one.run for one in found or records][-MOST_RUNS_NAMED:]
    what = f"{len(found)} runs begin with that:" if found else "no run begins with that; the newest are:"
    raise InputError("\n    ".join((f"{word}: {what}", *names)))


def no_runs_text(path: Path) -> str:
    """What to say if there is no record."""
    return f"No runs recorded in {record.directory(path)}. Each run that changes something leaves its record there."


def overview(records: Iterable[Record], path: Path) -> str:
    """All runs, two lines each: when, by whom, on which hosts and with which result; and what was changed."""
    rows = [(one.run, at(one), one.by, fold(one.hosts), result_text(one)) for one in records]
    if not rows:
        return no_runs_text(path)
    changes = (f"   {chosen(one)}{':' if one.only else ''} {changes_text(one)}" for one in records)
    return "\n".join(line for pair in zip(table(rows, width=0), changes, strict=True) for line in pair)


def chosen(one: Record) -> str:
    """The option by which a run was about some phases, after a space; empty where it was about all."""
    return f" --only {','.join(one.only)}" if one.only else ""


def at(one: Record) -> str:
    """When a run began, in local time."""
    return f"{one.begun.astimezone():%Y-%m-%d %H:%M:%S}"


def result_text(one: Record) -> str:
    """The result of a run: `done`, `failed on n2`, `done without n3`, `interrupted` or `running`."""
    if one.ended is None:
        return "running" if is_running(one) else "interrupted"
    failed = fold({*one.lost, *(step.host for step in one.steps if step.has_failed)})
    if one.error or one.exit_code == FAILURE:
        return f"failed on {failed}" if failed else "failed"
    return f"done without {failed}" if failed else "done"


def is_running(one: Record) -> bool:
    """Whether the process of an unfinished run still runs here; one of that number that began later does not count."""
    is_here = one.by.rpartition("@")[2] == socket.gethostname()
    start = process_start(one.pid) if is_here and one.pid else 0.0
    return bool(start) and start <= one.begun.timestamp() + 1


def changes_text(one: Record) -> str:
    """What a run changed, in brief: `slurm.conf on ctl,n[1-3]; 4 services`."""
    done = [(step.host, outcome) for step in one.steps for outcome in step.with_status(CHANGED)]
    hosts_of: dict[str, list[str]] = {}
    counted: dict[str, tuple[dict[str, None], dict[str, None]]] = {}  # by kind, the names and the hosts
    acts: dict[str, list[str]] = {}
    entries: dict[str, None] = {}
    for host, outcome in done:
        kind, _, name = outcome.id.partition(":")
        if kind in NAMED_KINDS:
            acts.setdefault(NAMED_KINDS[kind], []).extend(name.split(","))
        elif files := files_of(outcome):
            for file in files:
                hosts_of.setdefault(file, []).append(host)
        elif kind in COUNTED_KINDS:
            names, hosts = counted.setdefault(kind, ({}, {}))
            names[name], hosts[host] = None, None
        else:
            entries.update(accounts_of(outcome))
    files_on = grouped((frozenset(hosts), file) for file, hosts in hosts_of.items())
    parts = [f"{', '.join(files)} on {fold(hosts)}" for hosts, files in files_on.items()]
    parts += [
        f"{len(names)} {COUNTED_KINDS[kind][len(names) != 1]} on {fold(hosts)}"
        for kind, (names, hosts) in counted.items()
    ]
    parts += [f"{word}: {fold(names)}" for word, names in acts.items()]
    parts += [f"accounting: {', '.join(entries)}"] if entries else []
    cut_off = dict.fromkeys(step.host for step in one.steps if step.with_status(UNKNOWN))
    parts += [f"perhaps more on {fold(cut_off)}"] if cut_off else []
    if not parts and one.ended is None:
        return "its changes are not known"
    return "; ".join(parts) or ("other changes" if done else "nothing changed")


def accounts_of(outcome: Outcome) -> dict[str, None]:
    """The entries of the accounting database that were changed, such as `qos high`; none for other kinds."""
    if outcome.id.partition(":")[0] not in {"accounts", "accounts-rest"}:
        return {}
    subjects = (" ".join(change.name.split()[:2]) for change in outcome.changes)
    return dict.fromkeys(subject for subject in subjects if subject.startswith(ACCOUNTING_SUBJECTS))


def files_of(outcome: Outcome) -> tuple[str, ...]:
    """The names of the files that a resource has changed."""
    kind, _, name = outcome.id.partition(":")
    if kind in {"slurm-files", "shared-files"}:
        names = (
            change.name.removesuffix(" access").removesuffix(" content")
            for change in outcome.changes
            if change.name != "leftovers"
        )
        return tuple(dict.fromkeys(names))
    if kind in {"absent", "block", "file", "munge-key", "munge-key-switch", "restored", "slurmdbd-conf"}:
        return (posixpath.basename(name.partition("#")[0]),)
    return ()


def text(one: Record) -> str:
    """A run in full: by whom, when, why it failed, and its changes, folded over hosts."""
    until = f" to {one.ended.astimezone():%H:%M:%S}" if one.ended else ""
    lines = [
        f"{one.run}: {result_text(one)}",
        f"{one.command}{chosen(one)} by {one.by}, {at(one)}{until}, on {fold(one.hosts)}",
    ]
    lines += [f"It undoes {one.undoes} and all later runs."] if one.undoes else []
    lines += [f"    {line}" for line in one.error.splitlines()]
    for phase, hosts, changes in fold_steps(one.steps):
        lines += ["", f"{fold(hosts)}: {phase}", *(f"    {line}" for line in changes)]
    if one.lost:
        lines += ["", *fold_lines((host, f"skipped: {why}") for host, why in one.lost.items())]
    if one.ended is None:
        lines += ["", f"It did not end, so it may have changed more than this; {FAB} plan shows the present state."]
    return "\n".join(lines)
