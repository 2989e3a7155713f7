"""Which package may import which: two pictures in docs/how-it-works.md hold, and each code path in docs is there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import slurmfab

PACKAGE = Path(slurmfab.__file__).parent
DOCS = PACKAGE.parent / "docs"
MODULES = {
    ".".join(("slurmfab", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
ROW = re.compile(r"^    │ ([a-z_ ]+?) *│")
BELOW_ALL = ("slurmfab", "slurmfab.on_hosts.agent")
"""The packages themselves, which hold a version and a docstring."""


def picture(heading: str) -> list[list[str]]:
    """The rows of a picture in docs/how-it-works.md, from the top: the names of each."""
    text = (DOCS / "how-it-works.md").read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return [match[1].split() for match in map(ROW.match, text.splitlines()) if match]


def imports(path: Path) -> Iterator[str]:
    """The modules of slurmfab that a module imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("slurmfab"))
        elif isinstance(node, ast.ImportFrom) and str(node.module).startswith("slurmfab"):
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in MODULES else str(node.module)


def room(module: str, depth: int) -> str:
    """The package or the loose module that a module is in, as the pictures name it."""
    parts = module.split(".")
    return parts[depth] if len(parts) > depth else ""


LAYERS = picture("Layers")
AGENT = picture("The agent's folders")


@pytest.mark.parametrize(("rows", "inside", "depth"), [(LAYERS, "slurmfab", 1), (AGENT, "slurmfab.on_hosts.agent", 2)])
def test_a_picture_names_every_package_and_module_once(rows: list[list[str]], inside: str, depth: int) -> None:
    there = {room(module, depth) for module in MODULES if module.startswith(f"{inside}.")} - {"", "__main__"}
    assert sorted(name for row in rows for name in row) == sorted(there)


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_from_its_own_package_and_from_lower_rows_alone(module: str) -> None:
    for rows, depth in ((LAYERS, 1), (AGENT, 2)):
        row_of = {name: number for number, row in enumerate(rows) for name in row}
        own = room(module, depth)
        if depth == 2 and not module.startswith("slurmfab.on_hosts.agent.") or own not in row_of:  # noqa: RUF021
            continue
        for imported in imports(MODULES[module]):
            other = room(imported, depth)
            if (
                other == own
                or imported in BELOW_ALL
                or (depth == 2 and not imported.startswith("slurmfab.on_hosts.agent."))
            ):
                continue
            assert row_of[other] > row_of[own], f"{module} imports {imported}, which is not in a lower row"


@pytest.mark.parametrize("page", ["how-it-works.md", "adding-things.md"])
def test_a_page_names_only_code_that_is_there(page: str) -> None:
    named = re.findall(r"`((?:\w+/)+(?:\w+\.(?:py|j2))?|\w+\.py)`", (DOCS / page).read_text())
    roots = (PACKAGE, PACKAGE.parent)
    assert named
    assert [path for path in named if not any((root / path).exists() for root in roots)] == []
