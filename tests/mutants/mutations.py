"""Small mistakes in functions: a comparison turned round, a call left out, a condition negated, a number off by one."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import CodeType

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
CALLS = {"any": "all", "all": "any", "min": "max", "max": "min", "sorted": "list", "reversed": "list"}
UNSEEN = ("strict", "indent")
"""Keywords that change no value: that `zip` asserts equal lengths, and how far lines of JSON are indented."""

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Mutant:
    """One mistake in one function."""

    file: Path  # relative to the repository
    function: str  # as in `__qualname__`, of the outermost function
    line: int
    number: int  # which of its function
    was: str
    text: str  # what stands there instead

    @property
    def key(self) -> str:
        """What names it as long as its function has that line."""
        return f"{self.file} {self.function}: {self.was} -> {self.text}"


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield the functions of a module and the methods of its classes, each with its `__qualname__`."""
    for node in tree.body:
        if isinstance(node, FUNCTIONS):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{one.name}", one) for one in node.body if isinstance(one, FUNCTIONS))


def mutants(root: Path, file: Path) -> Iterator[Mutant]:
    """Yield all mutants of a module."""
    for name, function in functions(ast.parse((root / file).read_text())):
        for number, (node, changed) in enumerate(changes(function)):
            yield Mutant(file, name, node.lineno, number, short(node), short(changed))


def short(node: ast.AST) -> str:
    """A node's text in one line."""
    return " ".join(ast.unparse(node).split())[:100]


def code_of(root: Path, mutant: Mutant) -> CodeType:
    """The compiled function with the mistake."""
    path = root / mutant.file
    tree = ast.parse(path.read_text())
    function = next(node for name, node in functions(tree) if name == mutant.function)
    for number, (node, changed) in enumerate(changes(function)):
        if number == mutant.number:
            put(function, node, changed)
            break
    ast.fix_missing_locations(tree)
    return find(compile(tree, str(path), "exec"), mutant.function)


def find(code: CodeType, name: str) -> CodeType:
    """The code of a function in that of its module."""
    for word in name.split("."):
        code = next(one for one in code.co_consts if isinstance(one, CodeType) and one.co_name == word)
    return code


def put(function: ast.AST, old: ast.AST, new: ast.AST) -> None:
    """Put a node in the place of another one."""
    for parent in ast.walk(function):
        for field, value in ast.iter_fields(parent):
            if value is old:
                setattr(parent, field, new)
            elif isinstance(value, list):
                value[:] = [new if one is old else one for one in value]


def place_of(root: Path, file: str, line: int) -> str:
    """The function of a module, or the method of a class, that has a line; empty for none."""
    return next((name for first, last, name in places(root, file) if first <= line <= last), "")


@lru_cache
def places(root: Path, file: str) -> tuple[tuple[int, int, str], ...]:
    """First and last line of each function, its decorators included."""
    found = functions(ast.parse((root / file).read_text()))
    return tuple(
        (min([one.lineno, *(each.lineno for each in one.decorator_list)]), one.end_lineno or 0, name)
        for name, one in found
    )


def changes(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[ast.expr | ast.stmt, ast.AST]]:
    """Yield each node of a function's body that can be another one, with that: always in the same order."""
    skipped = {id(one) for node in ast.walk(function) for one in not_mutated(node)}
    for statement in function.body:
        for node in ast.walk(statement):
            if id(node) not in skipped and isinstance(node, ast.expr | ast.stmt):
                yield from ((node, changed) for changed in changed_nodes(node))


def not_mutated(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what is no work of a function: types, assertions, texts for people, and what moves the status line."""
    if isinstance(node, ast.AnnAssign | ast.arg) and node.annotation:
        yield from ast.walk(node.annotation)
    elif isinstance(node, ast.Assert | ast.JoinedStr) or is_docstring_or_status(node):
        yield from ast.walk(node)
    elif isinstance(node, ast.keyword) and node.arg in UNSEEN:
        yield from ast.walk(node.value)


def is_docstring_or_status(node: ast.AST) -> bool:
    """Whether a statement is a text, or a call that only moves the status line, such as `progress.begin(…)`."""
    match node:
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="begin" | "host_done" | "end", value=shown))):
            return isinstance(shown, ast.Name | ast.Attribute) and ast.unparse(shown).endswith("progress")
    return False


def changed_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what can stand in a node's place."""
    match node:
        case ast.Expr() | ast.Raise() | ast.AugAssign() | ast.Continue() | ast.Break():
            yield ast.Pass()
        case ast.If() | ast.While() | ast.IfExp() if not is_turned_itself(node.test):
            yield with_field(node, "test", ast.UnaryOp(ast.Not(), node.test))
        case ast.Return(value=ast.expr()) if not isinstance(node.value, ast.Constant):
            yield ast.Return(ast.Constant(None))
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            for number, part in enumerate(node.generators):
                if part.ifs:
                    without = ast.comprehension(part.target, part.iter, [], part.is_async)
                    yield with_field(
                        node, "generators", [*node.generators[:number], without, *node.generators[number + 1 :]]
                    )
        case _:
            yield from other_values(node)


def other_values(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what has another value than an operation, a number or the call of a built-in function."""
    match node:
        case ast.Compare(ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE()]) if "monotonic()" in ast.unparse(node):
            return  # two moments are never apart by exactly that
        case ast.Compare(ops=[operator]) if type(operator) in COMPARISONS:
            yield with_field(node, "ops", [COMPARISONS[type(operator)]()])
        case ast.BoolOp():
            yield with_field(node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And())
        case ast.BinOp() if type(node.op) in OPERATORS and not is_text(node):
            yield with_field(node, "op", OPERATORS[type(node.op)]())
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.Constant(value=bool()):
            yield ast.Constant(not node.value)
        case ast.Constant(value=int(number) | float(number)):
            yield ast.Constant(number + 1)
        case ast.Call(func=ast.Name(id=name), keywords=[]) if name in CALLS:
            yield with_field(node, "func", ast.Name(CALLS[name], ast.Load()))


def with_field(node: ast.AST, field: str, value: object) -> ast.AST:
    """A copy of a node with another value in a field."""
    changed = copy.copy(node)
    setattr(changed, field, value)
    return changed


def is_turned_itself(test: ast.expr) -> bool:
    """Whether a condition has a mutant of its own that is its opposite."""
    match test:
        case ast.Compare(ops=[ast.Eq() | ast.NotEq() | ast.In() | ast.NotIn() | ast.Is() | ast.IsNot()]):
            return True
        case ast.UnaryOp(op=ast.Not()):
            return True
    return False


def is_text(node: ast.BinOp) -> bool:
    """Whether an operation makes a text."""
    return any(isinstance(one, ast.JoinedStr) or isinstance(getattr(one, "value", None), str) for one in ast.walk(node))
