"""Where the cursor is on a command line, and which values fit there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from slurmfab.cli.completion.takes import FILE, TASKS, Entry, Option, Table, Takes

CORE = Entry("", options={"--help": Option("show all tasks"), "--version": Option("show the version")})
"""What may stand in front of the tasks."""

SEARCH_ROOT = Option("", Takes(FILE))
CORE_WITH_VALUES = {"-r": SEARCH_ROOT, "--search-root": SEARCH_ROOT, "-c": SEARCH_ROOT, "--collection": SEARCH_ROOT}
"""Options of `fab` itself, which are stepped over."""


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
            self.missing.pop(0)
        elif word in self._table:
            self.task, self.used = self._table[word], set()
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
