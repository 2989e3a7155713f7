"""Templates of the site's own, which may come from anybody who writes to its repository: they give text, and no more.

They reach nothing but the cluster's values, and end after little time, memory and text.
"""

from __future__ import annotations

import resource
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache, lru_cache, wraps
from pathlib import Path
from threading import local
from typing import Any, TypeVar

from jinja2 import StrictUndefined, Template, nodes
from jinja2.exceptions import SecurityError, TemplateError, TemplateSyntaxError
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory.files_on_hosts import LARGEST_FILE

MOST_SECONDS = 2.0  # of the processor, for one file on one host; a list of 65,536 hosts takes a fiftieth
MOST_MEMORY = 256 << 20  # bytes, besides what this program has
MOST_BITS = 4096  # of a product or a power
NAMES = ("range", "dict", "namespace")  # what templates can call, besides filters, tests and methods of texts and lists
SLOW = ("pprint", "striptags", "sum", "urlize", "wordwrap", "xmlattr")
"""Filters whose time grows faster than their input, which no look at the time can end (Jinja 3.1)."""

_NAME = "<template>"  # as Jinja2 calls a template without a file
Value = TypeVar("Value")
_run = local()  # `end`: the time of the processor at which the present template is refused


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja2's environment for foreign templates, without its way to other files, and with a limit of time.

    Each round of a loop, each call, filter and test looks at the time; what one of them can do is limited by memory.
    """

    intercepted_binops = frozenset(("*", "**"))

    def __init__(self) -> None:
        # Not optimized: what is constant would be computed when the template is compiled.
        super().__init__(undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True, optimized=False)
        self.globals = {name: self.globals[name] for name in NAMES}
        self.filters = {name: counted(one) for name, one in self.filters.items() if name not in SLOW}
        self.filters["sum"] = counted(total)
        self.tests = {name: counted(one) for name, one in self.tests.items()}
        self.filters[ROUNDS] = rounds

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        """A template as a tree, whose loops count their rounds."""
        tree = super()._parse(source, name, filename)
        for loop in tree.find_all(nodes.For):
            loop.iter = nodes.Filter(loop.iter, ROUNDS, [], [], None, None, lineno=loop.lineno)
        return tree

    def call(self, context: Context, called: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call something, if that is safe."""
        look_at_time()
        return super().call(context, called, *args, **kwargs)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """A product or a power, whose size is known before it is computed."""
        look_at_time()
        if isinstance(left, int) and isinstance(right, int):
            bits = left.bit_length() * right if operator == "**" else left.bit_length() + right.bit_length()
            if bits > MOST_BITS:
                raise SecurityError("the number is too large")
        return super().call_binop(context, operator, left, right)


ROUNDS = "rounds of a loop"  # the name of a filter, which no template can spell


def rounds(values: Iterable[Value]) -> Iterator[Value]:
    """Yield the values of a loop while there is time."""
    for value in values:
        look_at_time()
        yield value


def counted(function: Any) -> Callable[..., Any]:
    """A filter or a test that looks at the time first."""

    @wraps(function)
    def looking(*args: Any, **kwargs: Any) -> Any:
        look_at_time()
        if any(isinstance(one, str) and len(one) > LARGEST_FILE for one in args):
            raise SecurityError(f"a text has more than {LARGEST_FILE >> 10} KiB")
        return function(*args, **kwargs)

    return looking


def total(values: Iterable[float]) -> float:
    """The sum of numbers; TypeError of anything else, such as lists, which are copied for each one."""
    return sum(rounds(values))


def look_at_time() -> None:
    """Refuse the present template by SecurityError once it has taken too long."""
    if time.thread_time() > _run.end:
        raise SecurityError(f"it takes more than {MOST_SECONDS:.0f} s")


def fill(text: str, context: Mapping[str, object]) -> str:
    """The text of a site's template; InputError, with the line, if it is none, names unknown things or does more."""
    _run.end = time.thread_time() + MOST_SECONDS
    pieces, size = [], 0
    try:
        with little_memory():
            for piece in _compiled(text).generate(context):
                size += len(piece)
                if size > LARGEST_FILE:
                    raise SecurityError(f"its text has more than {LARGEST_FILE >> 10} KiB")
                look_at_time()
                pieces.append(piece)
    except TemplateSyntaxError as error:
        raise InputError(f"line {error.lineno}: {error.message}") from None
    except (TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise InputError(f"{line_of(error)}{error or type(error).__name__}") from None
    except (MemoryError, RecursionError) as error:
        pieces.clear()
        why = "it takes too much memory" if isinstance(error, MemoryError) else "it is nested too deeply"
        raise InputError(f"{line_of(error)}{why}") from None
    return "".join(pieces)


def line_of(error: BaseException) -> str:
    """Where in a template an error is from, such as `line 3: `; empty where that is unknown."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == _NAME]
    return f"line {lines[-1]}: " if lines else ""


@contextmanager
def little_memory() -> Iterator[None]:
    """While in this context, this program gets little more memory than it has, where the system can say so."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    with suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        most = pages * resource.getpagesize() + MOST_MEMORY
        if before[0] == resource.RLIM_INFINITY or most < before[0]:
            resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@lru_cache(maxsize=256)
def _compiled(text: str) -> Template:
    """A template, compiled once for all hosts."""
    return _environment().from_string(text)


@cache
def _environment() -> Sandbox:
    return Sandbox()
