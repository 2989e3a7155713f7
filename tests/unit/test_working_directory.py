"""No code comes from the working directory, where files have the names of modules, programs and settings."""

from __future__ import annotations

import getpass
import inspect
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from planted_files import Planted, planted
from source_trees import SOURCES

from slurmfab.base import surroundings
from slurmfab.cli.tasks import namespace
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.fabfile import TEXT
from slurmfab.commands.drift import timer

BIN = Path(sys.executable).parent
OWN = {
    "lab-up": ["--nodes", "0"],
    "lab-down": ["--name", "nobodys"],
    "lab-off": ["n1", "--name", "nobodys"],
    "lab-on": ["n1", "--name", "nobodys"],
    "lab-status": ["--help"],
    "monitoring-files": ["--output", "made"],
    "deploy": ["--verbose"],
}
"""Words for tasks whose examples would do something to this machine."""

TASKS = {
    name: OWN.get(name, shlex.split(example.partition(" > ")[0], comments=True)[2:])
    for name, example in (
        (name.replace("_", "-"), (inspect.getdoc(task) or "").partition("Examples:\n")[2].partition("\n")[0])
        for name, task in namespace.tasks.items()
    )
}
"""All tasks, each with the words of its first example."""


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planted]:
    """A directory with planted files, and the cluster file of hosts that are off."""
    found = planted(tmp_path_factory.mktemp("work"))
    configs = found.directory / "configs"
    configs.mkdir()
    (found.directory / "fabfile.py").write_text(TEXT)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        hosts = ("ctl", "n1", "n2", "n3")
        ends = ", ".join(f"{name}: '127.0.0.{number}:{port}'" for number, name in enumerate(hosts, 1))
        (configs / "cluster.yaml").write_text(
            f"cluster: titanic\ncontrollers: [ctl]\nnodes: [{{hosts: 'n[1-3]'}}]\ndrift: {{when: daily}}\n"
            f"ssh: {{user: root, endpoints: {{{ends}}}}}\n"
        )
        lock = '{"version": 1, "slurm": "24.11.5", "hosts": {}, "ids": {"slurm.uid": 64030, "slurm.gid": 64030}}\n'
        loading.lock_path(configs / "cluster.yaml").write_text(lock)
        yield found


