"""Where the cursor is on a command line, and which values fit there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from slurmfab.cli.completion import takes
from slurmfab.cli.completion.cluster_values import ClusterValues
from slurmfab.cli.completion.takes import FILE, TASKS, Entry, Option, Table, Takes

CORE = Entry("", options={"--help": Option("show all tasks"), "--version": Option("show the version")})
"""What may stand in front of the tasks."""

SEARCH_ROOT = Option("", Takes(FILE))
CORE_WITH_VALUES = {"-r": SEARCH_ROOT, "--search-root": SEARCH_ROOT, "-c": SEARCH_ROOT, "--collection": SEARCH_ROOT}
"""Options of `fab` itself, which are stepped over."""

WORDS, FILES, DIRECTORIES = "words", "files", "directories"
"""What a shell is told in the first line: take these words, or complete a path yourself."""

MOST_BYTES = 4 << 20
SSH_HOST = r"(?im)^\s*Host\s*[ =]\s*(.+)$"  # the pattern of ssh_config's lines with names of hosts
HOSTS_LIKE = (takes.HOSTS, takes.NODES, takes.OUT_OF_SERVICE, takes.NEW_HOSTS)  # what may be in a file as well


class Wanted(NamedTuple):
    """What fits where the cursor is."""

    word: str  # the word in front of the cursor, which may be empty
    prefix: str = ""  # its beginning that stays, as `--hosts=` in `--hosts=n1`
    takes: Takes | None = None  # the value that is wanted; `None` where there is none
    options: Mapping[str, Option] = {}  # the options that fit, by their flags
    given: tuple[str, ...] = ()  # the words before, for `--cluster`

    @property
    def cluster(self) -> str:
        """The cluster file that the command line names; empty for none."""
        for number, word in enumerate(self.given):
            flag, has_value, value = word.partition("=")
            if flag == "--cluster":
                return value if has_value else "".join(self.given[number + 1 : number + 2])
        return ""


class Reader:
    """Goes through the words of a command line up to the cursor. `table`: all tasks."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.task, self.missing, self.used = CORE, list[Takes](), set[str]()
        self.waiting: Takes | None = None

    def read(self, word: str) -> None:
        """Step over a word that is complete."""
        if self.waiting:
            self.waiting = None
        elif word.startswith("-") and len(word) > 1:
            self._read_flag(*word.partition("=")[:2])
        elif self.missing:
            taken = self.missing.pop(0)
            if taken.what == TASKS and word in taken.choices:
                self._enter(word)
        elif word in self._table:
            self._enter(word)

    def _enter(self, name: str) -> None:
        """Begin with a task."""
        self.task, self.used = self._table[name], set()
        self.missing = list(self.task.words)

    def _read_flag(self, flag: str, has_value: str) -> None:
        """Step over an option, and wait for its value where it has none yet."""
        option = self.task.options.get(flag) or CORE_WITH_VALUES.get(flag)
        if option:
            self.waiting = None if has_value else option.takes
            self.used |= set() if option.repeats else {flag}

    def options(self) -> Mapping[str, Option]:
        """The options that can still be given."""
        return {flag: option for flag, option in self.task.options.items() if flag not in self.used}


def wanted(words: Sequence[str], table: Table) -> Wanted:
    """What fits at the end of a command line without the program's name; the last word is in front of the cursor."""
    *before, word = words or [""]
    given, reader = tuple(before), Reader(table)
    for one in given:
        reader.read(one)
    if reader.waiting:
        return Wanted(word, takes=reader.waiting, given=given)
    flag, has_value, value = word.partition("=")
    if flag.startswith("--") and has_value:
        option = reader.task.options.get(flag)
        return Wanted(value, f"{flag}=", option.takes if option else None, given=given)
    if word.startswith("-"):
        return Wanted(word, options=reader.options(), given=given)
    if reader.missing:
        return Wanted(word, takes=reader.missing[0], given=given)
    if reader.task is CORE or word:
        return Wanted(word, takes=Takes(TASKS), given=given)
    return Wanted(word, options=reader.options(), given=given)


def split(line: str) -> list[str]:
    """The words of a command line that may end in the middle of one, with quotes taken off.

    >>> split("fab drain 'n[1-2")
    ['fab', 'drain', 'n[1-2']
    >>> split("fab drain ")
    ['fab', 'drain', '']
    """
    words, quote, is_word = [""], "", False
    characters = iter(line)
    for character in characters:
        if character == "\\" and quote != "'":
            words[-1] += next(characters, "")
            is_word = True
        elif quote:
            quote, words[-1] = ("", words[-1]) if character == quote else (quote, words[-1] + character)
        elif character in "'\"":
            quote, is_word = character, True
        elif not character.isspace():
            words[-1] += character
            is_word = True
        elif is_word:
            words.append("")
            is_word = False
    return words


