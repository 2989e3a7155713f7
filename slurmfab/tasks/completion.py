"""The task `completion`, and what shells are told of all tasks."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from invoke.parser.argument import Argument
from invoke.tasks import Task

import slurmfab.completion
from slurmfab.completion.answering import SHELLS
from slurmfab.completion.takes import Entry, Option, Table
from slurmfab.errors import InputError
from slurmfab.tasks.command import command, optional_word_of
from slurmfab.tasks.help import in_one_line, name_of
from slurmfab.tasks.options import Common

SHIPPED = Path(slurmfab.completion.__file__).parent / "shipped"


@command(common=(), positional=["shell"], help={"shell": "bash, zsh or fish"})
def completion(_common: Common, shell: str) -> None:
    """Print a script that completes command lines in your shell.

    It completes tasks, options, and their values: hosts, partitions, users and accounts of the cluster file, nodes that
    were drained for resume, groups of checks, recorded runs, files. Both fab and slurmfab are completed.

    In ~/.bashrc or ~/.zshrc, eval "$(slurmfab completion bash)" is enough. Exit codes: 0 printed, 2 wrong input.

    Examples:
        fab completion bash
        fab completion fish > ~/.config/fish/conf.d/slurmfab.fish
    """
    if shell not in SHELLS:
        raise InputError(f"There is no completion for {shell}; there is for {', '.join(SHELLS)}.")
    print(script(shell), end="")  # noqa: T201 - the answer


def script(shell: str) -> str:
    """The script for a shell, which asks this slurmfab where it finds none by itself."""
    text = (SHIPPED / f"completion.{shell}").read_text(encoding="utf-8")
    return text.replace("@PROGRAM@", shlex.quote(str(program())))


def program() -> Path:
    """The path of `slurmfab`, which is beside the program that runs or beside its Python."""
    beside = (Path(os.path.abspath(sys.argv[0])), Path(sys.executable))  # noqa: PTH100 - links stay
    found = (path.with_name("slurmfab") for path in beside)
    return next((path for path in found if path.is_file()), Path("slurmfab"))


def table() -> Table:
    """All tasks, as shells complete them."""
    from slurmfab.tasks import GROUPS

    return {name_of(task): entry(task) for _, tasks in GROUPS for task in tasks}


def entry(task: Task[Any]) -> Entry:
    """A task, as shells complete it."""
    from slurmfab.tasks.values import taken

    name, optional, arguments = name_of(task), optional_word_of(task), task.get_arguments()
    required = [str(one.name) for one in arguments if one.positional and one.name != optional]
    options = {flag: option for argument in arguments for flag, option in flags(name, argument)}
    return Entry(
        in_one_line(task)[1],
        tuple(taken(name, word) for word in [*required, *filter(None, [optional])]),
        options,
    )


def flags(task: str, argument: Argument) -> Iterator[tuple[str, Option]]:
    """The flags of an argument; a word that has to be given needs none."""
    from slurmfab.tasks.values import taken

    takes = taken(task, str(argument.name)) if argument.takes_value else None
    if not argument.positional:
        yield f"--{argument.names[0]}", Option(argument.help or "", takes, argument.kind is list)
