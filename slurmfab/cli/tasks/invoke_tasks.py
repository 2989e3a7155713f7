"""The tasks as Invoke's, for `fab` and for `slurmfab` alike."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from invoke.collection import Collection
from invoke.context import Context
from invoke.exceptions import Exit
from invoke.parser.argument import Argument
from invoke.parser.context import ParserContext
from invoke.tasks import Task

from slurmfab.base.errors import InputError
from slurmfab.cli.tasks import TASKS
from slurmfab.cli.tasks.command import Command
from slurmfab.cli.tasks.command_line import CoreFlag, check


class InvokeTask(Task):  # type: ignore[type-arg]
    """A task whose only short flag is `-v`; Invoke would otherwise give `-h` to the first option with that letter."""

    def __init__(self, command: Command) -> None:
        required = [one.name for one in command.words if one.is_required]
        optional = next((one.name for one in command.words if not one.is_required), "")

        def run(context: Context, **given: Any) -> None:
            command(context, **given)

        run.__name__, run.__module__ = command.name.replace("-", "_"), command.function.__module__
        run.__doc__ = command.doc
        run.__signature__ = signature(command)  # type: ignore[attr-defined]
        super().__init__(
            run,
            positional=words_after(command.name, required, optional),
            iterable=[one.name for one in command.parameters if isinstance(one.default, list)],
            help={one.name: one.help for one in command.parameters if one.help},
            auto_shortflags=False,
        )

    def arg_opts(self, name: str, default: Any, taken_names: set[str]) -> dict[str, Any]:
        """How one of the function's parameters becomes a flag."""
        options: dict[str, Any] = super().arg_opts(name, default, taken_names)
        if options["positional"]:
            options.pop("default", None)  # Invoke asks for no word where a positional parameter has a default
        return {**options, "names": (*options["names"], "v")} if name == "verbose" else options

    def get_arguments(self, ignore_unknown_help: bool | None = None) -> list[Argument]:
        """The task's flags; Invoke's own method uses up the help texts, so that they could be read only once."""
        texts = dict(self.help)
        arguments: list[Argument] = super().get_arguments(ignore_unknown_help)
        self.help = texts
        return arguments


def signature(command: Command) -> inspect.Signature:
    """A function with the parameters of a command, as Invoke reads flags from signatures."""
    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter(one.name, kind)
        if one.is_required or isinstance(one.default, list)
        else inspect.Parameter(one.name, kind, default=one.default)
        for one in command.parameters
    ]
    return inspect.Signature([inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD), *parameters])


def words_after(task_name: str, required: Sequence[str], optional: str = "") -> list[str]:
    """The positional parameters of a task that takes one word more or not: `fab history` and `fab history last`.

    Invoke has no optional positional parameters, so the parameter is positional only where enough words come right
    after the task.

    Args:
        task_name: as on the command line.
        required: the function's parameters for words that have to be there.
        optional: the one for the word that may follow; empty for none.
    """
    arguments = sys.argv[1:]
    after = arguments[arguments.index(task_name) + 1 :] if task_name in arguments else []
    words = list(takewhile(lambda word: not word.startswith("-"), after))
    return [*required, optional] if optional and len(words) > len(required) else [*required]


namespace = Collection(*map(InvokeTask, TASKS.values()))
"""All tasks."""

namespace.default = "help"


def check_words(arguments: list[str], core: ParserContext) -> None:
    """Look through a command line for help that is asked for, and for wrong words.

    Args:
        core: the options in front of the tasks, as Invoke or Fabric know them.

    Raises:
        Exit: a word is wrong, or help was asked for and has been shown.
    """
    flags = {
        f"-{name}" if len(name) == 1 else f"--{name}": CoreFlag(
            argument.takes_value, bool(argument.optional), argument.help or ""
        )
        for argument in core.flags.values()
        for name in argument.names
    }
    try:
        text = check(arguments, flags)
    except InputError as error:
        raise Exit(str(error), code=error.exit_code) from None
    if text:
        print(text)  # noqa: T201 - the answer
        raise Exit(code=0)