class Candidates(NamedTuple):
    """What a shell may offer."""

    kind: str = WORDS  # one of `WORDS`, `FILES`, `DIRECTORIES`
    # the words with their explanations, which may be empty; each is the whole word, prefix included. For a path it is
    # one word, its beginning.
    words: tuple[tuple[str, str], ...] = ()


def candidates(wanted: Wanted, table: Table) -> Candidates:
    """The values that fit. `wanted`: where the cursor is."""
    if wanted.takes is None:
        fitting = {flag: option.help for flag, option in wanted.options.items() if flag.startswith(wanted.word)}
        return Candidates(words=tuple(sorted(fitting.items())))
    if wanted.takes.what in (takes.FILE, takes.DIRECTORY):
        return Candidates(FILES if wanted.takes.what == takes.FILE else DIRECTORIES, ((wanted.word, ""),))
    if wanted.takes.what == takes.TASKS:
        known = wanted.takes.choices or table
        return Candidates(words=tuple((one, table[one].help) for one in known if one.startswith(wanted.word)))
    chosen, word = last_of_list(wanted.word) if wanted.takes.many else ("", wanted.word)
    if wanted.takes.what in HOSTS_LIKE and word.startswith("@"):
        return in_host_file(word, wanted.prefix + chosen)
    there = values(wanted.takes, ClusterValues(wanted.cluster), word)
    others = set(chosen.split(","))
    fitting_values = (name for name in there if name.startswith(word) and name not in others)
    return Candidates(words=tuple((f"{wanted.prefix}{chosen}{name}", "") for name in fitting_values))


def last_of_list(word: str) -> tuple[str, str]:
    """A list with commas, and its last entry; commas in brackets end none.

    >>> last_of_list("n[1,3],n4,n")
    ('n[1,3],n4,', 'n')
    """
    depth, after = 0, 0
    for place, character in enumerate(word):
        depth += (character == "[") - (character == "]")
        if character == "," and depth <= 0:
            after = place + 1
    return word[:after], word[after:]


def values(wanted: takes.Takes, cluster: ClusterValues, word: str) -> Iterable[str]:
    """All values of a kind. `word`: the beginning of the value that is wanted."""
    if wanted.what == takes.CHOICES:
        return wanted.choices
    if wanted.what == takes.LABS:
        from slurmfab.lab.layout import LABS

        return sorted(path.name for path in LABS.glob("*/"))
    if wanted.what == takes.NEW_HOSTS or (wanted.what == takes.HOSTS and not cluster.is_there):
        return hosts_of_ssh_config(os.path.expanduser("~/.ssh/config"))  # noqa: PTH111 - no home is no error
    if wanted.what == takes.OUT_OF_SERVICE:
        return [name for name in cluster.drained if name.startswith(word)] or cluster.named(takes.NODES)
    if wanted.what == takes.RUNS:
        return ("last", *cluster.runs)
    return cluster.named(wanted.what)


def in_host_file(word: str, before: str) -> Candidates:
    """What fits behind `@`: a path, or the groups of that file."""
    path, has_group, group = word[1:].rpartition(":")
    if not has_group:
        return Candidates(FILES, ((group, ""),))
    return Candidates(words=tuple((f"{before}@{path}:{name}", "") for name in groups(path) if name.startswith(group)))


def groups(path: str) -> Iterable[str]:
    """The groups of a file with hosts; none where it cannot be read."""
    from slurmfab.base import bounded_file
    from slurmfab.base.errors import SlurmfabError
    from slurmfab.cluster.host_files import selection

    with suppress(OSError, RuntimeError, UnicodeDecodeError, SlurmfabError):
        text = bounded_file.read(Path(path).expanduser(), MOST_BYTES).decode()
        return sorted(selection.read(text, path).groups)
    return ()


def hosts_of_ssh_config(path: str) -> Iterable[str]:
    """The hosts that an ssh_config names; patterns are none."""
    from slurmfab.base import bounded_file
    from slurmfab.base.errors import SlurmfabError

    with suppress(OSError, UnicodeDecodeError, SlurmfabError):
        lines = re.findall(SSH_HOST, bounded_file.read(Path(path), MOST_BYTES).decode())
        return dict.fromkeys(name for line in lines for name in line.split() if not re.search(r"[*?!#\"]", name))
    return ()
