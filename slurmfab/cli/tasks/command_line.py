"""The command line: help wherever it is asked for, misspelt words told, and the tasks with their values.

`fab` has it looked through before Invoke reads it, `slurmfab` takes the tasks from here.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

from slurmfab import __version__
from slurmfab.base.errors import InputError
from slurmfab.base.program_name import FAB
from slurmfab.cli.completion import script
from slurmfab.cli.tasks import TASKS, help_text
from slurmfab.cli.tasks.command import Command, Inside, Parameter
from slurmfab.cli.tasks.options import COMMON
from slurmfab.cli.tasks.spelling import DRY_RUN, NEAR, NEARER, PLAN_SHOWS, closest, did_you_mean, meant

HELP = ("--help", "-h")
LIST = ("--list", "-l")
VERSION = ("--version", "-V")
CORE_HOSTS = ("-H", "--hosts")
INVOKES_COMPLETION = "--print-completion-script"  # Invoke's option for scripts that know no values; it prints ours

CORE_OPTIONS = "Options in front of a task: --version, --list."


class CoreFlag(NamedTuple):
    """An option in front of the tasks, which is the program's own."""

    takes_value: bool
    optional: bool = False  # whether the value may be left out
    help: str = ""  # what the value is


OWN_FLAGS = {flag: CoreFlag(flag not in VERSION, optional=True) for flag in (*HELP, *LIST, *VERSION)}
"""The options of `slurmfab` in front of a task."""


class Call(NamedTuple):
    """A task that is to be carried out."""

    task: Command
    given: dict[str, Any]  # the values on the command line, by the names of its parameters


@dataclass
class Reader:
    """Goes through the words of a command line."""

    core: Mapping[str, CoreFlag]
    now: Command | None = None  # the task whose options are read; `None` in front of the first one
    missing: list[Parameter] = field(default_factory=list)  # the words that may come next
    is_right_behind: bool = True  # whether there was no option yet behind the task's name
    calls: list[Call] = field(default_factory=list)

    def enter(self, task: Command) -> None:
        """Begin with a task."""
        self.require_words()
        self.now, self.missing, self.is_right_behind = task, list(task.words), True
        self.calls.append(Call(task, {}))

    def note(self, parameter: Parameter | None, value: str) -> None:
        """Note a value of a task."""
        if not parameter:
            return
        given = self.calls[-1].given
        if isinstance(parameter.default, list):
            given[parameter.name] = [*given.get(parameter.name, ()), value]
        elif parameter.takes_value and parameter.name in given:
            refuse(f"{parameter.flags[0]} is given twice. See: {FAB} {self.calls[-1].task.name} --help.")
        else:
            given[parameter.name] = value if parameter.takes_value else True

    def read(self, arguments: Iterator[str]) -> str:
        """Look at all words; returns the help that was asked for, or nothing, InputError if a word is wrong."""
        for word in arguments:
            if word == "--":
                self.refuse_rest(arguments)
                break
            if word.startswith("-") and len(word) > 1:
                self.is_right_behind = False
                if self.now and word.partition("=")[0] in HELP:
                    return help_text(self.now.name)
                self.read_flag(word, arguments)
            elif self.missing and (self.missing[0].is_required or self.is_right_behind):
                if self.missing[0].takes_rest:
                    return self.read_inside(self.missing.pop(0), (word, *arguments))
                self.note(self.missing.pop(0), word)
            elif word in TASKS:
                self.enter(TASKS[word])
            else:
                refuse(self.unknown_word(word))
        self.require_words()
        return ""

    def read_inside(self, parameter: Parameter, words: Iterable[str]) -> str:
        """Note the command in the words that are left; returns the help that they ask for, or nothing."""
        reader = Reader(OWN_FLAGS)
        if asked := reader.read(iter(words)):
            return asked
        if len(reader.calls) != 1:
            refuse("Name one command, with its words and options behind it.")
        (call,) = reader.calls
        self.calls[-1].given[parameter.name] = Inside(call.task.name, call.given, words_of(call, COMMON))
        return ""

    def refuse_rest(self, arguments: Iterator[str]) -> None:
        """Refuse words behind `--` by InputError: no task reads them, and `ssh n1 -- uptime` would open a shell."""
        rest = list(arguments)
        if rest:
            refuse(
                f"No task reads words behind --, and here is {rest[0]}. A command is one word, in quotation marks: "
                f"{FAB} ssh HOST 'COMMAND'."
            )

    def require_words(self) -> None:
        """Refuse the end of a task's words where one is missing. Raises InputError if one is."""
        if self.now and self.missing and self.missing[0].is_required:
            name, word = self.now.name, self.missing[0]
            refuse(f"{name} needs {word.name.upper()}: {word.help}. See: {FAB} {name} --help.")

    def read_flag(self, word: str, arguments: Iterator[str]) -> None:
        """Look at an option and step over its value."""
        flag, has_value, value_behind = word.partition("=")
        option = self.now.flags.get(flag) if self.now else None
        is_ours = self.core is OWN_FLAGS
        core = None if option or (is_ours and self.now) else self.core.get(flag)
        # Invoke reads several short flags in one word.
        may_be_invokes = not is_ours and not word.startswith("--")
        if not option and (meant(flag, self.now) or not (core or may_be_invokes)):
            refuse(self.unknown_flag(flag))
        # A word that a task needs can be given with its name, too: --hosts n1.
        self.missing = [one for one in self.missing if one is not option]
        known = option or core
        if option and has_value and not option.takes_value:
            refuse(f"{flag} takes no value. See: {FAB} {self.calls[-1].task.name} --help.")
        if known is None or not known.takes_value or has_value:
            self.note(option, value_behind)
            return
        value = next(arguments, None)
        if value is None and not (core and core.optional):
            refuse(f"{flag} needs a value: {known.help}.")
        if value is not None and flag in HELP and value not in TASKS:
            refuse(self.unknown_word(value))
        self.note(option, value or "")

    def unknown_word(self, word: str) -> str:
        """What to say of a word that is no task."""
        near = closest(word, TASKS)
        if self.now is None or near:
            return f"There is no task {word}.{did_you_mean(near)} All tasks: {FAB} help."
        hint = f" Hosts are named by --hosts {word}." if "--hosts" in self.now.flags else ""
        return f"{self.now.name} takes no further word, but here is {word}.{hint} See: {FAB} {self.now.name} --help."

    def unknown_flag(self, flag: str) -> str:
        """What to say of an option that there is none of; what the task itself has comes first."""
        if self.now is None:
            near = PLAN_SHOWS if flag in DRY_RUN else did_you_mean(closest(flag, self.core))
            return f"There is no option {flag} in front of a task.{near} See: {FAB} help."
        others = [name for name, task in TASKS.items() if flag in task.flags]
        near = closest(flag, self.now.flags, cutoff=NEARER if others else NEAR)
        elsewhere = f" These tasks have it: {', '.join(others)}." if others else ""
        advice = meant(flag, self.now) or did_you_mean(near) or elsewhere
        return f"{self.now.name} has no option {flag}.{advice} See: {FAB} {self.now.name} --help."


