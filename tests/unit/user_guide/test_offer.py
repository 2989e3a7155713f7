"""What a cluster offers its users, from the cluster file and the lock."""

from __future__ import annotations

import pytest
from offered_clusters import example, form_cluster, known

from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.core.user_guide.limits import Cap, limit_texts
from slurmfab.core.user_guide.offer import Shape, caps_of_accounts, offer, shape_of
from slurmfab.core.user_guide.tables import per_job

HEAD = "cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: 'n[1-4]'}]\n"


def parse(text: str) -> Cluster:
    return loading.parse(HEAD + text, "cluster.yaml")


def test_partitions_when_nodes_are_known_then_have_their_limits_and_what_nodes_have() -> None:
    cluster = form_cluster()
    batch, gpu, physics = offer(cluster, known(cluster)).partitions
    assert (batch.is_default, batch.count, batch.max_minutes, batch.max_nodes) == (True, 8, 7 * 24 * 60, 4)
    assert batch.shapes == ((Shape(cpus=64, memory=249290, scratch=800), 8),)
    assert gpu.gpus == {"a100": 4, "v100": 2}
    assert gpu.caps == (Cap("gpus", 6, "partition gpu: 6 GPUs for each user"),)
    assert (physics.accounts, physics.max_minutes) == (("physics",), None)


def test_partitions_when_nodes_have_never_answered_then_have_what_the_file_says() -> None:
    found = offer(example("gpu"), Lock())
    assert [(one.type, one.total, one.per_node, one.partitions) for one in found.gpus] == [
        ("a100", 16, "4", ("gpu", "debug")),
        ("v100", 4, "2", ("gpu",)),
    ]
    assert [one.default_memory for one in found.partitions] == ["", "64G for each GPU", ""]
    assert found.shapes[1] == (Shape(features=("bigmem",), others=(("localtmp", "800G"),)), 4)


def test_gpus_when_found_at_first_contact_then_are_offered_without_a_word_in_the_file() -> None:
    cluster = loading.parse("cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: gpu1}]\n", "cluster.yaml")
    (gpus,) = offer(cluster, known(cluster)).gpus
    assert (gpus.type, gpus.total, gpus.partitions) == ("a100", 4, ("main",))


@pytest.mark.parametrize(
    ("partition", "words"),
    [
        ("", "any number"),
        (", MaxNodes: 2", "up to 2"),
        (", MinNodes: 2", "2 or more"),
        (", MinNodes: 2, MaxNodes: 3", "2 to 3"),
        (", MaxNodes: UNLIMITED", "any number"),
    ],
)
def test_nodes_of_a_job_are_told_in_words(partition: str, words: str) -> None:
    cluster = parse(f"partitions: [{{PartitionName: p, Nodes: ALL{partition}}}]\n")
    assert per_job(offer(cluster, Lock()).partitions[0]) == words


def test_partitions_when_hidden_then_are_not_offered() -> None:
    text = "partitions: [{PartitionName: p, Nodes: ALL}, {PartitionName: q, Nodes: ALL, Hidden: YES}]\n"
    found = offer(parse(text), Lock())
    assert [one.name for one in found.partitions] == ["p"]
    assert found.default is None


def test_qos_when_no_account_lists_them_then_users_cannot_ask_for_them() -> None:
    assert offer(form_cluster(), Lock()).qos == ("normal", "urgent")


def test_limits_of_accounts_when_inherited_then_hold_for_those_below() -> None:
    accounts = "- {name: a, GrpTRES: node=2}\n- {name: b, parent: a, MaxWall: 60}\n"
    cluster = parse(f"database: c1\naccounts:\n{accounts}")
    assert caps_of_accounts(cluster.accounts)["b"] == (
        Cap("minutes", 60, "account b: 1 hour for each job"),
        Cap("nodes", 2, "account a: 2 nodes for all together"),
    )


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"MaxTRESPU": "gres/gpu=4,gres/gpu:a100=1"}, ["4 GPUs, 1 GPU of type a100 for each user"]),
        ({"MaxJobsPU": "1", "MaxSubmitJobsPU": "5"}, ["1 running job for each user",
                                                      "5 jobs, waiting ones included, for each user"]),
        ({"GrpTRESRunMins": "cpu=2000000"}, ["33,333 CPU hours left to run, for all running jobs together"]),
        ({"Preempt": "low"}, ["its jobs may take the place of jobs of low"]),
        ({"PreemptMode": "requeue"}, ["its jobs may be stopped and queued again"]),
        ({"UsageFactor": "0.5"}, ["use counts 0.5 times"]),
        ({"Priority": "10", "Flags": "DenyOnLimit"}, []),
        ({"GrpJobs": "-1"}, []),
        ({"MaxTRESPerNode": "mem=10G"}, ["10G of memory for each job on each node"]),
    ],
)  # fmt: skip
def test_limits_are_told_in_words(settings: dict[str, str], said: list[str]) -> None:
    assert limit_texts(settings, is_qos=True) == said


@pytest.mark.parametrize(
    ("settings", "shape"),
    [
        ({"CPUs": "8", "RealMemory": "1000"}, Shape(8, 1000)),
        ({"Sockets": "2", "CoresPerSocket": "4", "ThreadsPerCore": "2"}, Shape(16)),
        ({"Gres": "gpu:2,gpu:mi250x:1,scratch:400,shard:a100:8,shard:v100:4"},
         Shape(gpus=(("", 2), ("mi250x", 1)), scratch=400, others=(("shard", "12"),))),
        ({"Feature": "a,b"}, Shape(features=("a", "b"))),
        ({}, Shape()),
    ],
)  # fmt: skip
def test_what_a_job_finds_on_a_node_is_what_its_line_says(settings: dict[str, str], shape: Shape) -> None:
    assert shape_of(settings) == shape
