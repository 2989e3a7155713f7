"""The page of messages: what slurmfab says when something is wrong, with the cause and what to try, by subject."""

from __future__ import annotations

import ast
import builtins
import importlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import slurmfab
from reference.exit_codes import import_all
from reference.markdown import WRITTEN, code, marked, plain, table, text_of
from slurmfab.errors import HostError, SlurmfabError

PACKAGE = Path(slurmfab.__file__).parent

Names = Mapping[str, object]

ON_HOSTS = ("ResourceFailed", "LeftAsItWas")
"""The errors of resources on hosts; they are told after the host and the resource."""

IN_FILES = "ValueError"
"""The error for a value of the cluster file; it is told after the file, the line and the key."""

CLUSTER_FILE = "inventory"
"""The package of the cluster file, and of the rules between its keys."""

OF_ERRORS = {"strerror": "reason", "stderr": "output"}
"""Words for what errors of Python have."""

BUILTIN = frozenset(dir(builtins))
"""Names that say nothing about a value."""

_LEAST_WORDS = 3
"""A message with fewer words of its own tells nothing: all of it comes from elsewhere."""

_SENTENCE = re.compile(r"(?<=[.?!])\s+(?=[A-Z{\"'(`])|\n+")
_FORMAT = re.compile(r"%(?:\((\w+)\))?[-+ #0]*[\d.*]*[a-zA-Z%]")


@dataclass(frozen=True, order=True)
class Message:
    """A message in the code.

    Args:
        text: its first sentence, with the names of what differs in braces.
        more: what else it says: the cause, and what to try.
        error: the kind of error.
    """

    text: str
    more: str
    error: str


def page() -> str:
    """The text of the page."""
    return text_of(lines())


def lines() -> Iterator[str]:
    """Yield the lines of the page."""
    yield from (
        "# Messages",
        "",
        f"What slurmfab says when something is wrong, by subject. {WRITTEN} Names in braces stand for what differs, as",
        "`{path}` for a path; search for the words between them. The second column has what else the message says: the",
        "cause, and what to try. The third one has the kind of error, with its [exit code](exit-codes.md#errors).",
        "",
        "Failed checks and what `deploy` says about broken hosts, with repairs:",
        "[what is found, and what to do](../checks.md#what-is-found-and-what-to-do). By symptom:",
        "[troubleshooting](../troubleshooting.md).",
    )
    for subject, title in subjects():
        found = sorted(messages(subject), key=lambda one: (letters(one.text), one))
        rows = ((shown(one.text.removesuffix(".")), shown(one.more), code(one.error)) for one in dict.fromkeys(found))
        if found:
            yield from (
                "",
                f"## {subject}",
                "",
                marked(title),
                "",
                *table(("message", "cause, what to try", "error"), rows),
            )
    yield from (
        "",
        "## The cluster file",
        "",
        "Mistakes in the cluster file are told all at once, each as `FILE:LINE: KEY: ` and one of these.",
        "",
        *table(
            ("mistake",), ((shown(text),) for text in sorted(set(mistakes()), key=lambda text: (letters(text), text)))
        ),
    )


def subjects() -> Iterator[tuple[str, str]]:
    """Yield the packages by name, each with what it is about."""
    for path in sorted(PACKAGE.glob("**/__init__.py")):
        name = path.parent.relative_to(PACKAGE).as_posix()
        if name != ".":
            yield name, (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0]


def trees(subject: str) -> Iterator[tuple[ast.Module, str]]:
    """Yield the code of a package's own modules, with their names."""
    for path in sorted((PACKAGE / subject).glob("*.py")):
        if not path.name.startswith("test_"):
            name = ".".join(("slurmfab", *path.relative_to(PACKAGE).with_suffix("").parts))
            yield ast.parse(path.read_text()), name


def errors() -> dict[str, bool]:
    """The names of errors that people see; whether the first argument is a host, after which the message is told."""
    import_all()
    found = dict.fromkeys(ON_HOSTS, False)
    waiting: list[type[SlurmfabError]] = [SlurmfabError]
    while waiting:
        kind = waiting.pop()
        found[kind.__name__] = issubclass(kind, HostError)
        waiting += [one for one in kind.__subclasses__() if one.__module__.startswith("slurmfab.")]
    return found


