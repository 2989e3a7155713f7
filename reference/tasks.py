"""The page of all tasks: how each is called, what it does, its options, examples and exit codes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from reference.description import Description, Option, all_tasks
from reference.markdown import WRITTEN, anchor, code, indented, plain, table, text_of


def page() -> str:
    """The text of the page."""
    return text_of(lines())


def lines() -> Iterator[str]:
    """Yield the lines of the page."""
    yield from (
        "# Tasks",
        "",
        f"`fab TASK` and `slurmfab TASK` are the same. `fab TASK --help` shows what is below. {WRITTEN}",
        "The [exit code](exit-codes.md) after Ctrl-C is 130, whatever the task.",
        "",
    )
    groups = [(group, list(tasks)) for group, tasks in groupby(all_tasks(), key=lambda task: task.group)]
    for group, tasks in groups:
        links = ", ".join(f"[{task.name}](#{anchor(task.name)})" for task in tasks)
        yield f"- [{group}](#{anchor(group)}): {links}"
    for group, tasks in groups:
        yield from ("", f"## {group}")
        for task in tasks:
            yield from about(task)


def about(task: Description) -> Iterator[str]:
    """Yield the lines about a task."""
    yield from ("", f"### {task.name}", "", plain(task.summary), "", *indented([task.usage]), "")
    for paragraph in task.paragraphs:
        yield from (plain(paragraph), "")
    words = (*task.words, *([task.rest] if task.rest else []))
    if words:
        yield from (*(f"- {code(word.name)}: {plain(word.help)}" for word in words), "")
    if task.options:
        yield from table(("option", "default", "meaning"), map(option_row, task.options))
    if task.examples:
        yield from ("", "Examples:", "", *indented(task.examples))
    yield ""
    rows = ((str(number), plain(meaning)) for number, meaning in sorted(task.exit_codes.items()))
    yield from table(("[exit code](exit-codes.md)", "meaning"), rows)


def option_row(option: Option) -> tuple[str, str, str]:
    """A row of the table of options."""
    value = f" {option.value}" if option.value else ""
    flags = ", ".join(code(f"{flag}{value}" if flag.startswith("--") else flag) for flag in option.flags)
    return flags, plain(option.default), plain(option.help)
