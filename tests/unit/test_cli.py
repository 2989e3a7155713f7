"""`slurmfab` and `fab` as people call them: exit codes, one plain message, and never a traceback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from forked_program import ForkedProgram

from slurmfab import __version__
from slurmfab.cli.tasks import namespace

TOP = Path(__file__).parents[2]
TASKS = [name.replace("_", "-") for name in namespace.task_names]


@dataclass(frozen=True)
class Ended:
    """A program that has ended."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        return self.out + self.err


@dataclass(frozen=True)
class Place:
    """An empty directory, which is the home directory as well, in which to call programs."""

    path: Path
    loaded: ForkedProgram

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "HOME": str(self.path), "SLURMFAB_CLUSTER": "", "COLUMNS": "80"}

    def call(self, program: str, *words: str, stdin: str = "") -> Ended:
        """Start a program as a shell does."""
        search = ["--search-root", str(TOP)] if program == "fab" else []
        done = subprocess.run(
            [Path(sys.executable).with_name(program), *search, *words],
            input=stdin,
            cwd=self.path,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return without_traceback(Ended(done.returncode, done.stdout, done.stderr))

    def slurmfab(self, *words: str) -> Ended:
        """Have `slurmfab` in a process that need not load it."""
        return without_traceback(Ended(*self.loaded.call(words, self.path, self.environment)))

    def write(self, text: str, name: str = "configs/cluster.yaml") -> Path:
        path = self.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path


def without_traceback(ended: Ended) -> Ended:
    assert "Traceback" not in ended.said
    return ended


@pytest.fixture(scope="module")
def loaded() -> Iterator[ForkedProgram]:
    program = ForkedProgram()
    yield program
    program.end()


@pytest.fixture
def place(tmp_path: Path, loaded: ForkedProgram) -> Place:
    return Place(tmp_path, loaded)


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port of this machine that is taken and on which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.mark.parametrize("program", ["fab", "slurmfab"])
def test_the_list_shows_every_task_on_a_line_of_its_own(place: Place, program: str) -> None:
    listed = place.call(program, "--list")
    assert listed.code == 0
    lines = [line.split() for line in listed.out.splitlines() if line.startswith("  ")]
    assert sorted(words[0] for words in lines) == sorted(TASKS)


def test_the_version_is_told(place: Place) -> None:
    assert __version__ in place.slurmfab("--version").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["no-such-task"], "no-such-task"),
        (["deploy", "--no-such-flag"], "--no-such-flag"),
        (["--no-such-flag"], "--no-such-flag"),
        (["--hosts"], "hosts"),
        (["add-node"], "HOSTS"),
        (["deploy"], "There is no cluster file configs/cluster.yaml"),
        (["plan"], "There is no cluster file configs/cluster.yaml"),
        (["add-node", "n3"], "There is no cluster file configs/cluster.yaml"),
        (["deploy", "--cluster", "other.yaml"], "There is no cluster file other.yaml"),
        (["deploy", "--hosts", "n1", "--become", "perhaps"], "--become perhaps"),
        (["deploy", "--hosts", "n1", "--port", "ssh"], "--port ssh"),
        (["deploy", "--hosts", "n1", "--port", "99999"], "--port 99999"),
        (["deploy", "--hosts", "n1", "--user", "a b"], "a b"),
        (["deploy", "--hosts", "n1", "--gateway", "n[1-2]"], "n[1-2]"),
        (["deploy", "--hosts", "n[1-"], "n[1-"),
        (["deploy", "--hosts", "n1,n1"], "more than once"),
        (["deploy", "--hosts", "n1,n2", "--key", "missing"], "The private key missing does not exist"),
        (["deploy", "--only", "mung-key"], "--only mung-key: there is no such phase. Did you mean munge-key?"),
        (["deploy", "--only", ""], "--only names no phase."),
        (["plan", "--only", ","], "--only names no phase."),
        (["deploy", "--only", "users", "--prune"], "--prune is about people, accounts, limits"),
        (["deploy", "--hosts", "n1", "--only", "users"], "a first contact has all phases"),
        (["lab-up", "--nodes", "many"], "many"),
    ],
)
def test_wrong_input_is_told_in_a_message_with_exit_code_2(place: Place, words: list[str], said: str) -> None:
    ended = place.slurmfab(*words)
    assert (ended.code, said in ended.said) == (2, True), ended.said
    assert not (place.path / "configs").exists()


def test_fab_and_slurmfab_tell_the_same_of_a_missing_cluster_file(place: Place) -> None:
    by_fab, by_us = place.call("fab", "deploy"), place.slurmfab("deploy")
    assert (by_fab.code, by_fab.err.replace("`fab ", "`slurmfab ")) == (by_us.code, by_us.err)


