"""Small mistakes in functions: which there are, and that the tool for them notices what tests notice."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tests" / "mutants"
CODE = """\
def doubled(numbers: list[int]) -> list[int]:
    \"\"\"Twice each.\"\"\"
    found = [number * 2 for number in numbers if number > 0]
    if not found:
        raise ValueError(f"none of {1 + 1}")
    return found
"""


@pytest.fixture(scope="module")
def mutations() -> ModuleType:
    found = importlib.util.spec_from_file_location("mutations", TOOL / "mutations.py")
    assert found
    assert found.loader
    sys.modules["mutations"] = module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_mutants_of_a_function_are_its_operations_and_not_its_texts(mutations: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text(CODE)
    made = list(mutations.mutants(tmp_path, Path("code.py")))
    assert [one.text for one in made if one.was.startswith(("raise", "return"))] == ["pass", "return None"]
    texts = {f"{one.was} -> {one.text}" for one in made}
    assert {"number > 0 -> number >= 0", "number * 2 -> number // 2", "not found -> found"} <= texts
    assert not [one for one in texts if one.startswith(("1 ->", "1 + 1"))]
    ids = {one.key: mutations.code_of(tmp_path, one) for one in made}
    assert len(ids) == len(made)


def test_known_mutants_are_of_functions_that_are_there_and_have_a_reason(mutations: ModuleType) -> None:
    known = json.loads((TOOL / "equivalent.json").read_text())
    files = {key.partition(" ")[0] for key in known}
    there = {one.key for file in files for one in mutations.mutants(ROOT, Path(file))}
    assert {*known} - there == set()
    assert [key for key, reason in known.items() if len(reason) < 10] == []


def test_the_tool_tells_what_no_test_notices(tmp_path: Path) -> None:
    place = "core/plan/phase_order.py"
    words = ["--out", str(tmp_path), "--sample", "6", "--tests", "tests/unit/plan/test_phase_order.py", "--", place]
    done = subprocess.run(
        [sys.executable, str(TOOL / "run.py"), *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "killed" in done.stdout, done.stdout + done.stderr
    assert "of 6 are alive" in done.stdout
