"""Programs that stay on hosts are whole: they hold every module of ours that they import, and nothing else."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import slurmfab
from slurmfab.core.plan.phases import backups, gpu_checks, podman, programs, scratch, scripts, user_tools

TOP = Path(slurmfab.__file__).parents[1]
PROGRAMS = {
    "backup": programs.files("agent.backup.timed_backup", backups.MODULES),
    "gpu-check": programs.files("programs.gpu_check.main", gpu_checks.MODULES),
    "podman": programs.files("programs.containers.main", podman.MODULES),
    "scratch": programs.files("programs.scratch.main", scratch.MODULES),
    "user-tools": programs.files("programs.user_tools.main", user_tools.MODULES),
    "health": programs.files("programs.health.main", scripts.HEALTH_MODULES),
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
def test_a_program_holds_all_modules_that_it_imports(name: str) -> None:
    there = {path.removesuffix(".py").replace("/", ".") for path, _ in PROGRAMS[name]}
    for path, text in PROGRAMS[name]:
        ours = {name for name in imports(ast.parse(text)) if (TOP / f"{name.replace('.', '/')}.py").is_file()}
        assert ours <= there, path


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_read_by_python_3_9_and_needs_nothing_but_its_library(name: str) -> None:
    for path, text in PROGRAMS[name]:
        for module in imports(ast.parse(text, feature_version=(3, 9))):
            assert module.split(".")[0] in {*sys.stdlib_module_names, "slurmfab"}, path
