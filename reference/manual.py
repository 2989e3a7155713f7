"""Manual pages, as man(7) wants them: `slurmfab.1` about all tasks, and a page about each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import groupby

from reference.description import Description, Option, all_tasks
from slurmfab import __version__
from slurmfab.base.exit_codes import EXIT_CODES
from slurmfab.base.program_name import FAB

PROGRAM = "slurmfab"
"""The program that a manual page is about; `fab` is Fabric's, with a page of its own."""

FILES = (
    ("configs/cluster.yaml", "The cluster file; --cluster or SLURMFAB_CLUSTER names another."),
    ("configs/cluster.lock.json", "What slurmfab found and decided: addresses, host keys, hardware, numbers of users."),
    ("configs/cluster.runs/", "Records of what was done to the cluster, when, and by whom."),
    ("fabfile.py", "By this file fab finds the same tasks in its directory, and both find those of this site."),
    ("~/.ssh/config, ~/.ssh/known_hosts", "Are used as ssh(1) uses them."),
)
ENVIRONMENT = (
    ("SLURMFAB_CLUSTER", "The cluster file, where --cluster names none."),
    ("SLURMFAB_FABFILE", "With the value no, slurmfab loads no fabfile.py."),
    ("SLURMFAB_UBUNTU_MIRROR", "Where lab-up finds packages for hosts with Ubuntu: http://MIRROR/ubuntu."),
    ("NO_COLOR", "No colours, if it is set."),
)
SPECIAL = {"\\": r"\e", "~": r"\(ti", "^": r"\(ha", "`": r"\(ga", "'": r"\(aq", '"': r"\(dq"}
"""Characters that roff would set as others, or that mean something to it (groff_char(7))."""


def pages() -> dict[str, Callable[[], str]]:
    """What makes the text of each manual page, by its file."""
    tasks = all_tasks()
    of_tasks = {f"{PROGRAM}-{task.name}.1": partial(page, task) for task in tasks}
    return {f"{PROGRAM}.1": lambda: text_of(about_all(tasks)), **of_tasks}


def page(task: Description) -> str:
    """The page about a task."""
    return text_of(about(task))


def text_of(lines: Iterable[str]) -> str:
    """The lines as a file."""
    return "\n".join(lines) + "\n"


def about_all(tasks: Iterable[Description]) -> Iterator[str]:
    """Yield the lines of the page about all tasks."""
    yield from heading(PROGRAM)
    yield from section("Name", f"{PROGRAM} \\- builds a Slurm cluster over SSH, and keeps it working")
    yield from section("Synopsis", f".B {PROGRAM}", plain("TASK [OPTIONS]"))
    yield from section(
        "Description",
        plain(
            "slurmfab turns bare Debian and Ubuntu machines into a working Slurm cluster over SSH, and keeps it "
            "working. A cluster file describes the cluster; deploy makes the hosts what it says. Each task has a page "
            "of its own: man slurmfab-deploy. With a fabfile.py in the directory, fab does the same as slurmfab."
        ),
    )
    yield ".SH TASKS"
    for group, members in groupby(tasks, key=lambda task: task.group):
        yield f".SS {quoted(group)}"
        for task in members:
            yield from item(bold(f"{PROGRAM}-{task.name}") + "(1)", task.summary)
    yield ".SH EXIT STATUS"
    for number, code in sorted(EXIT_CODES.items()):
        yield from item(bold(str(number)), f"{code.meaning} {code.to_do}")
    yield ".SH ENVIRONMENT"
    for name, text in ENVIRONMENT:
        yield from item(bold(name), text)
    yield ".SH FILES"
    for name, text in FILES:
        yield from item(italic(name), text)
    yield from section("See also", ".BR ssh (1),", ".BR slurm.conf (5)")


def about(task: Description) -> Iterator[str]:
    """Yield the lines of the page about a task."""
    name = f"{PROGRAM}-{task.name}"
    yield from heading(name)
    yield from section("Name", f"{plain(name)} \\- {plain(task.summary.rstrip('.'))}")
    words = [italic(word.name) for word in task.words]
    options = [plain("[OPTIONS]")] if task.options else []
    rest = [plain("--"), italic(task.rest.name)] if task.rest else []
    yield from section("Synopsis", " ".join([bold(f"{PROGRAM} {task.name}"), *words, *options, *rest]))
    yield ".SH DESCRIPTION"
    yield plain(task.summary)
    for paragraph in task.paragraphs:
        yield from (".PP", plain(paragraph))
    if task.words or task.options:
        yield ".SH OPTIONS"
    for word in (*task.words, *([task.rest] if task.rest else [])):
        yield from item(italic(word.name), sentence(word.help))
    for option in task.options:
        yield from item(flags(option), told(option))
    if task.examples:
        yield from section("Examples", ".EX", *(plain(line) for line in task.examples), ".EE")
    yield ".SH EXIT STATUS"
    for number, meaning in sorted(task.exit_codes.items()):
        yield from item(bold(str(number)), sentence(meaning))
    yield from section("See also", f".BR {PROGRAM} (1)")


def heading(name: str, part: int = 1) -> Iterator[str]:
    """Yield the first line of a page; without a date, so that a page changes only with what it says.

    Args:
        name: of the page.
        part: the section of the manual.
    """
    yield f'.TH {quoted(name.upper())} {part} "" {quoted(f"{PROGRAM} {__version__}")} {quoted(PROGRAM)}'


def section(title: str, *lines: str) -> Iterator[str]:
    """Yield a section."""
    yield f".SH {title.upper()}"
    yield from lines


def item(tag: str, text: str) -> Iterator[str]:
    """Yield an entry of a list: a tag, and below it what it is."""
    yield from (".TP", tag, plain(text))


def flags(option: Option) -> str:
    """How an option is typed."""
    value = f" {italic(option.value)}" if option.value else ""
    return ", ".join(bold(flag) + (value if flag.startswith("--") else "") for flag in option.flags)


def told(option: Option) -> str:
    """What an option does, with its default."""
    default = f" (default: {option.default})" if option.default else ""
    repeatable = " It may be given several times." if option.is_repeatable and "repeat" not in option.help else ""
    return f"{sentence(option.help + default)}{repeatable}"


def sentence(text: str) -> str:
    """A text with a full stop."""
    return f"{text.rstrip('.')}."


def plain(text: str) -> str:
    r"""A text as roff sets it, with the program's name in command lines that are written for `fab`.

    >>> plain("--yes: 'fab deploy'")
    "\\-\\-yes: \\(aqslurmfab deploy\\(aq"
    """
    named = re.sub(rf"\b{FAB} (?=[a-z])", f"{PROGRAM} ", text)
    escaped = "".join(SPECIAL.get(one, one if one.isascii() else rf"\[u{ord(one):04X}]") for one in named)
    escaped = escaped.replace("-", r"\-")
    # What a line begins with could be a request.
    return rf"\&{escaped}" if escaped.startswith(".") else escaped


def bold(text: str) -> str:
    """A text in bold."""
    return rf"\fB{plain(text)}\fR"


def italic(text: str) -> str:
    """A text in italics, as names of values and files are."""
    return rf"\fI{plain(text)}\fR"


def quoted(text: str) -> str:
    """A text as one argument of a request."""
    return f'"{plain(text)}"'
