"""The payload that is sent to a host: small, and valid for the oldest Python that is supported."""

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

import slurmfab.on_hosts.agent
import slurmfab.on_hosts.programs
from slurmfab.hosts.payload import BOOT, FLAGS, imported, needed_modules, payload, source_of
from slurmfab.on_hosts.agent.kinds import KINDS
from slurmfab.on_hosts.agent.main import MODULE_OF, OPERATIONS

AGENT = Path(slurmfab.on_hosts.agent.__file__).parent
MODULES = {
    ".".join(path.relative_to(AGENT).with_suffix("").parts): path
    for path in sorted(AGENT.rglob("*.py"))
    if path.stem != "__init__"
}
PROGRAMS = sorted(Path(slurmfab.on_hosts.programs.__file__).parent.rglob("*.py"))


def imports_of(tree: ast.AST) -> set[str]:
    """Full names of the modules that a source imports."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports have no meaning in memory"
            names.add(node.module or "")
    return names


def test_a_module_when_parsed_by_python_3_9_is_valid_and_imports_the_standard_library_alone() -> None:
    trees = {
        path: ast.parse(path.read_text(), str(path), feature_version=(3, 9)) for path in (*MODULES.values(), *PROGRAMS)
    }
    foreign = {
        (str(path), name)
        for path, tree in trees.items()
        for name in imports_of(tree)
        if name.split(".")[0] not in sys.stdlib_module_names
        and not name.startswith(("slurmfab.on_hosts.agent", "slurmfab.on_hosts.programs"))
    }
    assert foreign == set()


def test_the_first_module_when_parsed_by_an_older_python_is_valid() -> None:
    assert "slurmfab.on_hosts.agent.main" in imports_of(ast.parse(MODULES["boot"].read_text(), feature_version=(3, 6)))


def test_the_unpacked_payload_has_every_module_except_packages() -> None:
    sources = json.loads(zlib.decompress(payload()))
    assert sources == {f"slurmfab.on_hosts.agent.{name}": path.read_text() for name, path in MODULES.items()}


def test_the_imports_found_in_a_modules_text_are_those_that_python_parses() -> None:
    for name, path in MODULES.items():
        seen = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("slurmfab.on_hosts.agent"):
                inside = (node.module or "").partition("slurmfab.on_hosts.agent.")[2]
                seen |= {inside} if inside in MODULES else {f"{inside}.{alias.name}" for alias in node.names}
            assert not isinstance(node, ast.Import) or not any(one.name.startswith("slurmfab") for one in node.names)
        assert imported(path.read_text()) == seen, name


def test_only_kinds_and_main_import_modules_by_a_computed_name() -> None:
    by_name = {name for name, path in MODULES.items() if "import_module(" in path.read_text()}
    assert by_name == {"kinds", "main"}


FACTS = {"op": "facts"}
LOCK = {"op": "apply", "dry_run": False, "resources": []}


def compare(*kinds: str, dry_run: bool = True) -> dict[str, Any]:
    return {"op": "apply", "dry_run": dry_run, "resources": [{"kind": kind} for kind in kinds]}


@pytest.mark.parametrize(
    ("request_", "needs", "needs_not"),
    [
        (
            FACTS,
            {"boot", "main", "core.lifeline", "core.host_lock", "facts.facts", "facts.hardware"},
            {"core.resource", "kinds", "packages.packages"},
        ),
        ({**FACTS, "own_numbers": ["sudo"]}, {"facts.facts", "identities.powerful_users", "core.resource"}, {"kinds"}),
        (
            compare("service"),
            {"kinds", "core.resource", "services.service"},
            {"facts.facts", "packages.packages", "undo.undo_store"},
        ),
        (
            compare("service", dry_run=False),
            {"kinds", "core.resource", "services.service", "undo.undo_store"},
            {"facts.facts", "packages.packages"},
        ),
        (LOCK, {"kinds", "core.resource", "core.host_lock"}, {"packages.packages", "facts.facts"}),
        ({"op": "node-jobs"}, {"nodes.jobs"}, {"kinds", "facts.facts"}),
        ({"op": "save"}, {"backup.stream"}, {"facts.facts"}),
        ({"op": "no such"}, {"boot", "main"}, {"facts.facts", "kinds"}),
        (compare("no such"), {"kinds", "core.resource"}, {"services.service"}),
    ],
    ids=[
        "facts",
        "facts-with-a-directory",
        "comparison",
        "change",
        "lock",
        "reading",
        "backup",
        "unknown-operation",
        "unknown-kind",
    ],
)
def test_a_request_is_sent_with_the_modules_that_it_needs_and_few_others(
    request_: dict[str, Any], needs: set[str], needs_not: set[str]
) -> None:
    found = needed_modules(request_)
    assert needs <= found
    assert not needs_not & found


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_needs_the_modules_that_its_own_code_imports(operation: str) -> None:
    found = needed_modules({"op": operation})
    assert imported(inspect.getsource(OPERATIONS[operation])) <= found
    assert MODULE_OF.get(operation, "main") in found


def test_every_kind_can_be_built_on_a_host_with_its_modules_alone() -> None:
    script = (
        "import sys, json, importlib\n"
        "wanted = json.load(sys.stdin)\n"
        "source = wanted.pop('boot')\n"
        "space = {'__name__': 'slurmfab.on_hosts.agent.boot'}\n"
        "exec(source, space)\n"
        "for module, sources in wanted.items():\n"
        "    for name in [one for one in sys.modules if one.startswith('slurmfab')]: del sys.modules[name]\n"
        "    finder = space['Sources'](sources)\n"
        "    sys.meta_path.insert(0, finder)\n"
        "    importlib.import_module('slurmfab.on_hosts.agent.main'); importlib.import_module(module)\n"
        "    sys.meta_path.remove(finder)\n"
    )
    wanted: dict[str, Any] = {"boot": source_of("boot")}
    for kind, place in KINDS.items():
        names = needed_modules(compare(kind, dry_run=False))
        wanted[f"slurmfab.on_hosts.agent.{place.partition(':')[0]}"] = {
            f"slurmfab.on_hosts.agent.{name}": source_of(name) for name in names
        }
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], input=json.dumps(wanted), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_same_modules_for_many_hosts_are_packed_once() -> None:
    names = frozenset({"boot", "core.reading"})
    with ThreadPoolExecutor(16) as pool:
        packed = list(pool.map(lambda _: payload(names), range(64)))
    assert len(set(map(id, packed))) == 1


def test_the_payload_fits_the_first_window_of_an_ssh_channel(
    record_property: pytest.RecordProperty,
) -> None:
    sizes = {
        "facts": len(payload(needed_modules(FACTS))),
        "a change of every kind": len(payload(needed_modules(compare(*KINDS, dry_run=False)))),
    }
    print(f"payload: {sizes} bytes, all: {len(payload())}, boot text: {len(BOOT)} characters")  # noqa: T201 - the point
    record_property("payload_bytes", str(sizes))
    assert sizes["facts"] < 38 * 1024
    assert max(sizes.values()) < 320 * 1024
    assert len(BOOT) < 500


NODE = ("group", "user", "block", "packages", "ssh-key", "file", "service", "directory", "slurm-files", "absent")
CONTROLLER = (*NODE, "munge-key", "slurm-nodes", "program", "scripts", "sudo-rules", "timer", "slurmdbd-conf")
SLOW_MODULES = {
    "argparse", "ast", "asyncio", "dataclasses", "datetime", "email", "glob", "hashlib", "inspect", "logging",
    "pathlib", "random", "shutil", "site", "subprocess", "tempfile", "unittest",
}  # fmt: skip
"""Modules of the standard library whose import takes a host milliseconds."""


@pytest.mark.parametrize("kinds", [NODE, CONTROLLER], ids=["node", "controller"])
def test_a_run_with_nothing_to_change_imports_no_slow_module_before_a_program_is_started(
    kinds: tuple[str, ...],
) -> None:
    wanted = ["facts.facts", "core.lifeline", "kinds", *(KINDS[kind].partition(":")[0] for kind in kinds)]
    names = needed_modules(FACTS) | needed_modules(compare(*kinds))
    script = (
        "import sys, json\n"
        "wanted, sources = json.load(sys.stdin)\n"
        "space = {'__name__': 'slurmfab.on_hosts.agent.boot'}\n"
        "exec(sources['slurmfab.on_hosts.agent.boot'], space)\n"
        "sys.meta_path.insert(0, space['Sources'](sources))\n"
        "for name in ('main', *wanted): __import__('slurmfab.on_hosts.agent.' + name)\n"
        "json.dump(sorted(sys.modules), sys.stdout)\n"
    )
    sources = {f"slurmfab.on_hosts.agent.{name}": source_of(name) for name in names}
    done = subprocess.run(
        [sys.executable, *FLAGS, "-c", script],
        input=json.dumps([wanted, sources]),
        capture_output=True,
        check=True,
        text=True,
    )
    assert not SLOW_MODULES & set(json.loads(done.stdout))
