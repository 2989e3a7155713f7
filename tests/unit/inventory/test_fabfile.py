"""The fabfile that a new cluster's directory gets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slurmfab.cluster.inventory.fabfile import TEXT, provide


def test_a_new_clusters_directory_gets_few_lines_by_which_fab_finds_the_tasks(tmp_path: Path) -> None:
    assert (
        provide(tmp_path / "configs/cluster.yaml") == f"Wrote {tmp_path}/fabfile.py: `fab` works in that directory now."
    )
    assert (tmp_path / "fabfile.py").read_text() == TEXT
    assert len(TEXT.splitlines()) <= 20
    (tmp_path / "deeper").mkdir()
    for directory in (tmp_path, tmp_path / "deeper"):
        fab = subprocess.run(
            [Path(sys.executable).with_name("fab"), "--list"],
            cwd=directory,
            env={**os.environ, "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (fab.returncode, "check-cluster" in fab.stdout) == (0, True), fab.stderr


def test_fabfile_when_only_slurmfab_is_on_the_path_then_the_line_promises_no_fab(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin/slurmfab"
    program.parent.mkdir()
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    assert provide(tmp_path / "configs/cluster.yaml").endswith("here, as after pipx install, it is `slurmfab`.")


@pytest.mark.parametrize("name", ["fabfile.py", "fabfile/__init__.py"])
def test_a_fabfile_that_is_there_stays(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine = 1\n")
    assert provide(tmp_path / "configs/cluster.yaml") == ""
    assert path.read_text() == "mine = 1\n"
    assert [one.name for one in tmp_path.iterdir()] == [Path(name).parts[0]]


def test_a_cluster_file_elsewhere_gets_none(tmp_path: Path) -> None:
    assert provide(tmp_path / "cluster.yaml") == ""
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_written_to_is_told_and_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    told = provide(tmp_path / "file/configs/cluster.yaml")
    assert (
        told
        == f"{tmp_path}/file/fabfile.py cannot be written, so `fab` does not work in that directory; `slurmfab` does."
    )