def words_of(call: Call, without: Container[str] = ()) -> tuple[str, ...]:
    """The words of a command line that asks for this; `without`: names of parameters that are left out.

    >>> words_of(answer(["deploy", "--hosts=n1", "-v"])[0])
    ('deploy', '--hosts', 'n1', '--verbose')
    """
    found = [call.task.name]
    for one in (*call.task.words, *(one for one in call.task.parameters if not one.is_word)):
        given = call.given.get(one.name)
        if given is None or one.name in without:
            continue
        if one.is_word:
            found.append(given)
        else:
            values = given if isinstance(given, list) else [given]
            found += [
                word for value in values for word in ((one.flags[0], value) if one.takes_value else one.flags[:1])
            ]
    return tuple(found)


def answer(arguments: Sequence[str]) -> str | list[Call]:
    """What a command line of `slurmfab` asks for: a text, or tasks to carry out; InputError if a word is wrong."""
    reader = Reader(OWN_FLAGS)
    if asked := reader.read(iter(arguments)):
        return asked
    found: str | list[Call] = reader.calls
    match list(arguments):
        case [flag, *_] if flag in VERSION:
            found = f"slurmfab {__version__}"
        case [flag] if flag in HELP:
            found = f"{help_text('')}\n{CORE_OPTIONS}"
        case [] | ["help"] | ["--list" | "-l", *_]:
            found = help_text("")
        case [word, task] if word == "help" or word in HELP:
            found = help_text(task)
        case ["completion", shell]:
            found = script.script(shell)
    return found


def task_first(arguments: Sequence[str]) -> list[str]:
    """The command line with `--hosts` behind the task, where a task reads it, for those used to Fabric's own.

    >>> task_first(["--hosts", "n1,n2", "deploy"])
    ['deploy', '--hosts', 'n1,n2']
    """
    rest, moved = list(arguments), []
    if rest[:1] == [INVOKES_COMPLETION]:
        return ["completion", *rest[1:]]
    while rest and rest[0].split("=")[0] in CORE_HOSTS:
        _, equals, value = rest.pop(0).partition("=")
        moved += ["--hosts", value if equals or not rest else rest.pop(0)]
    return [*rest[:1], *moved, *("--hosts" if word == "-H" else word for word in rest[1:])]


def refuse(message: str) -> NoReturn:
    """Stop because of the command line. Raises InputError: always."""
    raise InputError(message)
