"""The package's source text: documented, in small pieces, and downwards only."""

from __future__ import annotations

import ast
import fnmatch
import re
import runpy
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from source_trees import SOURCES, literals, nodes

MODULE_LINES = 600
FUNCTION_LINES = 80
FRAMES = 41.0  # percent of the package that may be frames of functions and heads of files; it only falls
FOR_SITES = ("slurmfab", "slurmfab.hosts", "slurmfab.cluster", "slurmfab.connections", "slurmfab.namespace")
"""What a site's own tasks import (docs/own-tasks.md)."""

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@cache
def imported() -> dict[str, set[str]]:
    """The modules that each module imports, wherever in it."""
    found: dict[str, set[str]] = {name: set() for name in SOURCES}
    for name in SOURCES:
        for node in nodes(name):
            if isinstance(node, ast.ImportFrom):
                found[name].add(node.module or "")
            elif isinstance(node, ast.Import):
                found[name] |= {alias.name for alias in node.names}
    return found


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


def functions(name: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """The functions of a module with their full names."""
    for thing, node in definitions(nodes(name)[0]):
        if not isinstance(node, ast.ClassDef):
            yield thing, node


def documented(name: str) -> dict[str, str | None]:
    """What a module has docstrings for, itself included, with these."""
    tree = nodes(name)[0]
    assert isinstance(tree, ast.Module)
    return {"the module": ast.get_docstring(tree)} | {thing: ast.get_docstring(one) for thing, one in definitions(tree)}


def test_modules_classes_and_all_that_sites_import_have_docstrings() -> None:
    classes = {
        (name, thing)
        for name in SOURCES
        for thing, node in definitions(nodes(name)[0])
        if isinstance(node, ast.ClassDef)
    }
    lacking = [
        (name, thing)
        for name in SOURCES
        for thing, text in documented(name).items()
        if is_public(thing) and not text and (thing == "the module" or (name, thing) in classes or name in FOR_SITES)
    ]
    assert lacking == []


def test_frames_of_functions_and_heads_of_files_are_a_small_part_of_the_package() -> None:
    share_of_frames = runpy.run_path(str(Path(__file__).parents[2] / "docs/structure.py"))["share_of_frames"]
    assert share_of_frames(path for name, path in SOURCES.items() if name.startswith("slurmfab")) < FRAMES


def test_a_docstrings_first_line_is_a_sentence_on_one_line() -> None:
    # The first line of a check is its name in the table of results.
    first_lines = {
        (name, thing): text.splitlines()[0]
        for name in SOURCES
        for thing, text in documented(name).items()
        if text and not thing.startswith("test_")
    }
    assert [place for place, line in first_lines.items() if not line.endswith((".", ":", "?"))] == []


def test_a_module_fits_into_a_few_screens() -> None:
    lengths = {name: len(path.read_text().splitlines()) for name, path in SOURCES.items()}
    assert {name: length for name, length in lengths.items() if length > MODULE_LINES} == {}


def test_a_function_can_be_read_without_scrolling() -> None:
    lengths = {
        (name, thing): (node.end_lineno or 0) - node.lineno + 1 for name in SOURCES for thing, node in functions(name)
    }
    assert {place: length for place, length in lengths.items() if length > FUNCTION_LINES} == {}


def test_every_argument_and_result_has_a_type() -> None:
    untyped = [
        (name, thing)
        for name in SOURCES
        for thing, node in functions(name)
        if node.returns is None
        or any(
            argument.annotation is None and argument.arg not in ("self", "cls")
            for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        )
    ]
    assert untyped == []


@pytest.mark.parametrize(
    ("library", "homes"),
    [
        ("invoke", {"cli/*.py", "cli/tasks/*.py", "connections.py", "hosts/executor.py", "hosts/groups.py"}),
        ("argcomplete", {"cli/*.py", "cli/tasks/__init__.py"}),
        ("yaml", {"cluster/inventory/*.py", "cluster/inventory/edits/*.py", "cluster/host_files/ansible.py"}),
        (
            "jinja2",
            {
                "cluster/inventory/site_templates.py",  # the site's, sandboxed; the others are slurmfab's
                "cluster/slurm/render.py",
                "base/markup.py",
                "core/user_guide/markdown.py",
            },
        ),
    ],
)
def test_a_library_is_known_in_one_place(library: str, homes: set[str]) -> None:
    users = {name for name, modules in imported().items() if any(one.split(".")[0] == library for one in modules)}
    assert users
    assert [user for user in users if not any(fnmatch.fnmatch(user, home) for home in homes)] == []


def test_the_command_line_is_read_by_invoke_alone() -> None:
    reads = {
        name
        for name in SOURCES
        for node in nodes(name)
        if isinstance(node, ast.Attribute) and node.attr in ("argv", "orig_argv") and ast.unparse(node.value) == "sys"
    }
    # Processes that ours starts, and programs that stay on hosts, have words of their own.
    assert {name for name in reads if not name.startswith("on_hosts/")} == {"hosts/worker.py", "lab/private_users.py"}


SLURM_COMMANDS = ("squeue", "sinfo", "sacct", "scontrol", "scancel", "sacctmgr")
KNOWS_COMMANDS = {
    "on_hosts/agent/client/commands.py": set(SLURM_COMMANDS),
    "on_hosts/agent/accounting/sacctmgr.py": {"sacctmgr"},
    # Asks the program for its version alone, which needs no slurmctld; a login host has no other program of Slurm's.
    "commands/doctor/hosts.py": {"scontrol"},
    "on_hosts/programs/user_tools/asking.py": {"squeue", "scontrol", "sacctmgr", "sacct"},
    # They run none, and say beside what they quote which one shows it.
    "commands/explain/evidence.py": {"sacctmgr", "sacct", "squeue"},
    "commands/explain/chain.py": {"squeue"},
    "commands/explain/earlier.py": {"sacctmgr"},
    "commands/explain/node_chain.py": {"scontrol"},
    "commands/explain/nodes.py": {"scontrol"},
    "commands/explain/user_chain.py": {"sacctmgr", "scontrol"},
    "commands/explain/waiting.py": {"scontrol"},
    # It runs none, and tells users which they may.
    "on_hosts/programs/user_tools/reasons.py": {"scontrol", "sinfo"},
}
RUNS = re.compile(rf"^({'|'.join(SLURM_COMMANDS)})$|(?<!`)\b({'|'.join(SLURM_COMMANDS)}) +(?:-|[a-z]+=|"
                  r"(?:ping|show|update|create|delete|reconfigure|reboot|takeover)\b)")  # fmt: skip
"""A program's name alone, or with options or words of it; in backquotes it is prose."""


def test_slurms_commands_are_known_in_one_place() -> None:
    found: dict[str, set[str]] = {}
    for name in SOURCES:
        for match in (match for text in literals(name) for match in RUNS.finditer(text)):
            found.setdefault(name, set()).add(match[1] or match[2])
    assert found == KNOWS_COMMANDS


def test_texts_of_others_become_numbers_only_if_all_their_characters_are_decimal_digits() -> None:
    """`"²".isdigit()` is true, and `int("²")` raises ValueError; bytes have no such digits."""
    asked = {
        (name, ast.unparse(node.func))
        for name in SOURCES
        for node in nodes(name)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "isdigit"
    }
    assert asked == {
        ("cluster/inventory/deb_files.py", "size.isdigit"),
        ("on_hosts/agent/services/daemon_log.py", "microseconds.isdigit"),
    }
