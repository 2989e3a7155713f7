"""What an option or a word of a task takes, as far as a shell can complete it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

TEXT = "text"  # something that only the user knows; nothing is offered

CHOICES = "choices"
FILE, DIRECTORY = "file", "directory"
HOSTS = "hosts"  # members of the cluster, or `@FILE` and `@FILE:GROUP`
NODES = "nodes"  # compute nodes of the cluster
OUT_OF_SERVICE = "out of service"  # compute nodes; those first that `drain` took out of service
NEW_HOSTS = "new hosts"  # hosts of the user's ssh_config, or `@FILE` and `@FILE:GROUP`

PARTITIONS, USERS, ACCOUNTS = "partitions", "users", "accounts"
ACCEPTANCE_JOBS = "acceptance jobs"
RUNS = "runs"  # recorded runs

LABS = "labs"
TASKS = "tasks"  # with choices: one of these, whose own words and options follow


class Takes(NamedTuple):
    """What a value is."""

    what: str = TEXT  # one of this module's constants
    many: bool = False  # whether several may stand there, with commas between them
    choices: tuple[str, ...] = ()  # the words of `CHOICES`, or of `TASKS` if not all


class Option(NamedTuple):
    """An option of a task."""

    help: str
    takes: Takes | None = None  # its value; `None` for one without a value
    repeats: bool = False  # whether it may be given several times


class Entry(NamedTuple):
    """A task as a shell sees it."""

    help: str  # the first line of its help
    words: tuple[Takes, ...] = ()  # what the words behind it are
    options: Mapping[str, Option] = {}  # its options, by their flags


Table = dict[str, Entry]  # all tasks, by their names


def read_table() -> Table:
    """The table of all tasks, which `make reference` writes from their declarations."""
    values = json.loads((Path(__file__).parent / "shipped/table.json").read_bytes())
    return {name: _entry(*entry) for name, entry in values.items()}


def _entry(help: str, words: list[Any], options: dict[str, Any]) -> Entry:
    known = {
        flag: Option(text, _takes(one) if one else None, repeats) for flag, (text, one, repeats) in options.items()
    }
    return Entry(help, tuple(map(_takes, words)), known)


def _takes(values: list[Any]) -> Takes:
    what, many, choices = values
    return Takes(what, many, tuple(choices))
