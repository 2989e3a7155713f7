"""Files of the site's own beside the cluster file: what is taken from them, and what is refused at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory import slurm_files
from slurmfab.cluster.inventory.slurm_files import LARGEST_FILE, SiteFile


def test_files_are_read_from_beside_the_cluster_file_with_their_bytes_and_modes(tmp_path: Path) -> None:
    (tmp_path / "slurm").mkdir()
    (tmp_path / "slurm/topology.conf").write_text("SwitchName=s1 Nodes=n1\n")
    (tmp_path / "prolog.sh").write_bytes(b"#!/bin/sh\n\xff\n")
    (tmp_path / "prolog.sh").chmod(0o700)
    found = slurm_files.read({"topology.conf": "slurm/topology.conf", "prolog.sh": "prolog.sh"}, tmp_path)
    assert found == (
        SiteFile("prolog.sh", "#!/bin/sh\n\udcff\n", 0o755),
        SiteFile("topology.conf", "SwitchName=s1 Nodes=n1\n", 0o644),
    )


def test_every_file_that_cannot_be_used_is_told_of_at_once(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * (LARGEST_FILE + 1))
    (tmp_path / "directory").mkdir()
    files = {"a.conf": "missing", "b.conf": "large", "c.conf": "directory"}
    with pytest.raises(InputError) as refused:
        slurm_files.read(files, tmp_path)
    lines = str(refused.value).splitlines()
    assert [line.split(":")[0] for line in lines[:-1]] == [f"slurm_files.{name}" for name in files]
    assert "No such file" in lines[0]
    assert "256 KiB" in lines[1]
    assert lines[-1] == "Nothing was changed on any host."


def test_files_that_are_too_much_together_are_refused(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * LARGEST_FILE)
    with pytest.raises(InputError, match="they have 1280 KiB together"):
        slurm_files.read({f"{number}.conf": "large" for number in range(5)}, tmp_path)
