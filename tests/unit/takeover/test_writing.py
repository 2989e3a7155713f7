"""The files of an imported cluster: all are written, or none, and nothing is replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmfab.base.errors import InputError, SlurmfabError
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import HostLock, Lock
from slurmfab.commands.import_cluster.found import Takeover
from slurmfab.commands.import_cluster.writing import refuse_existing, write

TEXT = "cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: n1}]\n"
FILES = {"slurm_files/topology.conf": b"SwitchName=s1 Nodes=n1\n", "slurm_files/prolog.sh": b"#!/bin/sh\n"}
TAKEOVER = Takeover(TEXT, FILES, programs=("slurm_files/prolog.sh",))


def lock_of(known: Inventory) -> Lock:
    return Lock(hosts={name: HostLock(hostname=name) for name in known.cluster.hosts})


def tree(directory: Path) -> dict[str, str]:
    """All files below a directory, hidden ones too."""
    return {str(path.relative_to(directory)): path.read_text() for path in directory.rglob("*") if path.is_file()}


def test_an_import_when_written_then_has_cluster_file_lock_and_the_files_beside_it(tmp_path: Path) -> None:
    known = write(tmp_path / "configs/cluster.yaml", TAKEOVER, lock_of)
    assert sorted(tree(tmp_path)) == [
        "configs/cluster.lock.json",
        "configs/cluster.schema.json",
        "configs/cluster.yaml",
        "configs/slurm_files/prolog.sh",
        "configs/slurm_files/topology.conf",
    ]
    assert sorted(known.lock.hosts) == ["c1", "n1"]
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "configs/slurm_files").iterdir()}
    assert modes == {"prolog.sh": 0o755, "topology.conf": 0o644}


@pytest.mark.parametrize("name", ["cluster.yaml", "cluster.lock.json", "slurm_files/prolog.sh"])
def test_an_import_when_one_of_its_files_exists_then_writes_none(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    with pytest.raises(InputError, match=r"Nothing was written\.$"):
        write(tmp_path / "cluster.yaml", TAKEOVER, lock_of)
    assert tree(tmp_path) == {name: "mine"}


def test_an_import_when_a_file_cannot_take_its_place_then_the_others_are_taken_away_again(tmp_path: Path) -> None:
    (tmp_path / "slurm_files").write_text("a file where a directory belongs")
    with pytest.raises(InputError, match=r"cannot be written: Not a directory|there already"):
        write(tmp_path / "cluster.yaml", TAKEOVER, lock_of)
    assert list(tree(tmp_path)) == ["slurm_files"]


def test_a_cluster_file_with_a_mistake_when_read_back_then_is_told_as_a_bug_and_nothing_is_written(
    tmp_path: Path,
) -> None:
    with pytest.raises(SlurmfabError, match=r"cluster\.yaml:1: .*[\s\S]*This is a bug"):
        write(tmp_path / "cluster.yaml", Takeover("clusters: lab\n"), lock_of)
    assert tree(tmp_path) == {}


@pytest.mark.parametrize("name", ["../evil", "/etc/passwd", "slurm_files/../../evil", ""])
def test_a_file_whose_name_leads_elsewhere_then_is_not_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(SlurmfabError, match="no path beside the cluster file"):
        write(tmp_path / "configs/cluster.yaml", Takeover(TEXT, {name: b"x"}), lock_of)
    assert tree(tmp_path) == {}


@pytest.mark.parametrize("name", ["cluster.yaml", "cluster.lock.json"])
def test_an_existing_file_then_is_refused_before_any_host_is_asked(tmp_path: Path, name: str) -> None:
    refuse_existing(tmp_path / "cluster.yaml")
    (tmp_path / name).write_text("")
    with pytest.raises(InputError, match=r"exists already.*fab import --cluster"):
        refuse_existing(tmp_path / "cluster.yaml")
