"""What travels to a host: small, and readable by the oldest Python that hosts run."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import slurmfab.agent
import slurmfab.programs
from slurmfab.agent.kinds import KINDS
from slurmfab.agent.main import OPERATIONS, READINGS
from slurmfab.ssh import modules
from slurmfab.ssh.payload import BOOT, FLAGS, payload

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


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_modules_imports_when_read_from_its_text_are_those_that_python_sees(path: Path) -> None:
    seen = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("slurmfab.agent"):
            inside = (node.module or "").partition("slurmfab.agent.")[2]
            seen |= {inside} if inside else {alias.name for alias in node.names}
        assert not isinstance(node, ast.Import) or not any(one.name.startswith("slurmfab") for one in node.names)
    assert modules.imported(path.read_text()) == seen


def test_modules_that_are_imported_by_a_name_made_at_run_time_are_those_of_kinds_and_readings() -> None:
    by_name = {path.stem for path in MODULES if "import_module(" in path.read_text()}
    assert by_name == {"kinds", "main"}


FACTS = {"op": "facts"}
LOCK = {"op": "apply", "dry_run": False, "resources": []}


def compare(*kinds: str, dry_run: bool = True) -> dict[str, Any]:
    return {"op": "apply", "dry_run": dry_run, "resources": [{"kind": kind} for kind in kinds]}


@pytest.mark.parametrize(
    ("request_", "needs", "needs_not"),
    [
        (FACTS, {"boot", "main", "lifeline", "host_lock", "facts", "hardware"}, {"resource", "kinds", "packages"}),
        (compare("service"), {"kinds", "resource", "service"}, {"facts", "packages", "kept"}),
        (compare("service", dry_run=False), {"kinds", "resource", "service", "kept"}, {"facts", "packages"}),
        (LOCK, {"kinds", "resource", "host_lock"}, {"packages", "facts"}),
        ({"op": "node-jobs"}, {"node_jobs"}, {"kinds", "facts"}),
        ({"op": "save"}, {"backup_stream"}, {"facts"}),
        ({"op": "no such"}, {"boot", "main"}, {"facts", "kinds"}),
        (compare("no such"), {"kinds", "resource"}, {"service"}),
    ],
    ids=["facts", "comparison", "change", "lock", "reading", "backup", "unknown-operation", "unknown-kind"],
)
def test_a_request_when_sent_brings_what_it_needs_and_little_else(
    request_: dict[str, Any], needs: set[str], needs_not: set[str]
) -> None:
    found = modules.needed(request_)
    assert needs <= found
    assert not needs_not & found


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_when_asked_for_finds_the_modules_that_its_own_code_imports(operation: str) -> None:
    found = modules.needed({"op": operation})
    assert modules.imported(inspect.getsource(OPERATIONS[operation])) <= found
    assert READINGS.get(operation, "main") in found


def test_every_kind_when_its_modules_alone_are_there_can_be_built_on_a_host() -> None:
    script = (
        "import sys, json, importlib\n"
        "wanted = json.load(sys.stdin)\n"
        "source = wanted.pop('boot')\n"
        "space = {'__name__': 'slurmfab.agent.boot'}\n"
        "exec(source, space)\n"
        "for module, sources in wanted.items():\n"
        "    for name in [one for one in sys.modules if one.startswith('slurmfab')]: del sys.modules[name]\n"
        "    finder = space['Sources'](sources)\n"
        "    sys.meta_path.insert(0, finder)\n"
        "    importlib.import_module('slurmfab.agent.main'); importlib.import_module(module)\n"
        "    sys.meta_path.remove(finder)\n"
    )
    wanted: dict[str, Any] = {"boot": modules.source("boot")}
    for kind, place in KINDS.items():
        names = modules.needed(compare(kind, dry_run=False))
        wanted[f"slurmfab.agent.{place.partition(':')[0]}"] = {
            f"slurmfab.agent.{name}": modules.source(name) for name in names
        }
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], input=json.dumps(wanted), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_same_modules_when_wanted_for_many_hosts_at_once_are_packed_once() -> None:
    names = frozenset({"boot", "reading"})
    with ThreadPoolExecutor(16) as pool:
        packed = list(pool.map(lambda _: payload(names), range(64)))
    assert len(set(map(id, packed))) == 1


def test_what_is_sent_at_once_when_packed_fits_the_first_window_of_an_ssh_channel(
    record_property: pytest.RecordProperty,
) -> None:
    sizes = {
        "facts": len(payload(modules.needed(FACTS))),
        "a change of every kind": len(payload(modules.needed(compare(*KINDS, dry_run=False)))),
    }
    print(f"payload: {sizes} bytes, all: {len(payload())}, boot text: {len(BOOT)} characters")  # noqa: T201 - the point
    record_property("payload_bytes", str(sizes))
    assert sizes["facts"] < 24 * 1024
    assert max(sizes.values()) < 128 * 1024
    assert len(BOOT) < 500


NODE = ("group", "user", "block", "packages", "ssh-key", "file", "service", "directory", "slurm-files", "absent")
CONTROLLER = (*NODE, "munge-key", "slurm-nodes", "program", "scripts", "sudo-rules", "timer", "slurmdbd-conf")
DEAR = {
    "argparse", "ast", "asyncio", "dataclasses", "datetime", "email", "glob", "hashlib", "inspect", "logging",
    "pathlib", "random", "shutil", "site", "subprocess", "tempfile", "unittest",
}  # fmt: skip
"""Modules that cost a host milliseconds each time that they are imported."""


@pytest.mark.parametrize("kinds", [NODE, CONTROLLER], ids=["node", "controller"])
def test_a_run_with_nothing_to_change_imports_no_dear_module_before_a_program_is_started(
    kinds: tuple[str, ...],
) -> None:
    wanted = ["facts", "lifeline", "kinds", *(KINDS[kind].partition(":")[0] for kind in kinds)]
    names = modules.needed(FACTS) | modules.needed(compare(*kinds))
    script = (
        "import sys, json\n"
        "wanted, sources = json.load(sys.stdin)\n"
        "space = {'__name__': 'slurmfab.agent.boot'}\n"
        "exec(sources['slurmfab.agent.boot'], space)\n"
        "sys.meta_path.insert(0, space['Sources'](sources))\n"
        "for name in ('main', *wanted): __import__('slurmfab.agent.' + name)\n"
        "json.dump(sorted(sys.modules), sys.stdout)\n"
    )
    sources = {f"slurmfab.agent.{name}": modules.source(name) for name in names}
    done = subprocess.run(
        [sys.executable, *FLAGS, "-c", script],
        input=json.dumps([wanted, sources]),
        capture_output=True,
        check=True,
        text=True,
    )
    assert not DEAR & set(json.loads(done.stdout))
