"""The archive of a support bundle."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from slurmfab.base.errors import InputError
from slurmfab.commands.support_bundle import making

FILES = {"runs.txt": "one\n", "README.txt": "two\n", "hosts/n1/logs/slurmd.log": "Ü\n"}


def test_the_same_files_in_another_order_give_the_same_bytes_for_their_owner_alone(tmp_path: Path) -> None:
    first, second = tmp_path / "a.tar.gz", tmp_path / "b.tar.gz"
    size = making.write_archive(first, "x-support", FILES, 1_000)
    making.write_archive(second, "x-support", dict(reversed(FILES.items())), 1_000)
    assert first.read_bytes() == second.read_bytes()
    assert (first.stat().st_mode & 0o777, first.stat().st_size) == (0o600, size)
    with tarfile.open(first) as tar:
        assert tar.getnames() == [f"x-support/{name}" for name in sorted(FILES)]
        assert {(one.mode, one.uid, one.mtime) for one in tar} == {(0o600, 0, 1_000)}


def test_an_archive_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "a.tar.gz").write_text("mine")
    with pytest.raises(InputError, match="exists already"):
        making.place_of_archive(tmp_path / "cluster.yaml", "x", str(tmp_path / "a.tar.gz"))


def test_an_archive_without_a_place_is_beside_the_cluster_file(tmp_path: Path) -> None:
    path = making.place_of_archive(tmp_path / "cluster.yaml", "x-1", "")
    assert path == tmp_path / "cluster.support" / "x-1.tar.gz"
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert making.place_of_archive(tmp_path / "cluster.yaml", "x-1", str(tmp_path)) == tmp_path / "x-1.tar.gz"
