"""The command line, looked through before Invoke reads it: help wherever it is asked for, and misspelt words told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from invoke.collection import Collection
from invoke.exceptions import Exit
from invoke.parser.argument import Argument
from invoke.parser.context import ParserContext

from slurmfab.errors import InputError
from slurmfab.program_name import FAB
from slurmfab.tasks.help import task_help
from slurmfab.tasks.spelling import closest, did_you_mean

HELP = ("--help", "-h")


@dataclass
class Reader:
    """Goes through the words of a command line.

    Args:
        core: the options in front of the tasks.
        tasks: what may follow each task, by its name.
        collection: the tasks themselves.
    """

    core: ParserContext
    tasks: Mapping[str, ParserContext]
    collection: Collection
    now: ParserContext = field(init=False)
    missing: list[Argument] = field(init=False)

    def __post_init__(self) -> None:
        self.enter(self.core)

    def enter(self, context: ParserContext) -> None:
        """Begin with a task, or with the options in front of all."""
        self.now, self.missing = context, list(context.positional_args)

    def read(self, arguments: Iterator[str]) -> None:
        """Look at all words; those behind `--` are not ours.

        Raises:
            Exit: a word is wrong, or help was asked for and shown.
        """
        for word in arguments:
            if word == "--":
                break
            if word.startswith("-") and len(word) > 1:
                self.read_flag(word, arguments)
            elif self.missing:
                self.missing.pop(0)
            elif word in self.tasks:
                self.enter(self.tasks[word])
            else:
                refuse(self.unknown_word(word))
        if self.missing:
            refuse(self.missing_word(self.missing[0]))

    def read_flag(self, word: str, arguments: Iterator[str]) -> None:
        """Look at an option and step over its value."""
        flag, has_value, _ = word.partition("=")
        if flag in HELP and self.now is not self.core:
            print(task_help(self.collection[self.now.name]))  # noqa: T201 - the answer
            raise Exit(code=0)
        argument = next((context.flags[flag] for context in (self.now, self.core) if flag in context.flags), None)
        known = argument or flag in self.now.inverse_flags or not word.startswith("--")
        if not known:
            refuse(self.unknown_flag(flag))
        # A word that a task needs can be given with its name, too: --hosts n1.
        self.missing = [one for one in self.missing if one is not argument]
        if argument is None or not argument.takes_value or has_value:
            return
        value = next(arguments, None)
        if value is None and not argument.optional:
            refuse(f"{flag} needs a value: {argument.help}.")
        if value is not None and flag in HELP and value not in self.tasks:
            refuse(self.unknown_word(value))

    def unknown_word(self, word: str) -> str:
        """What to say of a word that is no task."""
        near = closest(word, self.tasks)
        if self.now is self.core or near:
            return f"There is no task {word}.{did_you_mean(near)} All tasks: {FAB} help."
        hint = f" Hosts are named by --hosts {word}." if "--hosts" in self.now.flags else ""
        return f"{self.now.name} takes no further word, but here is {word}.{hint} See: {FAB} {self.now.name} --help."

    def unknown_flag(self, flag: str) -> str:
        """What to say of an option that there is none of."""
        if self.now is self.core:
            near = closest(flag, self.core.flags)
            return f"There is no option {flag} in front of a task.{did_you_mean(near)} See: {FAB} help."
        near = closest(flag, self.now.flags)
        others = [name for name, context in self.tasks.items() if flag in context.flags]
        elsewhere = f" These tasks have it: {', '.join(others)}." if others else did_you_mean(near)
        return f"{self.now.name} has no option {flag}.{elsewhere} See: {FAB} {self.now.name} --help."

    def missing_word(self, argument: Argument) -> str:
        """What to say where a word is missing behind a task."""
        name = self.now.name
        return f"{name} needs {str(argument.name).upper()}: {argument.help}. See: {FAB} {name} --help."


def check(
    arguments: Iterable[str], core: ParserContext, contexts: Iterable[ParserContext], collection: Collection
) -> None:
    """Look through a command line.

    Args:
        arguments: all but the program's name.
        core: the program's own options, in front of the tasks.
        contexts: what may follow each task.
        collection: the tasks.

    Raises:
        Exit: with code 2, a word is wrong; with code 0, the help of a task was asked for and has been shown.
    """
    tasks = {context.name: context for context in contexts if context.name}
    Reader(core, tasks, collection).read(iter(tuple(arguments)))


def refuse(text: str) -> NoReturn:
    """Stop because of the command line.

    Raises:
        Exit: always.
    """
    raise Exit(text, code=InputError.exit_code)
