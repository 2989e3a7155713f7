"""Files that a cluster file names: all that are missing are told in one run."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import cluster

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.core.engine.planning import read_local_input

NAMING_FILES = """\
cluster: lab
controllers: [c1]
nodes: [{hosts: "n[1-2]"}]
slurm_files: {a.conf: a, b.conf: b}
prolog: prolog.d
files: {/etc/site: {source: site}}
slurm: {version: "24.11.*", source: {uris: "http://apt.example.org/slurm", suites: stable, key: slurm.asc}}
"""


def test_files_that_are_missing_when_a_plan_is_made_are_all_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError) as raised:
        read_local_input(Inventory(cluster(NAMING_FILES), Lock(), tmp_path / "cluster.yaml"))
    lines = str(raised.value).splitlines()
    for key in ("slurm_files.a.conf", "slurm_files.b.conf", "prolog", "files./etc/site", "slurm.asc"):
        assert any(key in line for line in lines), lines
    assert lines[-1] == "Nothing was changed on any host."
    assert lines.count(lines[-1]) == 1
