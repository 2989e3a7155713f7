"""Programs that stay on hosts are whole: they hold every module of ours that they import, and nothing else."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import slurmfab
from slurmfab.core.plan.phases import user_tools
from slurmfab.core.plan.phases.capability import program_files

TOP = Path(slurmfab.__file__).parents[1]
NAMES = ("containers", "gpu_check", "health", "oci", "power", "scratch", "slurm_metrics")
PROGRAMS = {
    **{name: program_files(f"programs.{name}.main") for name in NAMES},
    "backup": program_files("agent.backup.timed_backup"),
    "user_tools": program_files("programs.user_tools.main", *user_tools.MODULES),
}


def imports(tree: ast.AST) -> Iterator[str]:
    """The modules that a text imports, but for those that only type checkers read."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        else:
            yield from imports(node)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_holds_all_modules_that_it_imports_and_no_others(name: str) -> None:
    there = {path.removesuffix(".py").replace("/", ".") for path, _ in PROGRAMS[name] if "__init__" not in path}
    needed: set[str] = set()
    for _, text in PROGRAMS[name]:
        needed |= {name for name in imports(ast.parse(text)) if (TOP / f"{name.replace('.', '/')}.py").is_file()}
    by_name = {f"slurmfab.on_hosts.{one}" for one in user_tools.MODULES} if name == "user_tools" else set()
    assert there == {"run", *needed, *by_name}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_read_by_python_3_9_and_needs_nothing_but_its_library(name: str) -> None:
    for path, text in PROGRAMS[name]:
        for module in imports(ast.parse(text, feature_version=(3, 9))):
            assert module.split(".")[0] in {*sys.stdlib_module_names, "slurmfab"}, path
