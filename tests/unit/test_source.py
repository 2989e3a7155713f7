"""The package's source text: documented, in small pieces, and downwards only."""

from __future__ import annotations

import ast
import fnmatch
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import slurmfab

PACKAGE = Path(slurmfab.__file__).parent
SOURCES = {str(path.relative_to(PACKAGE)): path for path in sorted(PACKAGE.rglob("*.py"))}
MODULE_LINES = 600
FUNCTION_LINES = 40

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@cache
def parsed(path: Path) -> ast.Module:
    """A module's syntax tree, which many tests look at."""
    return ast.parse(path.read_text())


def definitions(tree: ast.AST, inside: str = "") -> Iterator[tuple[str, Definition]]:
    """All classes and functions with their full names, but for those inside functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Definition):
            yield inside + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from definitions(node, f"{inside}{node.name}.")
        elif not isinstance(node, ast.expr):
            yield from definitions(node, inside)


def is_public(name: str) -> bool:
    return not any(part.startswith("_") for part in name.split("."))


@pytest.mark.parametrize("name", SOURCES)
def test_every_public_thing_has_a_docstring(name: str) -> None:
    tree = parsed(SOURCES[name])
    assert ast.get_docstring(tree), "the module has none"
    assert [thing for thing, node in definitions(tree) if is_public(thing) and not ast.get_docstring(node)] == []


@pytest.mark.parametrize("name", SOURCES)
def test_a_docstrings_first_line_is_a_sentence_on_one_line(name: str) -> None:
    tree = parsed(SOURCES[name])
    texts = {thing: ast.get_docstring(node) for thing, node in definitions(tree)} | {
        "the module": ast.get_docstring(tree)
    }
    # The first line of a check is its name in the table of results.
    sentences = {thing: text.splitlines()[0] for thing, text in texts.items() if text and not thing.startswith("test_")}
    assert [thing for thing, line in sentences.items() if not line.endswith((".", ":", "?"))] == []


@pytest.mark.parametrize("name", SOURCES)
def test_a_module_fits_into_a_few_screens(name: str) -> None:
    assert len(SOURCES[name].read_text().splitlines()) <= MODULE_LINES


@pytest.mark.parametrize("name", SOURCES)
def test_a_function_can_be_read_without_scrolling(name: str) -> None:
    lengths = {
        thing: (node.end_lineno or 0) - node.lineno + 1
        for thing, node in definitions(parsed(SOURCES[name]))
        if not isinstance(node, ast.ClassDef)
    }
    assert {thing: length for thing, length in lengths.items() if length > FUNCTION_LINES} == {}


@pytest.mark.parametrize("name", SOURCES)
def test_every_argument_and_result_has_a_type(name: str) -> None:
    untyped = [
        thing
        for thing, node in definitions(parsed(SOURCES[name]))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (
            node.returns is None
            or any(
                argument.annotation is None and argument.arg not in ("self", "cls")
                for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            )
        )
    ]
    assert untyped == []


@pytest.mark.parametrize(
    ("library", "homes"),
    [
        ("invoke", {"cli/tasks/invoke_tasks.py"}),
        ("yaml", {"cluster/inventory/*.py", "cluster/inventory/edits/*.py", "cluster/host_files/ansible.py"}),
        ("jinja2", {"cluster/slurm/render.py", "base/markup.py", "core/user_guide/markdown.py"}),
    ],
)
def test_a_library_is_known_in_one_place(library: str, homes: set[str]) -> None:
    users = set()
    for name, path in SOURCES.items():
        for node in ast.walk(parsed(path)):
            modules = (
                [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else []
            )
            if any(module.split(".")[0] == library for module in modules):
                users.add(name)
    assert users
    assert [user for user in users if not any(fnmatch.fnmatch(user, home) for home in homes)] == []


SLURM_COMMANDS = ("squeue", "sinfo", "sacct", "scontrol", "scancel", "sacctmgr")
KNOWS_COMMANDS = {
    "on_hosts/agent/client/commands.py": set(SLURM_COMMANDS),
    "on_hosts/agent/accounting/sacctmgr.py": {"sacctmgr"},
    # Asks the program for its version alone, which needs no slurmctld; a login host has no other program of Slurm's.
    "commands/doctor/hosts.py": {"scontrol"},
    "on_hosts/programs/user_tools/asking.py": {"squeue", "scontrol", "sacctmgr", "sacct"},
    # They run none, and say beside what they quote which one shows it.
    "commands/explain/evidence.py": {"sacctmgr", "sacct", "squeue"},
    "commands/explain/node_chain.py": {"scontrol"},
    "commands/explain/user_chain.py": {"sacctmgr"},
    "commands/explain/waiting.py": {"scontrol"},
    # It runs none, and tells users which they may.
    "on_hosts/programs/user_tools/reasons.py": {"scontrol", "sinfo"},
}
RUNS = re.compile(rf"^({'|'.join(SLURM_COMMANDS)})$|(?<!`)\b({'|'.join(SLURM_COMMANDS)}) +(?:-|[a-z]+=|"
                  r"(?:ping|show|update|create|delete|reconfigure|reboot|takeover)\b)")  # fmt: skip
"""A program's name alone, or with options or words of it; in backquotes it is prose."""


def test_slurms_commands_are_known_in_one_place() -> None:
    found: dict[str, set[str]] = {}
    for name, path in SOURCES.items():
        tree = parsed(path)
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
                for match in RUNS.finditer(node.value):
                    found.setdefault(name, set()).add(match[1] or match[2])
    assert found == KNOWS_COMMANDS
