"""The page of exit codes: what each says, in which tasks, and which errors end with it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import slurmfab
from reference.description import all_tasks
from reference.markdown import WRITTEN, anchor, code, plain, table, text_of
from slurmfab.base.errors import SlurmfabError
from slurmfab.base.exit_codes import EXIT_CODES


def page() -> str:
    """The text of the page."""
    return text_of(lines())


def lines() -> Iterator[str]:
    """Yield the lines of the page."""
    yield from (
        "# Exit codes",
        "",
        f"What a task ends with, for scripts and CI. {WRITTEN}",
        "",
        *table(
            ("code", "name", "meaning", "what to do"),
            ((f"[{number}](#exit-code-{number})", one.name, one.meaning, one.to_do)
             for number, one in EXIT_CODES.items()),
        ),
        "",
        "`fab ssh` ends with the code of the command that ran on the host, or with 255.",
        "A command line that `fab` does not understand ends with 1, which is Fabric's own; `slurmfab` ends with 2.",
    )  # fmt: skip
    for number in EXIT_CODES:
        rows = tasks_by_meaning(number)
        yield from ("", f"## Exit code {number}", "", *(table(("meaning", "tasks"), rows) if rows else ["All tasks."]))
    yield from (
        "",
        "## Errors",
        "",
        "What ends a task early is one of these errors; an error below another one is a kind of it. An error of one",
        "host excludes that host, and the others go on: the code is 3, or 1 if it is the controller. The message says",
        "the cause and what to try; [Troubleshooting](../troubleshooting.md) has more about many of them.",
        "",
        *table(("error", "exit code", "meaning"), errors(SlurmfabError, 0)),
    )


def tasks_by_meaning(number: int) -> list[tuple[str, str]]:
    """What an exit code says, and of which tasks."""
    found: dict[str, list[str]] = {}
    for task in all_tasks():
        if number in task.exit_codes:
            link = f"[{task.name}](tasks.md#{anchor(task.name)})"
            found.setdefault(plain(task.exit_codes[number]), []).append(link)
    return [(meaning, ", ".join(links)) for meaning, links in found.items()]


def errors(one: type[SlurmfabError], depth: int) -> Iterator[tuple[str, str, str]]:
    """Yield rows for a kind of errors and all kinds of it."""
    if not depth:
        import_all()
    meaning = inspect.getdoc(one) or ""
    yield f"{'– ' * depth}{code(one.__name__)}", str(one.exit_code), plain(meaning.splitlines()[0])
    for child in sorted(one.__subclasses__(), key=lambda kind: kind.__name__):
        if child.__module__.startswith("slurmfab."):
            yield from errors(child, depth + 1)


def import_all() -> None:
    """Load all modules, since errors are defined in some of them; checks are tests, which only pytest loads."""
    for found in pkgutil.walk_packages(slurmfab.__path__, "slurmfab."):
        if ".checks.test_" not in found.name and not found.name.endswith("__main__"):
            importlib.import_module(found.name)
