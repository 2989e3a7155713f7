"""Mistakes that show only on hosts are told with the line of the cluster file, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory.loading import line_naming, load, with_lines
from slurmfab.core.plan.preflight.configuration import KeysRefused

FILE = """\
cluster: titanic
controllers: [ctl]
nodes:
  - hosts: n1
  - hosts: n2
    Features: big
    Zzz: 7
partitions:
  - {PartitionName: main, Nodes: ALL, Default: YES}
slurm_conf:
  SlurmdTimeout: 300
  SlurmctldFrobs: 300
"""


@pytest.mark.parametrize(
    ("mistake", "line"),
    [
        ("slurm_conf.slurmctldFrobs: no such key in Slurm 24.11", 12),
        ("slurm_conf.SlurmctldFrobs: no such key in Slurm 24.11", 12),
        ("nodes.Zzz: no such key in Slurm 24.11", 7),
        ("partitions.PartitionName: it is of no use", 9),
        ("cgroup_conf.Zzz: no such key in Slurm 24.11", 0),
        ("something else: altogether", 0),
    ],
)
def test_a_mistake_when_its_key_is_in_the_file_then_has_its_line(tmp_path: Path, mistake: str, line: int) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(FILE)
    inventory = load(path)
    assert with_lines(inventory, [mistake]) == (f"{path}:{line}: {mistake}" if line else mistake,)


def test_refused_keys_when_told_then_each_has_a_line_and_the_way_out_is_last() -> None:
    refused = KeysRefused(("a.B: no", "c.D: no"), "Change that.")
    assert isinstance(refused, InputError)
    assert str(refused) == "a.B: no\nc.D: no\nChange that."


@pytest.mark.parametrize(("host", "line"), [("ctl", 2), ("n2", 5), ("n", 0), ("ctl2", 0)])
def test_a_host_when_the_file_names_it_by_itself_then_has_its_line(tmp_path: Path, host: str, line: int) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(FILE.replace("controllers: [ctl]", "controllers: [ctl]  # ctl2 is to come"))
    assert line_naming(load(path), host) == line
