"""What is loaded when: a list of tasks needs no cluster, the first question to hosts no plan, and no module twice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slurmfab.cli.tasks.command import load_quickly

CLUSTER = "cluster: lab\nssh: {user: root}\ncontrollers: [c1]\nnodes: [{hosts: n1}]\n"
NOT_WITHOUT_A_TASK = (
    "pydantic",
    "jinja2",
    "argcomplete",
    "pytest",
    "slurmfab.cluster.inventory.cluster",
    "slurmfab.core",
    "slurmfab.commands",
)
"""What a command line that carries nothing out needs none of."""

NOT_BEFORE_HOSTS_ARE_ASKED = (
    "jinja2",
    "slurmfab.core.engine.converge",
    "slurmfab.core.plan.plan",
    "slurmfab.core.plan.phases",
    "slurmfab.core.impact.disruptive_changes",
    "slurmfab.core.impact.restart_requirements",
    "slurmfab.core.plan.plan_input",
    "slurmfab.cluster.slurm.render",
    "slurmfab.core.status",
)
NOT_FOR_HOSTS_THAT_ARE_AS_WANTED = (
    "argcomplete",
    "http",
    "pytest",
    "testinfra",
    "markdown_it",
    "slurmfab.commands",
    "slurmfab.lab",
    "slurmfab.on_hosts.agent.logs.secret_detectors",
)
UNTIL_HOSTS_ARE_ASKED = """\
from slurmfab.cli.tasks.command import load_quickly
load_quickly()
from pathlib import Path
from slurmfab.core.engine import requests, session
from slurmfab.core.engine.run import RunOptions
from slurmfab.cluster.inventory import loading
from slurmfab.cli.tasks.deploy import deploy
import slurmfab.core.engine.commands, slurmfab.hosts.connection
run = session.start(loading.load(Path("cluster.yaml")), "", session.Output(), RunOptions("deploy"))
assert requests.hosts_to_ask(run) == ("c1", "n1")
"""
UNTIL_HOSTS_ARE_COMPARED = f"""\
{UNTIL_HOSTS_ARE_ASKED}
from slurmfab.cluster import facts
from slurmfab.cluster.slurm import render
from slurmfab.core.engine import acceptance, converge, report
facts.adapter()
report.outcome_from({{"id": "file:/etc/hosts", "status": "ok"}})
render.load_templates()
"""


def loaded_by(code: str, directory: Path) -> set[str]:
    """The modules that Python has loaded after some code."""
    said = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
        cwd=directory,
        env={**os.environ, "HOME": str(directory), "XDG_CACHE_HOME": "", "SLURMFAB_CLUSTER": "", "TERM": "xterm"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(said.stdout.split())


@pytest.mark.parametrize(
    "words",
    [[], ["help"], ["--help"], ["--list"], ["--version"], ["drain", "--help"], ["deplyo"], ["deploy", "--dry-run"]],
    ids=" ".join,
)
def test_a_command_line_when_it_carries_nothing_out_then_loads_nothing_that_a_cluster_needs(
    tmp_path: Path, words: list[str]
) -> None:
    loaded = loaded_by(calling("slurmfab", *words), tmp_path)
    assert "slurmfab.cli.tasks.deploy" in loaded
    assert loaded.isdisjoint(NOT_WITHOUT_A_TASK)


@pytest.mark.parametrize("words", [["deploy"], ["plan", "--hosts", "n1"], ["check-cluster"]], ids=" ".join)
def test_the_first_line_on_a_terminal_when_it_is_shown_then_no_model_is_loaded(
    tmp_path: Path, words: list[str]
) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs/cluster.yaml").write_text(CLUSTER)
    code = f"import io, sys\n{TERMINAL}\n{calling('slurmfab', *words)}"
    loaded = loaded_by(code.replace("SystemExit: pass", "Shown: pass"), tmp_path)
    assert "slurmfab.cluster.inventory.raw_names" in loaded
    assert loaded.isdisjoint(("pydantic", "slurmfab.cluster.inventory.cluster"))


TERMINAL = """
class Shown(BaseException): pass
class Terminal(io.StringIO):
    def isatty(self): return True
    def write(self, text):
        if text.strip():
            assert "configs/cluster.yaml, 2 hosts" in text
            raise Shown
sys.stderr = Terminal()
"""
"""A terminal that ends the program with its first line."""


def calling(*words: str) -> str:
    """The program's start with this command line, whatever its end."""
    start = "from slurmfab.cli import main\ntry: main.main()\nexcept SystemExit: pass"
    return f"import sys; sys.argv = {list(words)}\n{start}"


def test_a_deployment_when_it_asks_its_first_host_then_has_loaded_nothing_that_only_a_plan_needs(
    tmp_path: Path,
) -> None:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    loaded = loaded_by(UNTIL_HOSTS_ARE_ASKED, tmp_path)
    assert "paramiko" in loaded
    assert loaded.isdisjoint(NOT_BEFORE_HOSTS_ARE_ASKED)


def test_a_deployment_when_nothing_is_to_change_then_has_loaded_nothing_that_only_other_tasks_need(
    tmp_path: Path,
) -> None:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    loaded = loaded_by(UNTIL_HOSTS_ARE_COMPARED, tmp_path)
    assert {"slurmfab.core.plan.plan", "paramiko"} <= loaded
    assert loaded.isdisjoint(NOT_FOR_HOSTS_THAT_ARE_AS_WANTED)


@pytest.mark.parametrize(("forbidden", "is_kept"), [("", True), ("1", False)])
def test_modules_when_loaded_by_a_task_then_are_kept_compiled_unless_the_user_forbids_it(
    tmp_path: Path, forbidden: str, is_kept: bool
) -> None:
    environment = {"PYTHONPYCACHEPREFIX": str(tmp_path / "kept"), "PYTHONDONTWRITEBYTECODE": forbidden}
    subprocess.run(
        [Path(sys.executable).with_name("slurmfab"), "deploy"],
        cwd=tmp_path,
        env={**os.environ, **environment, "HOME": str(tmp_path), "SLURMFAB_CLUSTER": ""},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert any((tmp_path / "kept").rglob("commands.*.pyc")) == is_kept


def test_a_program_when_made_quick_then_looks_for_garbage_seldom_but_still_does() -> None:
    code = f"from {load_quickly.__module__} import load_quickly as it; it(); import gc"
    seen = subprocess.run(
        [sys.executable, "-c", f"{code}; print(gc.isenabled(), gc.get_threshold()[0])"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    enabled, threshold = seen.stdout.split()
    assert enabled == "True"
    assert int(threshold) >= 10_000


@pytest.mark.parametrize(("forbidden", "is_kept"), [("", True), ("1", False)])
def test_templates_when_compiled_then_are_kept_beside_the_modules_and_not_compiled_again(
    tmp_path: Path, forbidden: str, is_kept: bool
) -> None:
    code = f"""\
import sys
sys.pycache_prefix, sys.dont_write_bytecode = {str(tmp_path)!r}, {bool(forbidden)}
from jinja2 import Environment
compile, done = Environment.compile, []
Environment.compile = lambda self, *words, **options: done.append(1) or compile(self, *words, **options)
from slurmfab.cluster.slurm import render
render.load_templates()
first = len(done)
render._environment.cache_clear()
render.load_templates()
print(first, len(done))"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["2", "2" if is_kept else "4"]
    assert any(tmp_path.rglob("*.pyc")) == is_kept