def messages(subject: str) -> Iterator[Message]:
    """Yield the messages in a package's own modules."""
    kinds = errors()
    for tree, module in trees(subject):
        names = vars(importlib.import_module(module))
        for node in ast.walk(tree):
            name = called(node)
            if name in kinds and isinstance(node, ast.Call) and len(node.args) > kinds[name]:
                text = template(node.args[kinds[name]], names)
                if tells_something(text):
                    first, *more = _SENTENCE.split(text.strip(), maxsplit=1)
                    yield Message(f"{{host}}: {first}" if kinds[name] else first, " ".join(more), name)


def mistakes() -> Iterator[str]:
    """Yield the mistakes that a cluster file can have."""
    packages = [subject for subject, _ in subjects() if subject.split("/")[0] == CLUSTER_FILE]
    for tree, module in (one for subject in packages for one in trees(subject)):
        names = vars(importlib.import_module(module))
        for node in ast.walk(tree):
            told = raised(node) or told_rule(node)
            text = template(told, names) if told is not None else ""
            if tells_something(text):
                yield text


def called(node: ast.AST | None) -> str:
    """The name of what is called; empty if nothing is."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")


def raised(node: ast.AST) -> ast.expr | None:
    """The text with which a validator refuses a value."""
    error = node.exc if isinstance(node, ast.Raise) else None
    return error.args[0] if isinstance(error, ast.Call) and called(error) == IN_FILES and error.args else None


def told_rule(node: ast.AST) -> ast.expr | None:
    """What a rule of the cluster file says about a place: `yield place, text`."""
    value = node.value if isinstance(node, ast.Yield) else None
    return value.elts[1] if isinstance(value, ast.Tuple) and len(value.elts) == 2 else None  # noqa: PLR2004


def template(node: ast.expr, names: Names) -> str:
    """The text of an expression; what differs is in braces.

    Args:
        node: the expression.
        names: the values of the module's names.
    """
    match node:
        case ast.Constant(value):
            text = str(value)
        case ast.JoinedStr(values):
            text = "".join(template(part, names) for part in values)
        case ast.FormattedValue(value):
            text = template(value, names)
        case ast.BinOp(left, ast.Add(), right):
            text = template(left, names) + template(right, names)
        case ast.BinOp(ast.Constant(value), ast.Mod(), right):
            text = filled(str(value), right, names)
        case ast.Name("FAB"):
            text = "fab"
        case ast.Name(name) if name.isupper() and isinstance(names.get(name), str | int):
            text = str(names[name])
        case _:
            text = f"{{{placeholder(node)}}}"
    return text


def filled(text: str, right: ast.expr, names: Names) -> str:
    """A text with `%s` in it; its values by name."""
    values = list(right.elts) if isinstance(right, ast.Tuple) else [right]

    def value(match: re.Match[str]) -> str:
        return "%" if match[0] == "%%" else template(values.pop(0), names) if values else "{value}"

    return _FORMAT.sub(value, text)


def placeholder(node: ast.AST) -> str:
    """A word for a value: the name that stands in it."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        if isinstance(node.value, ast.Name) and node.value.id in ("self", "error"):
            return OF_ERRORS.get(node.attr, node.attr)
        return node.attr if node.attr not in ("name", "strerror", "path") else f"{placeholder(node.value)}.{node.attr}"
    if isinstance(node, ast.Call) and node.args:
        return placeholder(node.args[0])
    if isinstance(node, ast.Call):
        return placeholder(node.func)
    inner = next((one for one in ast.walk(node) if isinstance(one, ast.Name) and one.id not in BUILTIN), None)
    return placeholder(inner) if inner is not None and inner is not node else "…"


def tells_something(text: str) -> bool:
    """Whether a text has words of its own."""
    return len(letters(text).split()) >= _LEAST_WORDS


def letters(text: str) -> str:
    """The letters of a text outside of braces, by which messages are sorted."""
    return re.sub(r"\{[^}]*\}|[^a-zA-Z ]", "", text).strip().lower()


def shown(text: str) -> str:
    """A message as a cell of a table; backticks in it mark code, if each has its other one."""
    return marked(text) if text.count("`") % 2 == 0 else plain(text)
