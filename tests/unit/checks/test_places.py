"""Where a test job runs, by the cluster file: a table of users and partitions."""

from __future__ import annotations

import pytest

from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.own_jobs import Place, place_for

CLUSTER = """
cluster: tiny
controllers: [ctl]
database: ctl
nodes:
  - hosts: n[1-4]
partitions:
  - {PartitionName: cpu, Nodes: "n[1-2]", AllowAccounts: physics}
  - {PartitionName: gpu, Nodes: "n[3-4]", AllowAccounts: "Maths,art", QOS: normal}
  - {PartitionName: odd, Nodes: "n[2-3]", DenyAccounts: art}
accounts: [{name: physics}, {name: maths}, {name: art}]
users:
  - {name: ada, uid: 4001, accounts: [physics, maths]}
  - {name: eve, uid: 4002, accounts: art}
  - {name: new, uid: 4003}
"""


@pytest.mark.parametrize(
    ("user", "nodes", "place"),
    [
        ("slurm", ("n1",), Place("slurmfab")),
        ("slurm", ("n1", "n4"), Place("slurmfab")),
        ("root", ("n1",), Place("slurmfab")),
        ("ada", ("n1",), Place("cpu")),
        ("ada", ("n4",), Place("gpu", "maths")),
        ("ada", ("n2", "n3"), Place("odd")),
        ("ada", ("n1", "n4"), None),
        ("eve", ("n3",), Place("gpu")),
        # By the file they may not use it: Slurm says why.
        ("eve", ("n1",), Place("cpu")),
        ("eve", ("n2", "n3"), Place("odd")),
        # Whom the file does not know may have an account all the same, and some partitions want none.
        ("bob", ("n3",), Place("odd")),
        ("new", ("n1",), Place("cpu")),
    ],
)
def test_a_job_of_a_user_on_nodes_goes_to_a_partition_that_the_user_may_use(
    user: str, nodes: tuple[str, ...], place: Place | None
) -> None:
    assert place_for(loading.parse(CLUSTER, "tiny.yaml"), user, nodes) == place


@pytest.mark.parametrize("user", ["slurm", "ada"])
def test_a_node_whose_partition_the_cluster_file_keeps_down_then_has_no_test_jobs(user: str) -> None:
    text = CLUSTER.replace('Nodes: "n[3-4]"', 'Nodes: "n[3-4]", State: DOWN') + "own_partition: false\n"
    cluster = loading.parse(text, "tiny.yaml")
    assert [place_for(cluster, user, (node,)) for node in ("n4", "n1")] == [None, Place("cpu")]


@pytest.mark.parametrize(
    ("nodes", "place"),
    [
        (("n1",), Place("cpu")),
        (("n2",), Place("odd")),
        (("n3",), Place("odd")),
        (("n1", "n4"), None),
        ((), Place("odd")),
    ],
)
def test_without_a_partition_of_its_own_slurmfabs_jobs_run_where_the_slurm_user_may(
    nodes: tuple[str, ...], place: Place | None
) -> None:
    cluster = loading.parse(CLUSTER.replace("cluster: tiny", "cluster: tiny\nown_partition: false"), "tiny.yaml")
    assert place_for(cluster, "slurm", nodes) == place


def test_a_partition_that_is_down_is_the_last_choice() -> None:
    text = CLUSTER.replace("DenyAccounts: art", "State: DOWN").replace("cluster: tiny", "cluster: t\nown_partition: no")
    assert place_for(loading.parse(text.replace(": no", ": false"), "tiny.yaml"), "root", ("n2",)) == Place("cpu")


def test_a_place_is_given_to_slurm_as_options() -> None:
    assert Place("gpu", "maths").options == ("--partition=gpu", "--account=maths")
    assert Place("gpu").options == ("--partition=gpu",)
