"""What a task is, as data: from this its manual page and its part of the reference are made."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

from slurmfab.base.program_name import FAB
from slurmfab.cli.tasks import GROUPS
from slurmfab.cli.tasks.command import Command, Parameter

EXAMPLES = "Examples:"  # the first line of the docstring's part with examples

VALUES = {
    "address": "ADDRESS", "adopt": "WHAT", "allow": "CHANGE", "around": "TIME", "at_once": "NUMBER", "become": "METHOD",
    "by": "KEYS", "cluster": "FILE", "controller": "HOST", "csv": "FILE", "database": "FILE", "destination": "PATH",
    "exclude": "WORDS", "group": "GROUP", "mode": "MODE", "owner": "USER",
    "drills": "NAMES", "fingerprint": "FINGERPRINT", "from": "HOST", "gateway": "HOST",
    "gpu_nodes": "HOSTS", "homes": "SERVER:PATH", "host": "HOST", "hosts": "HOSTS", "html": "FILE",
    "idle_minutes": "MINUTES", "interface": "NAME", "json": "FILE",
    "junit": "FILE", "key": "FILE", "kill": "NUMBER", "like": "HOST", "login": "HOSTS",
    "logs": "DIRECTORY", "name": "NAME", "nodes": "NUMBER", "on": "WORDS", "only": "NAMES", "output": "PATH",
    "partition": "NAMES", "plan": "FILE", "port": "PORT", "power_cut": "HOST",
    "repeat": "NUMBER", "run": "RUN", "save": "FILE", "since": "TIME",
    "slurm": "VERSION", "timeout": "MINUTES", "to": "PATH", "uid": "NUMBER", "until": "TIME",
    "user": "USER", "users": "NAMES", "wait": "MINUTES",
}  # fmt: skip
"""What the values of options are, by the option's name; other values are texts."""

VALUES_OF_TASKS = {
    ("init", "nodes"): "HOSTS",
    ("quickcheck", "timeout"): "SECONDS",
    ("run", "timeout"): "SECONDS",
    ("user-guide", "output"): "DIRECTORY",
}
"""Where an option of a task takes another value than options of its name do."""

_DEFAULT = re.compile(r" \(default: (.*)\)$")
_CODES = re.compile(r"\s*\bExit codes: (.*)\.$")
_CODE = re.compile(r"(\d+) (.*?)(?=, \d+ |$)")


@dataclass(frozen=True)
class Word:
    """A value that is given without a flag."""

    name: str  # as help shows it, such as `HOSTS`
    help: str  # what it is


@dataclass(frozen=True)
class Option:
    """A flag of a task."""

    name: str  # the name of the parameter, such as `drain_first`
    flags: tuple[str, ...]  # as they are typed, the long one first: `("--verbose", "-v")`
    value: str  # what follows, such as `FILE`; empty for a switch
    default: str  # what holds without the option; empty where that is nothing
    help: str  # what it does, without the default
    is_repeatable: bool  # whether it may be given several times


@dataclass(frozen=True)
class Description:
    """A task."""

    name: str  # as it is typed, such as `add-node`
    group: str  # the heading under which `fab help` shows it
    summary: str
    paragraphs: tuple[str, ...]  # what else is to be said, without exit codes; each paragraph is one line
    words: tuple[Word, ...]  # the values that are given without a flag, in their order
    rest: Word | None  # what stands behind `--`
    options: tuple[Option, ...]  # its flags, sorted
    examples: tuple[str, ...]  # command lines, as they are typed with `fab`
    exit_codes: Mapping[int, str]  # their meanings; the one after Ctrl-C, which all tasks share, is not among them

    @property
    def usage(self) -> str:
        """How it is called, such as `fab drain HOSTS [OPTIONS]`."""
        rest = ["--", self.rest.name] if self.rest else []
        words = (word.name for word in self.words)
        return " ".join([FAB, self.name, *words, *(["[OPTIONS]"] if self.options else []), *rest])

    @property
    def has_json(self) -> bool:
        """Whether it writes its results as JSON."""
        return any(option.name == "json" for option in self.options)


def all_tasks() -> tuple[Description, ...]:
    """All tasks, in the order in which `fab help` shows them."""
    return tuple(described(task, group) for group, tasks in GROUPS for task in tasks)


def described(task: Command, group: str = "") -> Description:
    """A task as data. `group`: the heading under which it is shown."""
    text, _, examples = (task.__doc__ or "").partition(f"\n{EXAMPLES}\n")
    summary, *paragraphs = (" ".join(part.split()) for part in text.strip().split("\n\n"))
    codes = [match[1] for match in map(_CODES.search, paragraphs) if match]
    return Description(
        task.name,
        group,
        summary,
        tuple(filter(None, (_CODES.sub("", part) for part in paragraphs))),
        tuple(Word(one.name.upper(), one.help) for one in task.words),
        next((Word(one.name.upper(), one.help) for one in task.parameters if one.takes_rest), None),
        tuple(
            sorted(
                (option(task.name, one) for one in task.parameters if not (one.is_word or one.takes_rest)),
                key=lambda one: one.flags,
            )
        ),
        tuple(textwrap.dedent(examples).strip().splitlines()),
        {int(match[1]): match[2] for part in codes for match in _CODE.finditer(part)},
    )


def option(task_name: str, parameter: Parameter) -> Option:
    """A flag of a task as data."""
    name = parameter.name.rstrip("_")
    default = _DEFAULT.search(parameter.help)
    value = VALUES_OF_TASKS.get((task_name, name), VALUES.get(name, "TEXT")) if parameter.takes_value else ""
    own_default = parameter.default if isinstance(parameter.default, str) else ""
    return Option(
        name,
        parameter.flags,
        value,
        default[1] if default else own_default,
        _DEFAULT.sub("", parameter.help),
        isinstance(parameter.default, list),
    )
