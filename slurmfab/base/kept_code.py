"""Code that Python compiles anew in every run, kept beside the compiled modules: of dataclasses and named tuples.

Modules of Python's own make the methods of such classes from texts, and read annotations that are texts. To compile
these would be a fifth of what a run with nothing to change costs. Who can change the file can change modules as well.
"""

from __future__ import annotations

import atexit
import collections
import dataclasses
import marshal
import os
import sys
import typing
from contextlib import suppress
from functools import cache
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path
from types import CodeType
from typing import Any

MOST = 20_000  # texts that are kept; of more, only those that the run has used


class KeptCode:
    """Compiled texts by mode and text, from a file, or compiled now and added to it by `write`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kept: dict[str, bytes] = {}
        self.used: set[str] = set()
        self.is_complete = True
        with suppress(OSError, EOFError, TypeError, ValueError):
            data = memoryview(path.read_bytes())
            if data[: len(MAGIC_NUMBER)] == MAGIC_NUMBER:
                self.kept = dict(marshal.loads(data[len(MAGIC_NUMBER) :]))  # noqa: S302 - trusted like modules, see above

    def compiled(self, text: str, _file: str, mode: str) -> CodeType:
        """What `compile` makes of a text that is in no file."""
        name = f"{mode} {text}"
        self.used.add(name)
        with suppress(KeyError, EOFError, TypeError, ValueError):
            found: CodeType = marshal.loads(self.kept[name])  # noqa: S302
            return found
        code: CodeType = compile(text, "<string>", mode, dont_inherit=True)
        self.kept[name] = marshal.dumps(code)
        self.is_complete = False
        return code

    def execute(self, text: str, *names: dict[str, Any]) -> None:
        """What `exec` does with a text."""
        exec(self.compiled(text, "", "exec"), *names)  # noqa: S102

    def evaluate(self, text: str, *names: dict[str, Any]) -> Any:
        """What `eval` does with a text."""
        return eval(self.compiled(text, "", "eval"), *names)  # noqa: S307

    def write(self) -> None:
        """Keep what is new, in one step, where the directory can be written and Python may keep modules."""
        if not self.is_complete:
            kept = self.kept if len(self.kept) <= MOST else {name: self.kept[name] for name in self.used}
            put(self.path, MAGIC_NUMBER + marshal.dumps(kept))


def put(path: Path, content: bytes) -> None:
    """Write a file beside Python's compiled modules in one step, where it may keep some and the directory allows it."""
    if sys.dont_write_bytecode:
        return
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(content)
        beside.replace(path)


@cache
def keep() -> None:
    """Let Python's modules use kept code for all classes that are made from now on."""
    kept = KeptCode(Path(cache_from_source(str(Path(__file__).with_name("made_classes.py")))))
    vars(dataclasses)["exec"] = kept.execute
    vars(collections)["eval"] = kept.evaluate
    vars(typing)["compile"] = kept.compiled
    atexit.register(kept.write)
