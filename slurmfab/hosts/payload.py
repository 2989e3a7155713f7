"""How the agent starts on a host: by a constant Python text in the command line, and modules on its standard input.

deployer -> host   python3 -I -B -S -c BOOT             (the command line has only this constant)
host -> deployer   slurmfab-agent 1                      (the program runs, so sudo asks no more)
deployer -> host   BYTES of the payload, newline, payload(of the modules that the first request needs)
then requests and answers, see `slurmfab.on_hosts.agent.main`; before a request that needs further modules, a frame with
those
"""

from __future__ import annotations

import functools
import json
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from slurmfab.base.program_name import FAB
from slurmfab.hosts.compressed import compressed
from slurmfab.on_hosts.agent.kinds import KINDS
from slurmfab.on_hosts.agent.main import MODULE_OF, MODULES, OF_OWN_NUMBERS, OPERATIONS

ON_HOSTS = "slurmfab.on_hosts"
PACKAGE = f"{ON_HOSTS}.agent"
"""Packages, below which modules have their names: `core.resource` is `agent.core.resource` in the first one."""

FIRST = ("boot", "compiled", "main")  # the modules that run before a request is read
KEEPER = "undo.undo_store"  # the module that saves files before a change; a dry run does not need it


_CHOOSING = threading.Lock()  # many hosts need the same modules at the same time; they are looked for once


@functools.cache
def folder(package: str) -> str:
    """The directory of a package."""
    return str(Path(__file__).parents[2] / package.replace(".", "/"))


@functools.cache
def module_names(package: str = PACKAGE) -> frozenset[str]:
    """The names of all modules of a package, such as `main` and `files.file`."""

    def below(folder: str, prefix: str) -> Iterator[str]:
        for entry in os.scandir(folder):
            if entry.is_dir():
                yield from below(entry.path, f"{prefix}{entry.name}.")
            elif entry.name.endswith(".py") and entry.name != "__init__.py":
                yield prefix + entry.name[:-3]

    return frozenset(below(folder(package), ""))


@functools.cache
def source_of(name: str, package: str = PACKAGE) -> str:
    """The source text of a module."""
    return Path(f"{folder(package)}/{name.replace('.', '/')}.py").read_text(encoding="utf-8")


@functools.cache
def import_in(package: str) -> re.Pattern[str]:
    """An import within a package: from a module, or of modules. A test compares it with Python's parser."""
    return re.compile(rf"^( *)from {re.escape(package)}\.([\w.]+)\s+import\s+(\([^)]*\)|[^#\n(]*)", re.MULTILINE)


def imported(text: str, package: str = PACKAGE, *, at_top: bool = False) -> frozenset[str]:
    """The package's modules that a source, or a part of it, imports; `at_top`: without indentation alone."""
    found: set[str] = set()
    for indent, module, several in import_in(package).findall(text):
        if not (at_top and indent):
            if module in module_names(package):
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
            waiting += imported(source_of(name, package), package, at_top=(name, package) == ("main", PACKAGE))
    return frozenset(seen)


def needed_modules(request: Mapping[str, Any]) -> frozenset[str]:
    """The modules that a request (`slurmfab.on_hosts.agent.main`) needs, or its refusal."""
    kinds = {resource["kind"] for resource in request.get("resources", ()) if resource.get("kind") in KINDS}
    with _CHOOSING:
        found = _needed(str(request.get("op", "")), bool(request.get("dry_run")), frozenset(kinds))
        return together(found, closure_of_own_numbers()) if request.get("own_numbers") else found


@functools.cache
def closure_of_own_numbers() -> frozenset[str]:
    """The modules that facts need besides where there is a directory."""
    return closure({OF_OWN_NUMBERS})


@functools.cache
def together(some: frozenset[str], others: frozenset[str]) -> frozenset[str]:
    """Two sets of modules as one, which all hosts have in common."""
    return some | others


@functools.cache
def _needed(operation: str, dry_run: bool, kinds: frozenset[str]) -> frozenset[str]:
    roots = {*FIRST, *(KINDS[kind].partition(":")[0] for kind in kinds)}
    if operation in OPERATIONS:
        of_operation = source_of("main").partition(f"\ndef {OPERATIONS[operation].__name__}(")[2]
        roots |= imported(of_operation.partition("\n\n\n")[0])
    if operation in MODULE_OF:
        roots.add(MODULE_OF[operation])
    if operation == "apply" and dry_run:
        roots.discard(KEEPER)
    return closure(roots)


PROGRAM_NAME = "core.program_name"  # the module that holds the name of the program that users run
GREETING = "slurmfab-agent 1"  # the first line of the agent's output, with the version of this protocol


def boot(more: str = "") -> str:
    """The Python text that starts the agent, with `more` arguments; `os._exit` ends threads that wait."""
    return (
        "import json,os,sys,zlib;"
        f'print("{GREETING}",flush=True);'
        "i=sys.stdin.buffer;"
        "s=json.loads(zlib.decompress(i.read(int(i.readline()))).decode());"
        'n="slurmfab.on_hosts.agent.boot";'
        'm={"__name__":n};'
        'exec(compile(s[n],"slurmfab/on_hosts/agent/boot.py","exec"),m);'
        f'os._exit(m["run"](s{more}))'
    )


BOOT = boot()
BOOT_WITHOUT_TRACE = boot(',""')  # the same for tests on the deployer: no compiled modules are stored

FLAGS = ("-I", "-B", "-S")
"""Options of python3 for the agent: only the standard library, and no `site`, which takes a quarter of its start."""


_PACKED: dict[frozenset[str], bytes] = {}
_PACKING = threading.Lock()  # they are compressed once, too


def payload(names: frozenset[str] | None = None) -> bytes:
    """Modules (names without package, `None` for all) as zlib-compressed JSON of sources by full name."""
    wanted = module_names() if names is None else names
    with _PACKING:
        if wanted not in _PACKED:
            sources = {f"{PACKAGE}.{name}": source_sent(name) for name in sorted(wanted)}
            _PACKED[wanted] = compressed(json.dumps(sources).encode("ascii"))
        return _PACKED[wanted]


def source_sent(name: str) -> str:
    """The source text of a module as it is sent, with the name under which this program was called."""
    text = source_of(name)
    return text.replace('FAB = "fab"', f'FAB = "{FAB}"') if name == PROGRAM_NAME else text


def more(names: frozenset[str]) -> bytes:
    """The frame that sends further modules to a running agent; the agent does not answer it."""
    packed = payload(names)
    return b"%d\n%s%s" % (len(MODULES) + len(packed), MODULES, packed)
