"""The tasks as Invoke's, for `fab`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from invoke.collection import Collection
from invoke.context import Context
from invoke.parser.argument import Argument
from invoke.parser.context import ParserContext
from invoke.tasks import Task

from slurmfab.base.errors import InputError
from slurmfab.base.exit_codes import DONE, WRONG_INPUT
from slurmfab.base.program_name import FAB
from slurmfab.cli.tasks import TASKS
from slurmfab.cli.tasks.command import Command, Parameter, end
from slurmfab.cli.tasks.command_line import CoreFlag, Reader


class InvokeTask(Task):  # type: ignore[type-arg]
    """A task whose flags are those of a command; Invoke would otherwise read them from a signature."""

    def __init__(self, command: Command) -> None:
        def run(context: Context, **given: Any) -> None:
            refuse_core_hosts(context)
            if context.config.run.dry:  # Invoke's own option, which would keep no task from changing hosts
                end(WRONG_INPUT, f"--dry (-R) has no effect on these tasks: {FAB} plan shows what deploy would do.")
            if any(one.takes_rest for one in command.parameters):  # where nobody looked through the command line
                end(WRONG_INPUT, f"Call it by the program slurmfab: slurmfab {command.name}.")
            command(**given)

        run.__name__, run.__module__ = command.name.replace("-", "_"), command.function.__module__
        run.__doc__ = command.doc
        self.command = command
        super().__init__(run, positional=())

    def get_arguments(self, ignore_unknown_help: bool | None = None) -> list[Argument]:
        """The task's words, in their order, and its options."""
        del ignore_unknown_help
        required = [one.name for one in self.command.words if one.is_required]
        optional = next((one.name for one in self.command.words if not one.is_required), "")
        words = words_after(self.command.name, required, optional)
        positional = [one for name in words for one in self.command.parameters if one.name == name]
        others = [one for one in self.command.parameters if one.name not in words]
        return [argument(one, one in positional) for one in (*positional, *others)]


def refuse_core_hosts(context: Context) -> None:
    """Refuse Fabric's own `--hosts`, which would call the task once for each host. Raises Exit if it was used."""
    if type(context).__name__ == "Connection":
        end(WRONG_INPUT, f"Give the hosts after the task's name: {FAB} deploy --hosts 'n1,n[2-5]'.")


def argument(one: Parameter, is_word: bool) -> Argument:
    """A parameter as Invoke's parser reads it."""
    return Argument(
        names=[flag.lstrip("-") for flag in one.flags],
        attr_name=one.name if "_" in one.name else None,
        kind=str if one.takes_rest else type(one.default),
        default=None if is_word or one.is_required else one.default,  # Invoke asks for no word that has a default
        help=one.help or None,
        positional=is_word,
    )


def words_after(task_name: str, required: Sequence[str], optional: str = "") -> list[str]:
    """The positional parameters of a task that takes one word more or not: `fab history` and `fab history last`.

    Invoke has no optional positional parameters, so the parameter is positional only where enough words come right
    after the task. `task_name`: as on the command line. `required`: the function's parameters for words that have to be
    there. `optional`: the one for the word that may follow; empty for none.
    """
    arguments = sys.argv[1:]
    after = arguments[arguments.index(task_name) + 1 :] if task_name in arguments else []
    words = list(takewhile(lambda word: not word.startswith("-"), after))
    return [*required, optional] if optional and len(words) > len(required) else [*required]


namespace = Collection(*map(InvokeTask, TASKS.values()))  # all tasks

namespace.default = "help"


def check_words(arguments: list[str], core: ParserContext) -> None:
    """Look through a command line for help that is asked for, and wrong words; either raises Exit.

    A command line with a task that takes another one, as rehearse does, is carried out here, and ends by Exit: Invoke
    would read two tasks, and carry out the second one, too.
    """
    flags = {
        f"-{name}" if len(name) == 1 else f"--{name}": CoreFlag(
            argument.takes_value, bool(argument.optional), argument.help or ""
        )
        for argument in core.flags.values()
        for name in argument.names
    }
    try:
        reader = Reader(flags)
        text = reader.read(iter(arguments))
    except InputError as error:
        end(error.exit_code, str(error))
    if text:
        print(text)  # noqa: T201 - the answer
        end(DONE)
    if any(one.takes_rest for call in reader.calls for one in call.task.parameters):
        for call in reader.calls:
            call.task(**call.given)
        end(DONE)
