"""What doctor says of the cluster file and its directory."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from slurmfab.commands.doctor import cluster_files
from slurmfab.commands.doctor.finding import FAILURE, OK, WARNING

CLUSTER = "cluster: lab\nssh: {user: root}\ncontrollers: [c1]\nnodes: [{hosts: n1}]\n"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    path = tmp_path / "configs/cluster.yaml"
    path.parent.mkdir()
    path.write_text(CLUSTER)
    return path


def git(path: Path, *words: str) -> None:
    who = ["-c", "user.name=ann", "-c", "user.email=ann@example.org"]
    subprocess.run(["git", *who, *words], cwd=path.parent, check=True, capture_output=True)


def test_a_cluster_file_when_right_then_its_hosts_are_counted(path: Path) -> None:
    known, (found,) = cluster_files.load(path)
    assert known
    assert (found.state, found.text) == (OK, f"{path}: lab, 2 hosts; not deployed yet")


def test_a_cluster_file_when_missing_then_is_no_failure(path: Path) -> None:
    path.unlink()
    known, (found,) = cluster_files.load(path)
    assert known is None
    assert found.state == OK
    assert "deploy --hosts" in found.text


@pytest.mark.parametrize(
    ("text", "told"), [("cluster: [", ":1: "), (CLUSTER + "oh: no\nno: oh\nx: 1\ny: 2\nz: 3\n", "and 2 more")]
)
def test_a_cluster_file_when_wrong_then_its_first_mistakes_are_shown(path: Path, text: str, told: str) -> None:
    path.write_text(text)
    known, (found,) = cluster_files.load(path)
    assert known is None
    assert found.state == FAILURE
    assert told in found.text


def test_a_lock_when_damaged_then_is_a_failure(path: Path) -> None:
    path.with_name("cluster.lock.json").write_text("{")
    known, (found,) = cluster_files.load(path)
    assert known is None
    assert found.state == FAILURE
    assert "cluster.lock.json" in found.text


def test_a_directory_when_not_writable_then_is_a_failure(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert next(iter(cluster_files.writable(path))).state == OK
    monkeypatch.setattr(os, "access", lambda one, _: one == path)  # root may write everywhere
    found = next(iter(cluster_files.writable(path)))
    assert found.state == FAILURE
    assert f"{path.parent}:" in found.text


def test_a_cluster_file_when_in_no_repository_then_git_is_recommended(path: Path) -> None:
    found = next(iter(cluster_files.in_git(path)))
    assert found.state == WARNING
    assert f"cd {path.parents[1]}; git init; git add configs; git commit" in found.text


def test_a_repository_when_it_is_recommended_then_only_what_is_there_is_added(path: Path, tmp_path: Path) -> None:
    (path.parents[1] / "fabfile.py").touch()
    assert "git add configs fabfile.py; git commit" in next(iter(cluster_files.in_git(path))).text
    other = tmp_path / "elsewhere" / "lab.yaml"
    other.parent.mkdir()
    other.touch()
    assert f"cd {other.parent}; git init; git add lab.yaml; git commit" in next(iter(cluster_files.in_git(other))).text


def test_a_cluster_file_when_in_a_repository_then_what_is_not_committed_is_named(path: Path) -> None:
    git(path, "init")
    assert "cluster.yaml not added" in next(iter(cluster_files.in_git(path))).text
    git(path, "add", "cluster.yaml")
    git(path, "commit", "-m", "the cluster")
    assert next(iter(cluster_files.in_git(path))).text == "committed: cluster.yaml"
    path.with_name(".gitignore").write_text("*.lock.json\n")
    path.with_name("cluster.lock.json").write_text("{}")
    path.write_text(CLUSTER + "\n")
    text = next(iter(cluster_files.in_git(path))).text
    assert "cluster.yaml not committed" in text
    assert "cluster.lock.json ignored by git" in text


def test_a_fabfile_when_there_is_one_then_is_named(path: Path) -> None:
    assert "only slurmfab works" in next(iter(cluster_files.tasks_for_fab(path))).text
    (path.parents[1] / "fabfile.py").write_text("")
    assert str(path.parents[1] / "fabfile.py") in next(iter(cluster_files.tasks_for_fab(path))).text


def test_a_filter_in_the_settings_of_a_repository_then_doctor_does_not_run_it(path: Path, tmp_path: Path) -> None:
    git(path, "init")
    git(path, "add", "cluster.yaml")
    git(path, "commit", "-m", "x")
    git(path, "config", "filter.x.clean", f"touch {tmp_path}/was-run; cat")
    (path.parent / ".git/info").mkdir(exist_ok=True)
    (path.parent / ".git/info/attributes").write_text("* filter=x\n")
    os.utime(path, (1, 1))
    (found,) = cluster_files.in_git(path)
    assert (found.state, (tmp_path / "was-run").exists()) == (OK, False)
