"""What a shell offers at TAB: Invoke's tasks and options for argcomplete, and the values that our tasks take."""

from __future__ import annotations

import importlib
import os
import re
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from argcomplete.completers import DirectoriesCompleter, FilesCompleter
from invoke.collection import Collection
from invoke.parser.context import ParserContext, to_flag
from invoke.util import helpline

from slurmfab.base import bounded_file
from slurmfab.base.errors import SlurmfabError
from slurmfab.cli.tasks import SHELLS, TASKS
from slurmfab.cluster.inventory import raw_names
from slurmfab.cluster.inventory.file_named import file_named

FILE, DIRECTORY, RUNS, NEW_HOSTS, LABS, TEXT = "file", "directory", "runs", "new hosts", "labs", "text"
CLUSTER_ON_LINE = re.compile(r"--cluster[ =](\S+)")
SSH_HOST = re.compile(r"(?im)^\s*Host\s*[ =]\s*(.+)$")  # ssh_config's lines with names of hosts
MOST_BYTES = 4 << 20

KINDS = {
    **dict.fromkeys(("hosts", "host", "from_", "power_cut", "target", "on", "exclude"), raw_names.HOSTS),
    **dict.fromkeys(("like", "node"), raw_names.NODES),
    **dict.fromkeys(("controller", "gateway", "login"), NEW_HOSTS),
    **dict.fromkeys(("cluster", "csv", "database", "file", "html", "identity", "json", "junit", "key", "output", "plan",
                     "save", "signed_by", "to", "back"), FILE),
    "account": raw_names.ACCOUNTS, "partition": raw_names.PARTITIONS, "run": RUNS, "logs": DIRECTORY,
}  # fmt: skip
"""What a parameter takes in every task that has it, if `IN_TASK` has nothing else; others are texts."""

IN_TASK = {
    **dict.fromkeys(((task, "hosts") for task in ("accept", "check-gpus", "drain", "quickcheck", "reboot", "resume")),
                    raw_names.NODES),
    ("accept-hardware", "hosts"): raw_names.NODES,
    ("remove-node", "hosts"): raw_names.NODES,
    **dict.fromkeys((("add-node", "hosts"), ("import", "hosts")), NEW_HOSTS),
    **dict.fromkeys(((task, "user") for task in ("accept", "quickcheck", "status")), raw_names.USERS),
    **dict.fromkeys(((task, "name") for task in ("lab-down", "lab-off", "lab-on")), LABS),
    **dict.fromkeys(((task, "hosts") for task in ("lab-off", "lab-on")), TEXT),
    ("accept", "only"): raw_names.ACCEPTANCE_JOBS, ("replace-node", "host"): raw_names.NODES,
    ("remove-user", "name"): raw_names.USERS, ("upgrade", "to"): TEXT,
    ("monitoring-files", "output"): DIRECTORY, ("user-guide", "output"): DIRECTORY,
}  # fmt: skip
"""What a parameter takes in one task."""


CHOICES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", "adopt"): ("least", "usual"),
    ("", "become"): ("sudo", "none"),
    ("", "allow"): ("slurmfab.core.impact.disruptive_changes:KNOWN",),
    **dict.fromkeys((("deploy", "only"), ("plan", "only")), ("slurmfab.core.plan.plan:WORDS",)),
    ("check-cluster", "only"): ("slurmfab.commands.checks.runner:ORDER", "own"),
    ("quickcheck", "only"): ("slurmfab.commands.quickcheck.running:CHECKS",),
    ("drill", "drills"): ("slurmfab.commands.drill.drills:DRILLS",),
    ("lab-up", "packages"): ("debian", "smd", "el-smd", "el", "el-openhpc"),
    ("lab-up", "suite"): ("slurmfab.lab.spec:SUITES",),
    ("usage", "by"): ("user", "account", "partition", "gpu"),
    ("completion", "shell"): SHELLS,
}
"""The words that a parameter may have, in a task or in all; MODULE:NAME stands for those of a collection there."""


