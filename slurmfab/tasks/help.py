"""What slurmfab says about itself: the tasks in groups, and the help of one."""

from __future__ import annotations

import inspect
import os
import sys
import textwrap
from collections.abc import Iterable
from typing import Any

from invoke.parser.context import ParserContext
from invoke.tasks import Task

from slurmfab import terminal
from slurmfab.errors import InputError
from slurmfab.program_name import FAB
from slurmfab.tasks.command import command, optional_word_of
from slurmfab.tasks.options import Common
from slurmfab.tasks.spelling import closest, did_you_mean

SUMMARY = "slurmfab turns bare machines into a working Slurm cluster over SSH, and keeps it working."

WIDEST = 120
"""Columns that help uses at most, however wide the terminal is."""

NARROWEST = 20
"""Columns for an option's text at least."""

GAP = 5
"""Columns around the names of tasks and options: two in front and three behind."""

Group = tuple[str, tuple["Task[Any]", ...]]
"""A heading, and the tasks below it."""


@command(
    common=(),
    positional=["[task]"],
    help={"task": "the task to show the help of (default: list all tasks)"},
)
def help(_common: Common, *, task: str = "") -> None:
    """Show all tasks, or the help of one.

    Exit codes: 0 shown, 2 there is no such task.

    Examples:
        fab help
        fab help add-node
    """
    from slurmfab.tasks import GROUPS, namespace

    if task and task not in namespace.task_names:
        near = did_you_mean(closest(task, namespace.task_names))
        raise InputError(f"There is no task {task}.{near} All tasks: {FAB} help.")
    print(task_help(namespace[task]) if task else overview(GROUPS))  # noqa: T201 - the answer


def overview(groups: Iterable[Group]) -> str:
    """All tasks in their groups, one line each, under a sentence about the program."""
    known = tuple(groups)
    width = max(len(name_of(task)) for _, tasks in known for task in tasks)
    parts = (f"{title}:\n{columns(map(in_one_line, tasks), width)}" for title, tasks in known)
    return "\n\n".join([SUMMARY, *parts, f"Help for one task: {FAB} help TASK, or {FAB} TASK --help."])


def in_one_line(task: Task[Any]) -> tuple[str, str]:
    """A task's name, and the first line of its help."""
    return name_of(task), (task.__doc__ or "").splitlines()[0]


def task_help(task: Task[Any]) -> str:
    """The help of a task: how it is called, what it does, its options."""
    context = ParserContext(name_of(task), args=task.get_arguments())
    optional = optional_word_of(task)
    names = [str(argument.name).upper() for argument in context.positional_args if argument.name != optional]
    names += [f"[{optional.upper()}]"] if optional else []
    options = columns((flag, text or "") for flag, text in context.help_tuples())
    usage = " ".join(["Usage:", FAB, name_of(task), *names, *(["[OPTIONS]"] if options else [])])
    paragraphs = (inspect.getdoc(task) or "").split("\n\n")
    return "\n\n".join([usage, *map(paragraph, paragraphs), *([f"Options:\n{options}"] if options else [])])


def name_of(task: Task[Any]) -> str:
    """A task's name as it is typed."""
    return task.name.replace("_", "-")


def paragraph(text: str) -> str:
    """A paragraph of a docstring, at the width of the terminal; examples keep their lines."""
    if "\n    " in text:
        return textwrap.indent(text, "  ")
    return textwrap.fill(text, line_width() - 1, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)


def line_width() -> int:
    """How many characters a line of help has room for, on a terminal or elsewhere."""
    # Not shutil's function of that name: shutil loads all that can compress, which takes as long as our own modules.
    given = os.environ.get("COLUMNS", "")
    elsewhere = int(given) if given.isdecimal() and int(given) else terminal.DEFAULT_COLUMNS
    return min(terminal.columns(sys.stdout) or elsewhere, WIDEST)


def columns(pairs: Iterable[tuple[str, str]], widest: int = 0) -> str:
    """Two columns, the second one wrapped at the width of the terminal.

    Args:
        pairs: what stands in both columns of each row.
        widest: characters of the first column, where that is more than these rows need.
    """
    rows = tuple(pairs)
    width = max([widest, *(len(name) for name, _ in rows)]) + GAP
    room = max(line_width() - width - 1, NARROWEST)
    lines: list[str] = []
    for name, text in rows:
        first, *more = textwrap.wrap(text, room, break_on_hyphens=False) or [""]
        lines += [f"  {name:{width - 2}}{first}".rstrip(), *(" " * width + line for line in more)]
    return "\n".join(lines)
