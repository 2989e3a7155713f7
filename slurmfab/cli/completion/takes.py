"""What an option or a word of a task takes, as far as a shell can complete it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

TEXT = "text"
"""Something that only the user knows; nothing is offered."""

CHOICES = "choices"
FILE, DIRECTORY = "file", "directory"
HOSTS = "hosts"
"""Members of the cluster, or `@FILE` and `@FILE:GROUP`."""

NODES = "nodes"
"""Compute nodes of the cluster."""

OUT_OF_SERVICE = "out of service"
"""Compute nodes; those first that `drain` took out of service."""

NEW_HOSTS = "new hosts"
"""Hosts of the user's ssh_config, or `@FILE` and `@FILE:GROUP`."""

PARTITIONS, USERS, ACCOUNTS = "partitions", "users", "accounts"
ACCEPTANCE_JOBS = "acceptance jobs"
RUNS = "runs"
"""Recorded runs."""

LABS = "labs"
TASKS = "tasks"
DISRUPTIONS, CHECK_GROUPS, QUICKCHECKS = "disruptions", "check groups", "quickchecks"
ELSEWHERE = (DISRUPTIONS, CHECK_GROUPS, QUICKCHECKS)
"""Words that are in modules which take long to load; the table of all tasks is made without them."""


class Takes(NamedTuple):
    """What a value is."""

    what: str = TEXT  # one of this module's constants
    many: bool = False  # whether several may stand there, with commas between them
    choices: tuple[str, ...] = ()  # the words of `CHOICES`


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


Table = dict[str, Entry]
"""All tasks, by their names."""


def plain(table: Table) -> dict[str, Any]:
    """A table as JSON values."""
    return {
        name: [
            entry.help,
            [_plain_takes(takes) for takes in entry.words],
            {flag: [option.help, _plain_takes(option.takes), option.repeats] for flag, option in entry.options.items()},
        ]
        for name, entry in table.items()
    }


def from_plain(values: Any) -> Table:
    """A table from JSON values.

    Raises:
        TypeError, ValueError, AttributeError: they are not what `plain` makes.
    """
    return {
        name: Entry(
            str(text),
            tuple(takes for takes in map(_takes, words) if takes),
            {
                str(flag): Option(str(of), _takes(takes), bool(repeats))
                for flag, (of, takes, repeats) in options.items()
            },
        )
        for name, (text, words, options) in values.items()
    }


def _plain_takes(takes: Takes | None) -> list[Any] | None:
    return [takes.what, takes.many, list(takes.choices)] if takes else None


def _takes(values: Any) -> Takes | None:
    if values is None:
        return None
    what, many, choices = values
    return Takes(str(what), bool(many), tuple(map(str, choices)))
