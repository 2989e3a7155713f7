"""The syntax trees of the package, parsed once for all tests of a process that look at them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import slurmfab

PACKAGE = Path(slurmfab.__file__).parent
SOURCES = {str(path.relative_to(PACKAGE)): path for path in sorted(PACKAGE.rglob("*.py"))}
"""The files of the package, by their paths in it."""


@cache
def nodes(name: str) -> tuple[ast.AST, ...]:
    """All nodes of a file's tree, the module first."""
    return tuple(ast.walk(ast.parse(SOURCES[name].read_text())))


def literals(name: str) -> Iterator[str]:
    """The texts in a file, without docstrings."""
    docs = {id(node.value) for node in nodes(name) if isinstance(node, ast.Expr)}
    for node in nodes(name):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value
