"""What travels to a host: small, and readable by the oldest Python that hosts run."""

from __future__ import annotations

import ast
import json
import sys
import zlib
from pathlib import Path

import pytest

import slurmfab.agent
import slurmfab.programs
from slurmfab.ssh.payload import BOOT, payload

MODULES = sorted(Path(slurmfab.agent.__file__).parent.glob("*.py"))
PROGRAMS = sorted(Path(slurmfab.programs.__file__).parent.glob("*.py"))


def imported(tree: ast.AST) -> set[str]:
    """Full names of the modules that a source imports."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports have no meaning in memory"
            names.add(node.module or "")
    return names


@pytest.mark.parametrize("path", [*MODULES, *PROGRAMS], ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_module_when_parsed_by_python_3_9_is_valid_and_imports_the_standard_library_alone(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    foreign = {
        name
        for name in imported(tree)
        if name.split(".")[0] not in sys.stdlib_module_names
        and not name.startswith(("slurmfab.agent", "slurmfab.programs"))
    }
    assert foreign == set()


def test_the_first_module_when_parsed_by_an_older_python_is_valid() -> None:
    boot = next(path for path in MODULES if path.stem == "boot")
    assert "slurmfab.agent.main" in imported(ast.parse(boot.read_text(), feature_version=(3, 6)))


def test_the_payload_when_unpacked_holds_every_module_but_the_package() -> None:
    sources = json.loads(zlib.decompress(payload()))
    assert sources == {f"slurmfab.agent.{path.stem}": path.read_text() for path in MODULES if path.stem != "__init__"}


def test_the_payload_when_sent_fits_the_first_window_of_an_ssh_channel(record_property: pytest.RecordProperty) -> None:
    print(f"payload: {len(payload())} bytes, boot text: {len(BOOT)} characters")  # noqa: T201 - the size is the point
    record_property("payload_bytes", len(payload()))
    assert len(payload()) < 128 * 1024
    assert len(BOOT) < 500
