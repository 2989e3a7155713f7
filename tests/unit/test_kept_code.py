"""Code of dataclasses, named tuples and annotations: compiled once, kept where Python keeps modules, and no other."""

from __future__ import annotations

import collections
import dataclasses
import marshal
import os
import subprocess
import sys
import typing
from pathlib import Path
from typing import ForwardRef, NamedTuple

import pytest

from slurmfab.base import kept_code
from slurmfab.base.kept_code import KeptCode

MADE = """\
import builtins, dataclasses, sys, typing
from slurmfab.base import kept_code
kept_code.keep()
count, usual = [], compile
builtins.compile = lambda *words, **options: count.append(words[0]) or usual(*words, **options)

@dataclasses.dataclass(frozen=True)
class Node:
    name: "str"
    sockets: "int" = 1

class Job(typing.NamedTuple):
    number: "int"
    state: "str" = "PENDING"

assert Node("n1") == Node("n1", 1) and hash(Node("n1")) == hash(Node("n1"))
assert repr(Node("n1")) == "Node(name='n1', sockets=1)" and Job(7).state == "PENDING"
assert typing.get_type_hints(Node) == {"name": str, "sockets": int}
builtins.compile = usual
print(len(count))
"""


def compiled(directory: Path, **variables: str) -> int:
    """How many texts Python compiles while it makes some classes."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(directory), "PYTHONDONTWRITEBYTECODE": "", **variables}
    argv = [sys.executable, "-c", MADE]
    return int(subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60, check=True).stdout)


def kept_file(directory: Path) -> Path:
    """The file with the kept code."""
    (found,) = directory.rglob("made_classes.*")
    return found


def test_classes_when_they_were_made_in_an_earlier_run_then_nothing_is_compiled(tmp_path: Path) -> None:
    assert compiled(tmp_path) > 0
    assert compiled(tmp_path) == 0


def test_code_when_python_may_keep_no_modules_then_is_not_kept(tmp_path: Path) -> None:
    first = compiled(tmp_path, PYTHONDONTWRITEBYTECODE="1")
    assert compiled(tmp_path, PYTHONDONTWRITEBYTECODE="1") == first > 0
    assert not list(tmp_path.rglob("made_classes.*"))


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-20],
        lambda data: data[:0],
        lambda data: b"old!" + data[4:],
        lambda data: data[:4] + marshal.dumps(7),
    ],
    ids=["cut off", "empty", "of another Python", "no table"],
)
def test_a_file_that_is_damaged_or_of_another_python_when_read_then_is_replaced(tmp_path: Path, damage: object) -> None:
    compiled(tmp_path)
    file = kept_file(tmp_path)
    file.write_bytes(damage(file.read_bytes()))  # type: ignore[operator]
    assert compiled(tmp_path) > 0
    assert compiled(tmp_path) == 0


def test_code_when_kept_for_too_many_texts_then_those_that_were_not_used_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(kept_code, "MOST", 2)
    first = KeptCode(tmp_path / "kept")
    assert [first.evaluate(text) for text in ("1 + 1", "2 + 2")] == [2, 4]
    first.write()
    second = KeptCode(tmp_path / "kept")
    assert [second.evaluate(text) for text in ("2 + 2", "3 + 3")] == [4, 6]
    second.write()
    assert set(KeptCode(tmp_path / "kept").kept) == {"eval 2 + 2", "eval 3 + 3"}


def test_a_text_when_it_is_an_expression_and_a_statement_then_each_has_its_own_code(tmp_path: Path) -> None:
    kept, names = KeptCode(tmp_path / "kept"), {"x": 1}
    kept.execute("x", names)
    assert kept.evaluate("x", names) == 1
    with pytest.raises(SyntaxError):
        kept.evaluate("x = 2", names)


def test_python_when_it_makes_classes_then_uses_the_functions_that_are_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A Python that makes classes in another way loses nothing but the gain; this tells of it."""
    texts: list[str] = []

    class Noted(KeptCode):
        def compiled(self, text: str, _file: str, mode: str) -> object:  # type: ignore[override]
            texts.append(text)
            return super().compiled(text, _file, mode)

    noted = Noted(Path(os.devnull))
    monkeypatch.setattr(dataclasses, "exec", noted.execute, raising=False)
    monkeypatch.setattr(collections, "eval", noted.evaluate, raising=False)
    monkeypatch.setattr(typing, "compile", noted.compiled, raising=False)
    dataclasses.make_dataclass("Host", ["name"], frozen=True)
    NamedTuple("Pair", [("left", int)])
    ForwardRef("list[int]")
    assert any("__init__" in text for text in texts)
    assert any(text.startswith("lambda _cls") for text in texts)
    if sys.version_info < (3, 14):
        assert "list[int]" in texts
