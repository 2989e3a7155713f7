"""The modules that run on a host: of the agent, only those that a request needs are sent there; of a program, its own.

The agent imports lazily, so the imports are read from the source text: a module may need whatever it imports anywhere.
`main` imports different modules for each operation, so only the operation's function counts there.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from typing import TYPE_CHECKING, Any

from slurmfab.on_hosts.agent.kinds import KINDS
from slurmfab.on_hosts.agent.main import OPERATIONS, READINGS

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

ON_HOSTS = "slurmfab.on_hosts"
PACKAGE = f"{ON_HOSTS}.agent"
"""Packages, below which modules have their names: `core.resource` is `agent.core.resource` in the first one."""

FIRST = ("boot", "compiled", "main")  # the modules that run before a request is read
KEEPER = "undo.undo_store"  # the module that saves files before a change; a dry run does not need it


@functools.cache
def folder(package: str) -> Traversable:
    """The data of a package."""
    return resources.files(package)


@functools.cache
def names(package: str = PACKAGE) -> frozenset[str]:
    """The names of all modules of a package, such as `main` and `files.file`."""

    def below(folder: Traversable, prefix: str) -> Iterator[str]:
        for entry in folder.iterdir():
            if entry.is_dir():
                yield from below(entry, f"{prefix}{entry.name}.")
            elif entry.name.endswith(".py") and entry.name != "__init__.py":
                yield prefix + entry.name[:-3]

    return frozenset(below(folder(package), ""))


@functools.cache
def source(name: str, package: str = PACKAGE) -> str:
    """The source text of a module, read as package data, so that it works from a wheel and from a checkout."""
    return folder(package).joinpath(f"{name.replace('.', '/')}.py").read_text(encoding="utf-8")


@functools.cache
def import_in(package: str) -> re.Pattern[str]:
    """An import within a package: from a module, or of modules. A test compares it with Python's parser."""
    return re.compile(rf"^( *)from {re.escape(package)}\.([\w.]+)\s+import\s+(\([^)]*\)|[^#\n(]*)", re.MULTILINE)


def imported(text: str, package: str = PACKAGE, *, at_top: bool = False) -> frozenset[str]:
    """The package's modules that a source, or a part of it, imports; `at_top`: without indentation alone."""
    found: set[str] = set()
    for indent, module, several in import_in(package).findall(text):
        if not (at_top and indent):
            if module in names(package):
                found.add(module)
                continue
            imports = re.findall(r"\w+", re.sub(r"\bas \w+|#.*", "", several))
            found |= {f"{module}.{name}" for name in imports}
    return frozenset(found)


def closure(roots: Iterable[str], package: str = PACKAGE) -> frozenset[str]:
    """Modules with all modules of the package that they import, directly or indirectly."""
    seen: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += imported(source(name, package), package, at_top=(name, package) == ("main", PACKAGE))
    return frozenset(seen)


def needed(request: Mapping[str, Any]) -> frozenset[str]:
    """The modules that a request (`slurmfab.on_hosts.agent.main`) needs, or its refusal."""
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