def choices(task: str, parameter: str) -> Iterator[str]:
    """Yield the words that a parameter may have; none where it has others."""
    for one in CHOICES.get((task, parameter)) or CHOICES.get(("", parameter), ()):
        module, is_elsewhere, name = one.partition(":")
        yield from getattr(importlib.import_module(module), name) if is_elsewhere else (one,)


def values(task: str, parameter: str, prefix: str, **_: Any) -> list[str]:
    """What fits in place of a beginning, in a list with commas in place of its last entry."""
    before, word = last_of_list(prefix)
    kind = IN_TASK.get((task, parameter)) or KINDS.get(parameter, TEXT)
    on_line = CLUSTER_ON_LINE.search(os.environ.get("COMP_LINE", ""))
    path = file_named(os.path.expanduser(on_line[1] if on_line else ""))  # noqa: PTH111 - no home is no error
    named = raw_names.of(path)
    known: Iterable[str] = [*choices(task, parameter)] or named.get(kind, ())
    if kind == NEW_HOSTS or (kind == raw_names.HOSTS and not known):
        known = hosts_of_ssh_config()
    elif kind == RUNS:
        known = (
            "last",
            *sorted((one.stem for one in path.with_name(f"{path.stem}.runs").glob("*.json")), reverse=True),
        )
    elif kind == LABS:
        from slurmfab.lab import layout

        known = sorted(one.name for one in layout.LABS.glob("*/"))
    return [f"{before}{one}" for one in known if one.startswith(word) and one not in before.split(",")]


def last_of_list(word: str) -> tuple[str, str]:
    """A list with commas, and its last entry; commas in brackets end none.

    >>> last_of_list("n[1,3],n4,n")
    ('n[1,3],n4,', 'n')
    """
    depth, after = 0, 0
    for place, character in enumerate(word):
        depth += (character == "[") - (character == "]")
        if character == "," and depth <= 0:
            after = place + 1
    return word[:after], word[after:]


def hosts_of_ssh_config() -> Iterator[str]:
    """The hosts that the user's ssh_config names; patterns are none."""
    with suppress(OSError, UnicodeDecodeError, RuntimeError, SlurmfabError):
        text = bounded_file.read(Path("~/.ssh/config").expanduser(), MOST_BYTES).decode()
        for line in SSH_HOST.findall(text):
            yield from (name for name in line.split() if not re.search(r"[*?!#\"]", name))


def parser_of(tasks: Collection, core: ParserContext) -> ArgumentParser:
    """Invoke's tasks and options as argcomplete looks at them; nothing else is read by this parser."""
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    add(parser, core)
    below = parser.add_subparsers()
    for context in tasks.to_contexts():
        text = (helpline(tasks[str(context.name)]) or "").replace("%", "%%")
        add(below.add_parser(str(context.name), add_help=False, allow_abbrev=False, help=text), context)
    return parser


def add(parser: ArgumentParser, context: ParserContext) -> None:
    """Tell argcomplete what stands behind a task, or in front of all."""
    task = str(context.name).replace("_", "-")
    for one in context.args.values():
        options: dict[str, Any] = {"help": (one.help or "").replace("%", "%%")}
        if not one.takes_value:
            options["action"] = "store_true"
        elif one.kind is list:
            options["action"] = "append"
        elif one.optional:
            options["nargs"] = "?"
        action = parser.add_argument(*([one.name] if one.positional else map(to_flag, one.names)), **options)
        completer: Callable[..., Iterable[str]] = partial(values, task, one.name)
        kind = IN_TASK.get((task, one.name)) or KINDS.get(one.name, TEXT)
        if kind in (FILE, DIRECTORY):
            completer = FilesCompleter() if kind == FILE else DirectoriesCompleter()
        if task in TASKS and one.takes_value:
            action.completer = completer  # type: ignore[attr-defined]
