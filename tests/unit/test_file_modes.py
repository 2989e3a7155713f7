"""Who may read the files that slurmfab writes on the deployer."""

from __future__ import annotations

import ast
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from made_pages import sources
from saved_archives import archive as saved_backup
from source_trees import PACKAGE, SOURCES, nodes

from slurmfab.base import atomic_file, junit
from slurmfab.commands.backup import archive as backups
from slurmfab.commands.report import writing
from slurmfab.commands.support_bundle import making
from slurmfab.commands.usage import showing
from slurmfab.core.engine.session import Output

OWN, ALL = "owner", "all"

WRITTEN = {
    "commands.accept.queue": [OWN],  # --logs: what jobs printed
    "commands.accept.running": [OWN],  # --junit: the same, in short
    "commands.checks.runner": [OWN],  # --junit: causes of failures
    "commands.checks.kept": [OWN],  # results of checks, beside the cluster file; its group, too, if it may change that
    "commands.drill.drilling": [OWN],  # --junit: which nodes failed, and why
    "commands.drift.alarm": [ALL, OWN],  # numbers for the node exporter, and what differed at the last look
    "commands.drift.timer": [ALL],  # units of systemd
    "commands.rehearse.rehearsing": [OWN, OWN],  # the cluster file and the lock of the twin, in a private directory
    "core.engine.rehearsals": [OWN],  # what a rehearsal found
    "core.engine.record": [OWN],  # what runs changed
    "core.engine.saved_plan": [OWN],  # what a run would change
    "core.engine.session": [OWN],  # --json
    "commands.report.writing": [OWN],  # users, addresses, reasons
    "cluster.inventory.edits.writing": [ALL],  # the cluster file, which is for colleagues and version control
    "cluster.inventory.fabfile": [ALL],  # two lines
    "cluster.inventory.lock": [ALL],  # as the cluster file
    "cluster.inventory.schema_file": [ALL, ALL],  # what keys there are
    "lab.clusterfile": [ALL, ALL],  # as other cluster files and locks
    "commands.monitoring_files.writing": [ALL],  # rules and dashboards, for Prometheus and Grafana
    "hosts.client_config": [ALL],  # public host keys
    "commands.support_bundle.making": [OWN],  # logs and settings of hosts
    "commands.usage.showing": [OWN],  # --csv: who used how much
    "core.user_guide.writing": [ALL],  # pages for users
}
"""Every call that writes a file, by module, and who may read a new file of it."""

WRITERS = ("write", "write_private")
MODES = {"atomic_file.OWNER_ONLY": OWN, "atomic_file.READABLE_BY_ALL": ALL}


def calls(source: str) -> Iterator[str]:
    """Who may read what a file of the package writes, by its calls of `atomic_file`."""
    for node in nodes(source):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WRITERS:
            if ast.unparse(node.func.value) != "atomic_file":
                continue
            given = [MODES[ast.unparse(one.value)] for one in node.keywords if one.arg in ("mode", "new")]
            given += [MODES[text] for text in map(ast.unparse, node.args) if text in MODES]
            yield given[0] if given else OWN


def test_every_file_that_is_written_is_in_the_table_with_its_readers() -> None:
    found = {
        ".".join(Path(name).with_suffix("").parts): sorted(readers)
        for name in SOURCES
        if (readers := list(calls(name)))
    }
    assert found == WRITTEN


def of_json(path: Path) -> None:
    Output(json=str(path)).write_json({"version": 1, "runs": []})


def of_csv(path: Path) -> None:
    showing.write_csv(str(path), "user,hours\n")


def of_junit(path: Path) -> None:
    atomic_file.write(path, junit.as_xml("x", (), 0.0))


def of_page(path: Path) -> None:
    writing.save(sources(), path)


def of_support_bundle(path: Path) -> None:
    making.write_archive(path, "x", {"README.txt": "x"}, 0)


def of_backup(path: Path) -> None:
    saved_backup(path.parent).rename(path)


PRIVATE = (of_json, of_csv, of_junit, of_page, of_support_bundle, of_backup)


@pytest.fixture
def loose() -> Iterator[None]:
    """A user whose files everybody may read and change unless a program takes care."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.parametrize("make", PRIVATE)
@pytest.mark.usefixtures("loose")
def test_a_file_that_holds_what_hosts_say_when_it_is_new_then_is_its_owners_alone(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    path = tmp_path / "file"
    make(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("make", [of_json, of_csv, of_junit])
def test_a_file_that_somebody_has_made_readable_then_stays_so(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "file"
    path.write_text("earlier")
    path.chmod(0o644)
    make(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert path.read_text() != "earlier"


def test_the_directory_of_backups_is_its_owners_alone(tmp_path: Path) -> None:
    assert stat.S_IMODE(backups.make_directory(tmp_path / "cluster.yaml").stat().st_mode) == 0o700


RUN_AND_KEEP = """\
import sys
sys.argv = ["slurmfab", "plan", "--cluster", "none.yaml"]
from slurmfab.cli import main
try: main.main()
except SystemExit: pass
from slurmfab.cluster.slurm import render
from slurmfab.hosts import compressed
render.load_templates()
compressed.compressed(b"agent")
"""


def test_code_that_is_kept_when_a_run_begins_with_umask_0_then_nobody_else_can_write_it(tmp_path: Path) -> None:
    place = tmp_path / "installed"
    place.mkdir(mode=0o755)
    for name in ("slurmfab", "templates"):
        shutil.copytree(
            PACKAGE.parent / name, place / name, ignore=shutil.ignore_patterns("__pycache__"), symlinks=True
        )
    subprocess.run(["chmod", "-R", "go-w", place], check=True)  # a clone of a user with umask 0002 has such files
    environment = {**os.environ, "PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "", "HOME": str(tmp_path)}
    done = subprocess.run(
        ["sh", "-c", 'umask 0; exec "$0" -c "$1"', sys.executable, RUN_AND_KEEP], cwd=tmp_path, env=environment,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    kept = {path.parent.parent.name for path in place.rglob("__pycache__/*")}
    assert {"slurmfab", "cli", "hosts", "templates"} <= kept, done.stderr
    assert list(place.rglob("sent-*"))
    open_to_others = [path for path in place.rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o022]
    assert open_to_others == []


def test_a_directory_of_records_when_the_cluster_file_is_a_groups_then_the_group_may_write_there(
    tmp_path: Path,
) -> None:
    shared = tmp_path / "cluster.yaml"
    shared.write_text("cluster: lab\n")
    shared.chmod(0o664)
    before = os.umask(0o022)  # as in each run
    atomic_file.write_private(tmp_path / "cluster.runs/a.json", "{}", shared)
    os.umask(before)
    assert stat.S_IMODE((tmp_path / "cluster.runs").stat().st_mode) == 0o770
    assert stat.S_IMODE((tmp_path / "cluster.runs/a.json").stat().st_mode) == 0o660
