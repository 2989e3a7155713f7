"""The cluster file that answers make: it says what was answered, and is accepted as it is."""

from __future__ import annotations

import re

import pytest

from slurmfab.cluster.inventory import loading
from slurmfab.commands.init.asking import QUESTIONS, Answers, cluster_file_text, complaint

FEW = Answers("lab", "ctl", "n[1-4]")
ALL = Answers("lab", "ctl", "n[1-4],g[1-2]", "login1", "admin", True, "g[1-2]", "nas:/export/home", "ann, bob")


def test_a_file_of_few_answers_has_one_partition_of_all_nodes_and_no_other_keys() -> None:
    cluster = loading.parse(cluster_file_text(FEW), "a file")
    assert (cluster.name, cluster.controllers, cluster.compute_nodes) == ("lab", ("ctl",), ("n1", "n2", "n3", "n4"))
    assert (cluster.ssh.user, cluster.ssh.become) == (None, "sudo")
    assert [(one.name, one.nodes) for one in cluster.partitions] == [("main", "ALL")]
    assert cluster.model_fields_set == {"name", "ssh", "controllers", "nodes", "partitions"}


def test_a_file_of_all_answers_has_a_key_for_each() -> None:
    cluster = loading.parse(cluster_file_text(ALL), "a file")
    assert (cluster.login, cluster.ssh.user, cluster.database_hosts) == (("login1",), "admin", ("ctl",))
    assert [group.hosts for group in cluster.nodes] == [("n1", "n2", "n3", "n4"), ("g1", "g2")]
    assert [(one.name, one.nodes) for one in cluster.partitions] == [
        ("main", ("n1", "n2", "n3", "n4")),
        ("gpu", ("g1", "g2")),
    ]
    assert [(one.path, one.source, one.type) for one in cluster.mounts] == [("/home", "nas:/export/home", "nfs4")]
    assert [(user.name, user.home_directory) for user in cluster.users] == [("ann", "/home/ann"), ("bob", "/home/bob")]


def test_what_is_commented_out_is_right_once_it_is_no_comment() -> None:
    wanted = re.findall(r"^# (  .*|[a-z_]+:(?: .*)?)$", cluster_file_text(ALL), re.M)
    more = "\n".join(wanted)
    cluster = loading.parse(f"{cluster_file_text(ALL)}\n{more}\n", "a file")
    assert cluster.backup is not None
    assert cluster.addresses["g2"] == "10.0.1.6"
    assert [one.name for one in cluster.accounts] == ["physics"]


@pytest.mark.parametrize(("nodes", "gpu_nodes"), [("g[1-2]", "g[1-2]"), ("ctl", "")])
def test_nodes_that_are_all_alike_are_in_one_partition(nodes: str, gpu_nodes: str) -> None:
    cluster = loading.parse(cluster_file_text(Answers("lab", "ctl", nodes, gpu_nodes=gpu_nodes)), "a file")
    assert [(one.name, one.nodes) for one in cluster.partitions] == [("main", "ALL")]
    assert len(cluster.nodes) == 1


def test_root_needs_no_sudo() -> None:
    assert loading.parse(cluster_file_text(Answers("lab", "ctl", "n1", user="root")), "a file").ssh.become is None


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (Answers("Lab"), '"Lab" is not a valid cluster name'),
        (Answers("lab", "c[1-"), "c[1-"),
        (Answers("lab", "ctl", "n[1-"), "n[1-"),
        (Answers("lab", "ctl", "n[1-4]", "n1"), "n1"),
        (Answers("lab", "ctl", "n[1-4]", user="a b"), '"a b" is not a login name'),
        (Answers("lab", "ctl", "n[1-4]", homes="/export"), 'the source of type nfs4 is SERVER:PATH, not "/export"'),
        (Answers("lab", "ctl", "n[1-4]", users="Ann"), '"Ann" is not a login name'),
        (Answers("lab", "ctl", "n[1-4]", gpu_nodes="g[1-"), "g[1-"),
        (Answers("lab", "ctl", "n[1-4]", gpu_nodes="g1"), '"g1" is not a compute node'),
    ],
)
def test_a_wrong_answer_is_refused_in_the_words_of_the_cluster_file(answers: Answers, words: str) -> None:
    told = complaint(answers)
    assert words in told
    assert "answers:" not in told


def test_answers_that_are_not_complete_yet_have_no_mistake() -> None:
    assert complaint(Answers()) == complaint(FEW) == complaint(ALL) == ""


def test_every_answer_has_its_question() -> None:
    assert [question.field for question in QUESTIONS] == list(Answers.__dataclass_fields__)
