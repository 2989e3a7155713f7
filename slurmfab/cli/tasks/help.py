"""What slurmfab says about itself: the tasks in groups, and the help of one."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterable

from slurmfab.base import terminal
from slurmfab.base.program_name import FAB
from slurmfab.cli.tasks.command import Command
from slurmfab.cli.tasks.description import Option, described

SUMMARY = "slurmfab turns bare machines into a working Slurm cluster over SSH, and keeps it working."

WIDEST = 120  # columns that help uses at most, however wide the terminal is
NARROWEST = 20  # columns for an option's text at least
GAP = 5  # columns around the names of tasks and options: two in front and three behind
Group = tuple[str, tuple[Command, ...]]  # a heading, and the tasks below it


def overview(groups: Iterable[Group]) -> str:
    """All tasks in their groups, one line each, under a sentence about the program."""
    known = tuple(groups)
    width = max(len(task.name) for _, tasks in known for task in tasks)
    parts = (f"{title}:\n{columns(((task.name, summary(task)) for task in tasks), width)}" for title, tasks in known)
    return "\n\n".join([SUMMARY, *parts, f"Help for one task: {FAB} help TASK, or {FAB} TASK --help."])


def summary(task: Command) -> str:
    """The first line of a task's help."""
    return task.doc.partition("\n")[0]


def task_help(task: Command) -> str:
    """The help of a task: how it is called, what it does, its options."""
    about = described(task)
    words = ((word.name, word.help) for word in about.words if word.is_required)
    rows = columns([*words, *((format_flags(one), with_default(one)) for one in about.options)])
    parts = [f"Usage: {about.usage}", *map(paragraph, task.doc.split("\n\n"))]
    return "\n\n".join([*parts, *([f"Options:\n{rows}"] if about.options else [])])


def format_flags(option: Option) -> str:
    """An option's flags with their value, the short one first: `-v, --verbose`, `--json=FILE`."""
    value = f"={option.value}" if option.value else ""
    return ", ".join(f"{flag}{value}" for flag in reversed(option.flags))


def with_default(option: Option) -> str:
    """What an option does, and what holds without it."""
    return f"{option.help} (default: {option.default})" if option.default else option.help


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
