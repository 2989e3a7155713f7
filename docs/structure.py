"""Prints the rooms of the package: lines by kind, which room imports which, and the share of frames in the package.

.venv/bin/python docs/structure.py
"""

from __future__ import annotations

import ast
import itertools
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

TOP = Path(__file__).parents[1]
PACKAGE = TOP / "slurmfab"
BESIDE = ("fabfile.py", "reference", "benchmarks")
"""What is beside the package and imports it."""

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
KINDS = ("files", "lines", "code", "docstrings", "comments", "blank")


def sources() -> dict[str, Path]:
    """The package's files and those beside it, by the names of their modules."""
    paths = [*PACKAGE.rglob("*.py"), *(path for name in BESIDE for path in [TOP / name, *(TOP / name).rglob("*.py")])]
    paths = [path for path in sorted(paths) if path.suffix == ".py"]
    return {".".join(path.relative_to(TOP).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


def room(module: str) -> str:
    """The room of a module: a folder of the package, one of its loose modules, or what is beside it."""
    parts = module.split(".")
    return parts[1] if parts[0] == "slurmfab" and len(parts) > 1 else parts[0]


def imports(path: Path, known: dict[str, Path]) -> Iterator[str]:
    """The modules of ours that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            named = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in known else node.module for name in named if {name, node.module} & set(known))


@cache
def imported() -> dict[str, set[str]]:
    """By file, the other files that it imports."""
    known = sources()
    return {name: set(imports(path, known)) - {name} for name, path in known.items()}


def arrows() -> set[tuple[str, str]]:
    """Which room imports which other one; the package's own file, which has its version, is none."""
    pairs = {(room(name), room(other)) for name, others in imported().items() for other in others}
    return {(one, other) for one, other in pairs if other not in (one, "slurmfab")}


def sizes(path: Path) -> Counter[str]:
    """The lines of a file by kind."""
    text = path.read_text()
    tree = ast.parse(text)
    # Docstrings, and texts below constants, which say what these are.
    texts = [
        node
        for one in ast.walk(tree)
        for node in (one.body if isinstance(one, DOCUMENTED) else ())
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    documented_lines = {line for node in texts for line in range(node.lineno, (node.end_lineno or 0) + 1)}
    with path.open("rb") as file:
        comments = sum(
            one.type == tokenize.COMMENT and not one.line[: one.start[1]].strip()
            for one in tokenize.tokenize(file.readline)
        )
    lines = text.splitlines()
    blank = sum(not line.strip() and number not in documented_lines for number, line in enumerate(lines, 1))
    counted = Counter(files=1, lines=len(lines), docstrings=len(documented_lines), comments=comments, blank=blank)
    counted["code"] = len(lines) - len(documented_lines) - comments - blank
    return counted


def table() -> Iterator[str]:
    """The sizes of rooms, as lines of a table."""
    by_room: dict[str, Counter[str]] = {}
    for name, path in sources().items():
        if name.startswith("slurmfab"):
            by_room.setdefault(room(name), Counter()).update(sizes(path))
    by_room["in all"] = sum(by_room.values(), Counter())
    yield f"{'':12}" + "".join(f"{kind:>12}" for kind in KINDS)
    for name, counted in by_room.items():
        yield f"{name:12}" + "".join(f"{counted[kind]:12}" for kind in KINDS)


def share_of_frames(paths: Iterable[Path]) -> float:
    """How many percent of the lines of files are frames of functions and heads of files; the rest is their content.

    A frame is a function's signature, decorators, docstring and the blank lines before it; a head is all before the
    first statement that is no docstring and no import.
    """
    lines = outside = 0
    for path in paths:
        text = path.read_text().splitlines()
        tree = ast.parse("\n".join(text))
        content = [first_line(node) for node in tree.body if not is_head(node)]
        head = content[0] - 1 if content else len(text)
        lines, outside = lines + len(text), outside + head
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                start, body = first_line(node), node.body[0]
                before = itertools.takewhile(lambda line: not line.strip(), reversed(text[head : start - 1]))
                documented = (body.end_lineno or 0) - body.lineno + 1 if is_docstring(body) else 0
                outside += body.lineno - start + documented + len([*before])
    return 100 * outside / max(lines, 1)


def first_line(node: ast.stmt) -> int:
    """The line of a statement's first decorator, or of itself."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(one.lineno for one in decorators)])


def is_docstring(node: ast.stmt) -> bool:
    """Whether a statement is a text alone."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def is_head(node: ast.stmt) -> bool:
    """Whether a statement belongs to a file's head: a docstring, an import, or imports for types alone."""
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test)
    return is_docstring(node) or isinstance(node, ast.Import | ast.ImportFrom)


if __name__ == "__main__":
    print(*table(), sep="\n")  # noqa: T201 - the answer
    share = share_of_frames(path for name, path in sources().items() if name.startswith("slurmfab"))
    print(f"\n{share:.1f} % frames of functions and heads of files")  # noqa: T201 - the answer
    found = sorted(arrows())
    rooms = sorted({name for pair in found for name in pair})
    print(f"\n{len(rooms)} rooms, {len(found)} arrows")  # noqa: T201 - the answer
    for name in rooms:
        others = [other for one, other in found if one == name]
        print(f"{name} -> {', '.join(others)}" if others else name)  # noqa: T201 - the answer
