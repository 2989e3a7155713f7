"""One way to preempt: by partitions or by QOS."""

from __future__ import annotations

import pytest
from support import cluster

from slurmfab.base.errors import InputError

HEAD = """\
cluster: lab
controllers: [c1]
database: c1
nodes: [{hosts: "n[1-2]"}]
partitions:
  - {PartitionName: low, Nodes: ALL, PriorityTier: 1, PreemptMode: REQUEUE}
  - {PartitionName: high, Nodes: ALL, PriorityTier: 2}
qos:
  - {name: normal}
  - {name: urgent, Preempt: normal}
"""


def test_partitions_and_qos_that_both_preempt_are_refused_at_the_qos() -> None:
    with pytest.raises(
        InputError, match=r"cluster.yaml:10: qos\[1\].*\"urgent\" preempts by Preempt.*supports one of the two"
    ):
        cluster(HEAD)


def test_whoever_names_the_type_chooses_one() -> None:
    assert cluster(f"{HEAD}slurm_conf: {{PreemptType: preempt/qos}}\n").qos


def test_tiers_without_a_mode_of_their_own_do_not_disturb_qos() -> None:
    assert cluster(HEAD.replace(", PreemptMode: REQUEUE", "")).qos
