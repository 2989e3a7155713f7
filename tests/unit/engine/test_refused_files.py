"""Errors of the installed Slurm about new files, and the places of the cluster file that they are about."""

from __future__ import annotations

import pytest

from slurmfab.cluster.inventory.complaints import place_in_words
from slurmfab.cluster.inventory.reading import read
from slurmfab.core.engine.refused_files import places

TEXT = """cluster: lab
controllers: [ctl]
nodes:
  - hosts: n[1-2]
    RealMemory: 900G
  - hosts: n3
    RealMemory: 2000
partitions:
  - PartitionName: main
    Nodes: ALL
    MaxTime: 7 days
  - {PartitionName: short, Nodes: ALL, MaxTime: 7dd, State: NOPE}
slurm_conf:
  SlurmdTimeout: five
  PreemptType: preempt/qos
  PriorityDecayHalfLife: 14 days-0
"""


@pytest.mark.parametrize(
    ("error", "found"),
    [
        ('error: SlurmdTimeout value "five" is not a valid number', ["14 slurm_conf.SlurmdTimeout"]),
        ("error: RealMemory value (900G) is not a valid number", ["5 nodes[0].RealMemory"]),
        (
            'error: Parse error in file /etc/slurm/slurm.conf line 72: " RealMemory=900G State=UNKNOWN"',
            ["5 nodes[0].RealMemory"],
        ),
        ('error: Parse error in file /etc/slurm/slurm.conf line 75: " days"', ["11 partitions[0].MaxTime"]),
        ('error: Bad value "7dd" for MaxTime', ["12 partitions[1].MaxTime"]),
        ('error: Bad value "NOPE" for State', ["12 partitions[1].State"]),
        ("error: PreemptType and PreemptMode values incompatible", ["15 slurm_conf.PreemptType"]),
        ("error: _parse_next_key: Parsing error at unrecognized key: SLURMDTIMEOUT", ["14 slurm_conf.SlurmdTimeout"]),
        ('error: Parse error in file /etc/slurm/slurm.conf line 3: ""', []),
        ("error: something else", []),
    ],
)
def test_an_error_of_slurm_is_about_these_places_of_the_cluster_file(error: str, found: list[str]) -> None:
    document = read(TEXT, "cluster.yaml")
    assert [f"{document.line(place)} {place_in_words(place)}" for place in places(error, document)] == found