@pytest.mark.parametrize("program", ["fab", "slurmfab"])
def test_the_program_alone_shows_what_it_is_and_its_tasks_in_groups(place: Place, program: str) -> None:
    shown = place.call(program)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith("slurmfab turns bare machines into a working Slurm cluster over SSH")
    assert f"\nHelp for one task: {program} TASK --help." in shown.out
    assert "--pty" not in shown.out


def test_help_without_a_task_shows_our_tasks_in_groups_and_fabrics_options(place: Place) -> None:
    shown = place.slurmfab("--help")
    assert (shown.code, "--pty" in shown.out, "Nodes:\n  add-node" in shown.out) == (0, True, True)


def test_slurmfab_takes_hosts_in_front_of_the_task_as_well(place: Place) -> None:
    assert "--become perhaps" in place.slurmfab("--hosts", "n1,n2", "deploy", "--become", "perhaps").err


def test_a_damaged_cluster_file_is_told_with_its_lines_and_all_at_once(place: Place) -> None:
    place.write("cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: n1}]\nnodez: 1\nhosts_file: perhaps\n")
    ended = place.slurmfab("plan")
    assert ended.code == 2
    assert "configs/cluster.yaml:4: nodez" in ended.err
    assert "configs/cluster.yaml:5: hosts_file" in ended.err


@pytest.mark.parametrize("text", ["a: [\n", "", "- 1\n", "\t\n", "\x00"])
def test_what_is_no_cluster_file_at_all_is_told(place: Place, text: str) -> None:
    place.write(text)
    ended = place.slurmfab("deploy")
    assert (ended.code, "configs/cluster.yaml" in ended.err) == (2, True), ended.said


def test_a_damaged_lock_is_told(place: Place) -> None:
    place.write("cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: n1}]\n")
    place.write("{", "configs/cluster.lock.json")
    ended = place.slurmfab("deploy")
    assert (ended.code, "configs/cluster.lock.json is damaged" in ended.err) == (2, True)


def test_a_host_that_the_cluster_file_does_not_know_is_told_with_the_way_in(place: Place) -> None:
    place.write("cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: n1}]\n")
    ended = place.slurmfab("deploy", "--hosts", "n7")
    assert (ended.code, "n7: not in configs/cluster.yaml" in ended.err, "add-node" in ended.err) == (2, True, True)


def test_a_member_cannot_be_added(place: Place) -> None:
    place.write("cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: n1}]\n")
    ended = place.slurmfab("add-node", "n1")
    assert (ended.code, "n1: already in the cluster lab" in ended.err) == (2, True)


def test_at_first_contact_a_controller_that_is_off_is_told_and_nothing_is_written(
    place: Place, closed_port: int
) -> None:
    ended = place.slurmfab("deploy", "--hosts", f"root@127.0.0.1:{closed_port},root@127.0.0.2:{closed_port}")
    assert ended.code == 1
    assert f"nothing listens at its port {closed_port}" in ended.err
    assert "nothing was written or changed" in ended.err
    assert not (place.path / "configs").exists()


@pytest.mark.parametrize("task", ["deploy", "plan"])
def test_a_controller_that_is_off_ends_a_run_with_exit_code_1(place: Place, closed_port: int, task: str) -> None:
    place.write(
        "cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: n1}]\n"
        f"ssh: {{user: root, endpoints: {{c1: '127.0.0.1:{closed_port}', n1: '127.0.0.2:{closed_port}'}}}}\n"
    )
    ended = place.slurmfab(task)
    assert ended.code == 1
    assert f"c1,n1: nothing listens at 127.0.0.[1-2] port {closed_port}" in ended.err
    assert "c1 is the controller, so nothing else was started." in ended.err


def test_an_ssh_config_that_cannot_be_understood_is_told(place: Place) -> None:
    place.write("cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: n1}]\n")
    place.write("???\n", ".ssh/config")
    ended = place.slurmfab("deploy")
    assert (ended.code, ".ssh/config" in ended.err) == (2, True)


@pytest.mark.parametrize("program", ["fab", "slurmfab"])
def test_a_reader_who_leaves_early_is_no_error(place: Place, program: str) -> None:
    place.write("from slurmfab.fabfile import namespace\n", "fabfile.py")
    for words in ("help", "deploy --help", "--list")[: 3 if program == "slurmfab" else 1]:
        shell = f"'{Path(sys.executable).with_name(program)}' {words} | true"
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {shell}"], cwd=place.path, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), words


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_when_asked_for_a_shell_then_prints_its_script(place: Place, shell: str) -> None:
    done = place.slurmfab("completion", shell)
    assert done.code == 0
    assert "_ARGCOMPLETE" in done.out
    assert str(Path(sys.executable).with_name("slurmfab")) in done.out
