"""The task `completion`, and what shells are told of all tasks."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import slurmfab.cli.completion
from slurmfab.base.errors import InputError
from slurmfab.cli.completion.answering import SHELLS
from slurmfab.cli.completion.takes import Entry, Option, Table
from slurmfab.cli.tasks.command import Command, command
from slurmfab.cli.tasks.help import summary
from slurmfab.cli.tasks.options import Common

SHIPPED = Path(slurmfab.cli.completion.__file__).parent / "shipped"


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
    print(script(shell))  # noqa: T201 - the answer


def script(shell: str) -> str:
    """The script for a shell, which asks this slurmfab where it finds none by itself.

    Raises:
        InputError: there is none for this shell.
    """
    if shell not in SHELLS:
        raise InputError(f"There is no completion for {shell}; there is for {', '.join(SHELLS)}.")
    text = (SHIPPED / f"completion.{shell}").read_text(encoding="utf-8")
    return text.replace("@PROGRAM@", shlex.quote(str(program()))).rstrip("\n")


def program() -> Path:
    """The path of `slurmfab`, which is beside the program that runs or beside its Python."""
    beside = (Path(os.path.abspath(sys.argv[0])), Path(sys.executable))  # noqa: PTH100 - links stay
    found = (path.with_name("slurmfab") for path in beside)
    return next((path for path in found if path.is_file()), Path("slurmfab"))


def table() -> Table:
    """All tasks, as shells complete them."""
    from slurmfab.cli.tasks import TASKS

    return {name: entry(task) for name, task in TASKS.items()}


def entry(task: Command) -> Entry:
    """A task, as shells complete it; a word that has to be given needs no flag."""
    from slurmfab.cli.tasks.values import taken

    options = {
        one.flags[0]: Option(
            one.help, taken(task.name, one.name) if one.takes_value else None, isinstance(one.default, list)
        )
        for one in task.parameters
        if not one.is_required
    }
    return Entry(summary(task), tuple(taken(task.name, one.name) for one in task.words), options)
