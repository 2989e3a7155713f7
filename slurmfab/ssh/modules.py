"""Which of the agent's modules a request needs: those alone travel to a host, and later requests bring what they lack.

The agent imports lazily, and so it is told from the text of its modules: whatever a module imports anywhere, it may
need. Only of `main`, which imports something else for each operation, just the operation's part counts.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Any

from slurmfab.agent.kinds import KINDS
from slurmfab.agent.main import OPERATIONS, READINGS

PACKAGE = "slurmfab.agent"
FIRST = ("boot", "compiled", "main")
"""What runs before any request is read."""

KEEPER = "kept"
"""What keeps files as they were before a change; a dry run changes nothing, and goes without it."""

IMPORT = re.compile(rf"^( *)from {re.escape(PACKAGE)}(?:\.(\w+) import|\s+import\s+(\([^)]*\)|[^#\n(]*))", re.MULTILINE)
"""The two forms of imports within the package (a test compares with Python's own parser)."""


@functools.cache
def names() -> frozenset[str]:
    """The names of all modules of the agent."""
    files = resources.files(PACKAGE).iterdir()
    return frozenset(file.name[:-3] for file in files if file.name.endswith(".py") and file.name != "__init__.py")


@functools.cache
def source(name: str) -> str:
    """The source text of a module, read as package data, so that an installed wheel works as a checkout does."""
    return resources.files(PACKAGE).joinpath(f"{name}.py").read_text(encoding="utf-8")


def imported(text: str, *, at_top: bool = False) -> frozenset[str]:
    """The names of the agent's modules that a source text imports.

    Args:
        text: of a module, or of a part of one.
        at_top: whether only imports count that are not inside of anything.
    """
    found: set[str] = set()
    for indent, module, several in IMPORT.findall(text):
        if not (at_top and indent):
            found |= {module} if module else set(re.findall(r"\w+", re.sub(r"\bas \w+|#.*", "", several)))
    return frozenset(found)


def closure(roots: Iterable[str]) -> frozenset[str]:
    """Modules with all that they import, and all that those import, and so on."""
    seen: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += imported(source(name), at_top=name == "main")
    return frozenset(seen)


def needed(request: Mapping[str, Any]) -> frozenset[str]:
    """The names of the modules that a request needs; of one that the agent will refuse, what it takes to say so.

    Args:
        request: as for `slurmfab.agent.main`.
    """
    kinds = {resource["kind"] for resource in request.get("resources", ()) if resource.get("kind") in KINDS}
    return _needed(str(request.get("op", "")), bool(request.get("dry_run")), frozenset(kinds))


@functools.cache
def _needed(operation: str, dry_run: bool, kinds: frozenset[str]) -> frozenset[str]:
    roots = {*FIRST, *(KINDS[kind].partition(":")[0] for kind in kinds)}
    if operation in OPERATIONS:
        roots |= imported(part_of_main(OPERATIONS[operation].__name__))
    if operation in READINGS:
        roots.add(READINGS[operation])
    if operation == "apply" and dry_run:
        roots.discard(KEEPER)
    return closure(roots)


def part_of_main(function: str) -> str:
    """The text of a function of `main`."""
    return source("main").partition(f"\ndef {function}(")[2].partition("\n\n\n")[0]
