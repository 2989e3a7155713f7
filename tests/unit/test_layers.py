"""Which package may import which: two pictures in docs/how-it-works.md hold, and each code path in docs is there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from source_trees import PACKAGE, SOURCES, nodes

DOCS = PACKAGE.parent / "docs"
MODULES = {
    ".".join(("slurmfab", *Path(name).with_suffix("").parts)).removesuffix(".__init__"): name for name in SOURCES
}
ROW = re.compile(r"^    (?:├─ (?P<room>\w+): .*|│ (?P<names>[a-z_ ]+?) *│.*)$")
AGENT_PACKAGE = "slurmfab.on_hosts.agent"


def picture(heading: str, above: str = "slurmfab") -> dict[str, int]:
    """The number of its row, from the top, of each module or package that a picture in docs/how-it-works.md names."""
    text = (DOCS / "how-it-works.md").read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows, inside = {}, above
    for number, match in enumerate(filter(None, map(ROW.match, text.splitlines()))):
        if match["room"]:
            inside = f"{above}.{match['room']}"
            rows[inside] = number
        else:
            rows.update({f"{inside}.{name}": number for name in match["names"].split()})
    return rows


def imports(source: str) -> Iterator[str]:
    """The modules of slurmfab that a file imports, wherever in it."""
    for node in nodes(source):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("slurmfab"))
        elif isinstance(node, ast.ImportFrom) and str(node.module).startswith("slurmfab"):
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in MODULES else str(node.module)


ROWS = picture("Layers")
AGENT = picture("The agent's folders", AGENT_PACKAGE)


def divided(rows: dict[str, int]) -> set[str]:
    """Packages whose parts a picture names; they hold a docstring themselves."""
    return {name.rpartition(".")[0] for name in rows}


def named(module: str, rows: dict[str, int]) -> str:
    """The longest part of a module's name that a picture names; empty for none."""
    parts = module.split(".")
    return next((name for size in range(len(parts), 1, -1) if (name := ".".join(parts[:size])) in rows), "")


@pytest.mark.parametrize(("rows", "inside"), [(ROWS, "slurmfab"), (AGENT, AGENT_PACKAGE)])
def test_a_picture_names_every_package_and_module_once(rows: dict[str, int], inside: str) -> None:
    there = {module for module in MODULES if module.startswith(f"{inside}.")} - divided(rows) - {"slurmfab.__main__"}
    assert {module for module in there if named(module, rows) in ("", *divided(rows))} == set()
    assert {named(module, rows) for module in there} == set(rows) - divided(rows)


def test_a_module_imports_from_its_own_package_and_from_lower_rows_alone() -> None:
    wrong = []
    for module, source in MODULES.items():
        imported = {*imports(source)}
        for rows in (ROWS, AGENT):
            own, apart = named(module, rows), divided(rows)
            if own and module not in apart:
                others = {one: named(one, rows) for one in imported - apart}
                wrong += [(module, one) for one, at in others.items() if at not in ("", own) and rows[at] <= rows[own]]
    assert wrong == []


@pytest.mark.parametrize("page", ["how-it-works.md", "adding-things.md"])
def test_a_page_names_only_code_that_is_there(page: str) -> None:
    named = re.findall(r"`((?:\w+/)+(?:\w+\.(?:py|j2))?|\w+\.py)`", (DOCS / page).read_text())
    roots = (PACKAGE, PACKAGE.parent)
    assert named
    assert [path for path in named if not any((root / path).exists() for root in roots)] == []
