"""The modules of the agent that a request needs: only they are sent to a host, and later requests send missing ones.

The agent imports lazily, so the imports are read from the source text: a module may need whatever it imports anywhere.
`main` imports different modules for each operation, so only the operation's function counts there.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Any

from slurmfab.on_hosts.agent.kinds import KINDS
from slurmfab.on_hosts.agent.main import OPERATIONS, READINGS

PACKAGE = "slurmfab.on_hosts.agent"
FIRST = ("boot", "compiled", "main")
"""The modules that run before a request is read."""

KEEPER = "undo.undo_store"
"""The module that saves files before a change; a dry run does not need it."""

IMPORT = re.compile(rf"^( *)from {re.escape(PACKAGE)}\.([\w.]+)\s+import\s+(\([^)]*\)|[^#\n(]*)", re.MULTILINE)
"""An import within the package: from a module, or of modules. A test compares it with Python's parser."""


@functools.cache
def names() -> frozenset[str]:
    """The names of all modules of the agent, such as `main` and `files.file`."""
    top = resources.files(PACKAGE)
    folders = [("", top), *((f"{entry.name}.", entry) for entry in top.iterdir() if entry.is_dir())]
    return frozenset(
        folder + file.name[:-3]
        for folder, entries in folders
        for file in entries.iterdir()
        if file.name.endswith(".py") and file.name != "__init__.py"
    )


@functools.cache
def source(name: str) -> str:
    """The source text of a module, read as package data, so that it works from a wheel and from a checkout."""
    return resources.files(PACKAGE).joinpath(f"{name.replace('.', '/')}.py").read_text(encoding="utf-8")


def imported(text: str, *, at_top: bool = False) -> frozenset[str]:
    """The names of the agent's modules that a source text imports.

    Args:
        text: the source text of a module, or a part of it.
        at_top: whether only imports without indentation count.
    """
    found: set[str] = set()
    for indent, module, several in IMPORT.findall(text):
        if not (at_top and indent):
            imports = re.findall(r"\w+", re.sub(r"\bas \w+|#.*", "", several))
            found |= {module} if module in names() else {f"{module}.{name}" for name in imports}
    return frozenset(found)


def closure(roots: Iterable[str]) -> frozenset[str]:
    """Modules with all modules that they import, directly or indirectly."""
    seen: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += imported(source(name), at_top=name == "main")
    return frozenset(seen)


def needed(request: Mapping[str, Any]) -> frozenset[str]:
    """The names of the modules that a request needs; for an invalid request, those that the agent needs to refuse it.

    Args:
        request: JSON values, see `slurmfab.on_hosts.agent.main`.
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
    """The source text of a function in `main`."""
    return source("main").partition(f"\ndef {function}(")[2].partition("\n\n\n")[0]
