"""The commands that pages show are read by Invoke's parser as they stand there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from invoke.exceptions import ParseError
from invoke.parser import Parser

from slurmfab.cli.program import Program
from slurmfab.cli.tasks import TASKS, namespace

TOP = Path(__file__).parents[2]
PAGES = sorted([TOP / "README.md", *TOP.glob("docs/**/*.md")])
COMMAND = re.compile(
    r"(?:^ {4,}|^\$ |`)(?:fab|slurmfab) (?!cannot |did |reads |kernel )([a-z][a-z-]+(?: (?!#|&&|\|)[^\s`;|<>]+)*)", re.M
)
"""A command in a block or in code, up to a comment, a pipe or the next command; some messages begin like one."""
PLACES = re.compile(r"\[(?:OPTIONS|--[^\]]*)\]")  # what may stand there, in a usage
CUT_SHORT = ("needed value and was not given one", "did not receive required positional")  # as in `fab deploy --hosts`


def commands(page: Path) -> Iterator[str]:
    """Yield the commands of slurmfab's tasks that a page shows, without the program."""
    text = page.read_text().replace("\\\n", " ")
    of_site = {name.replace("_", "-") for name in re.findall(r"^def (\w+)\(c\b", text, re.M)}  # of a fabfile there
    yield from (PLACES.sub("", one) for one in COMMAND.findall(text) if one.split()[0] not in of_site)


def mistake(line: str) -> str:
    """What is wrong with a command; empty if Invoke reads it as one task with its words."""
    words = shlex.split(line) if line.count("'") % 2 == line.count('"') % 2 == 0 else line.split()
    try:
        read = Parser(namespace.to_contexts(), Program().initial_context).parse_argv(words)
    except ParseError as error:
        return "" if any(one in str(error) for one in CUT_SHORT) else str(error)
    tasks = [TASKS[str(context.name)] for context in read if context.name]
    rest = read.remainder if isinstance(read.remainder, str) else ""
    if rest and not any(task.rest for task in tasks):
        return f"nothing takes {rest}"
    if len(tasks) != 1:
        return "these are several tasks"
    if tasks[0].name == "rehearse" and rest not in ("", "COMMAND"):
        return mistake(rest)
    taken = [str(one.value) for context in read for one in context.positional_args]
    return next((f"{one} is taken for a word" for one in taken if one.startswith("-") and one != "-"), "")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(TOP)))
def test_command_when_a_page_shows_it_then_it_is_read_as_it_stands(page: Path) -> None:
    found = {line: mistake(line) for line in commands(page)}
    assert {line: wrong for line, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize("line", ["history last", "rehearse deploy", "ssh n1 uptime", "deploy --dry-run", "drill link"])
def test_command_of_another_form_when_a_page_shows_it_then_it_is_told(line: str) -> None:
    assert mistake(line)


def test_commands_when_counted_then_the_readme_has_many() -> None:
    assert len(list(commands(TOP / "README.md"))) > 10