def run(there: Planted, command: list[str | Path]) -> str:
    """What a command said in that directory."""
    done = subprocess.run(
        command, cwd=there.directory, env=there.environment(), capture_output=True, text=True, timeout=120, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return done.stdout + done.stderr


def test_files_with_the_names_of_modules_and_programs_when_any_task_runs_beside_them_then_none_is_run(
    there: Planted,
) -> None:
    with ThreadPoolExecutor(2) as at_once:
        runs = at_once.map(lambda task: run(there, [BIN / "slurmfab", task, *TASKS[task]]), TASKS)
        said = dict(zip(TASKS, runs, strict=True))
    assert there.was_run == []
    assert [task for task, text in said.items() if "Traceback" in text] == []
    assert "nothing listens at 127.0.0." in said["deploy"] + said["plan"] + said["check-cluster"]


@pytest.mark.parametrize(
    "start",
    [
        [BIN / "fab"],
        [sys.executable, "-I", "-m", "slurmfab"],
        surroundings.program(),
    ],
    ids=["fab", "module", "child"],
)
def test_files_with_the_names_of_modules_when_the_program_starts_in_another_way_then_none_is_run(
    there: Planted, start: list[str | Path]
) -> None:
    said = [run(there, [*start, *words]) for words in (["--list"], ["plan"], ["check-cluster"], ["drift"])]
    assert there.was_run == []
    assert "check-cluster" in said[0]
    assert [text for text in said[1:] if "nothing listens at 127.0.0." not in text] == []


def test_a_python_of_this_program_when_variables_and_the_directory_name_code_then_heeds_none(there: Planted) -> None:
    environment = {"PYTHONPATH": ".", "PYTHONSTARTUP": "planted.py", "PYTHONPLATLIBDIR": ".", "PYTHONUSERBASE": "."}
    text = "import pickle, typing, yaml, paramiko, slurmfab.hosts.worker; print('loaded', sys.path)"
    done = subprocess.run(
        surroundings.python(text), cwd=there.directory, env={**there.environment(), **environment},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert there.was_run == []
    assert done.stdout.startswith("loaded"), done.stderr
    assert str(there.directory) not in done.stdout


def test_the_service_of_drift_when_there_is_no_program_to_call_then_starts_a_python_that_loads_no_planted_file(
    there: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = loading.load(there.directory / "configs/cluster.yaml")
    assert timer.command_of(known)[0] == str(BIN / "slurmfab")
    monkeypatch.setattr(Path, "exists", lambda _: False)
    command = timer.command_of(known)
    assert command[:2] == (sys.executable, "-I")
    monkeypatch.undo()
    assert "nothing listens at 127.0.0." in run(there, [*command])
    assert there.was_run == []


def test_files_that_make_the_directory_of_the_cluster_file_a_repository_then_their_settings_run_nothing(
    there: Planted, tmp_path: Path
) -> None:
    configs = tmp_path / "configs"
    configs.mkdir()
    (configs / "cluster.yaml").write_text("cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: n1}]\n")
    (configs / ".gitattributes").write_text("* filter=planted\n")
    own = ["git", "-C", str(configs), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message=a"]):
        subprocess.run([*own, *words], check=True)
    for path in (configs / ".git").iterdir():  # as they can be committed, and come by `git pull`
        path.rename(configs / path.name)
    (configs / ".git").rmdir()
    note = f"sh -c 'echo git >>{there.note}'"
    for key, value in {"core.bare": "false", "core.worktree": str(configs), "core.fsmonitor": note,
                       "filter.planted.clean": note}.items():  # fmt: skip
        subprocess.run(["git", "config", "--file", configs / "config", key, value], check=True)
    with (configs / "cluster.yaml").open("a") as file:
        file.write("# Changed.\n")
    for words in (["doctor", "--local"], ["plan"], ["check-cluster"]):
        run(there, [BIN / "slurmfab", *words, "--cluster", str(configs / "cluster.yaml")])
    assert there.was_run == []
    subprocess.run(["git", "-C", configs, "status"], capture_output=True, check=False)
    assert "git" in there.was_run, "without care, git runs what these files say"
    there.note.unlink()


STARTS = {
    "base/surroundings.py",  # -I
    "commands/accept/queue.py",  # -I, -S
    "lab/private_users.py",  # -I
    "on_hosts/agent/facts/facts.py",  # -I, -S
    "on_hosts/programs/containers/prune.py",  # a program of root's by its path
}
"""What may start a Python; all else does by `surroundings.python`."""

NAMES_IT = {"cli/tasks/__init__.py", "commands/doctor/software.py", "commands/drift/timer.py"}
"""What only shows which Python runs, or looks beside it."""

ELSEWHERE = {
    "commands/checks/mpi_program.py",
    "commands/quickcheck/mpi.py",
    "lab/el_standin.py",
    "on_hosts/agent/dnf/dnf_bundle.py",
    "on_hosts/agent/dnf/dnf_offer.py",
}
"""What starts a Python with a user's modules, as that user, or with dnf's, or is the `python3` of a stand-in."""
ISOLATED = re.compile(r"python3\"?,? (-IS\b|\"?-I\"?,? \"?(-B )?\"?-S\b|-E -S -s )")
"""Options that leave out the environment, the working directory, and /usr/local, where others than root may write."""
WITH_PACKAGES = ("python3 -I -B -m jupyterhub -f", "python3 -E -s -B %s/run.py server", "python3 -m venv")
"""What needs packages of Python's, and is no root's."""


def test_a_python_when_this_program_starts_one_anywhere_then_it_takes_no_module_from_the_working_directory() -> None:
    texts = {name: path.read_text() for name, path in SOURCES.items()}
    assert {name for name, text in texts.items() if "sys.executable" in text} == STARTS | NAMES_IT
    assert not [name for name, text in texts.items() if re.search(r"multiprocessing import (Process|Pool)", text)]
    commands = re.compile(r"python3(?:\"?,? [\"']?-|\"?,? \"\$| -m| - )")
    wrong = [
        f"{name}: {text[found.start() : found.start() + 60]!r}"
        for name, text in {**texts, **templates()}.items()
        for found in commands.finditer(text)
        if name not in ELSEWHERE and not ISOLATED.match(text, found.start())
        if not text.startswith(WITH_PACKAGES, found.start())
    ]
    assert wrong == [], "\n".join(wrong)


def templates() -> dict[str, str]:
    """The texts of templates, by name."""
    top = Path(__file__).parents[2] / "templates"
    return {path.name: path.read_text(errors="replace") for path in top.rglob("*.j2")}


@pytest.mark.parametrize("home", [None, "", "."])
def test_a_directory_that_is_called_as_the_home_is_not_the_home_of_a_user_without_one(
    monkeypatch: pytest.MonkeyPatch, home: str | None
) -> None:
    def nobody(_: int) -> None:
        raise KeyError

    monkeypatch.setattr("pwd.getpwuid", nobody)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("HOME", "LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "")  # so that what is set meanwhile is taken back
        monkeypatch.delenv(name)
    if home is not None:
        monkeypatch.setenv("HOME", home)
    surroundings.shut_out()
    assert Path("~/.fabric.py").expanduser() == Path("/.fabric.py")
    assert getpass.getuser().isdigit()
