"""The commands that pages show are there, with the options that they are shown with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from reference.description import all_tasks

TOP = Path(__file__).parents[2]
PAGES = sorted([TOP / "README.md", *TOP.glob("docs/**/*.md")])
FLAGS = {
    task.name: {flag for option in task.options for flag in option.flags}
    | {f"--{word.name.lower()}" for word in task.words}
    for task in all_tasks()
}
OF_ALL = {"--help", "--verbose", "-v"}
COMMAND = re.compile(
    r"(?:^ {4,}|^\$ |`)(?:fab|slurmfab) (?!cannot |did )([a-z][a-z-]+)((?: (?!#|&&|\|)[^\s`;|]+)*)", re.M
)
"""A command in a block or in code, up to a comment, a pipe or the next command; some messages begin like one."""


def commands(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the tasks that a page shows, with their long options."""
    for task, words in COMMAND.findall(page.read_text().replace("\\\n", " ")):
        inside = next((word for word in words.split() if word in FLAGS), "") if task == "rehearse" else ""
        own, _, others = words.partition(f" {inside}") if inside else (words, "", "")
        yield task, re.findall(r"(?<= )--[a-z][a-z-]+", own)
        if inside:
            yield inside, re.findall(r"(?<= )--[a-z][a-z-]+", others)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(TOP)))
def test_command_when_a_page_shows_it_then_it_is_a_task_and_has_its_options(page: Path) -> None:
    of_site = re.findall(r"^def (\w+)\(c\b", page.read_text(), re.M)  # tasks of a fabfile on that page
    known = {**FLAGS, **{name: set[str]() for name in of_site}}
    wrong = [(task, flags) for task, flags in commands(page) if not set(flags) <= known.get(task, set()) | OF_ALL]
    wrong += [(task, []) for task, _ in commands(page) if task not in known]
    assert wrong == []


def test_commands_when_counted_then_the_readme_has_many() -> None:
    assert len(list(commands(TOP / "README.md"))) > 10
