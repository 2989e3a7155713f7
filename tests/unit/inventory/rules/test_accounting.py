"""Mistakes in an account tree, each with its line and what to try, all at once."""

from __future__ import annotations

import pytest

from slurmfab.base.errors import ClusterFileError
from slurmfab.cluster.inventory import loading

HEAD = 'cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: "n1"}]\ndatabase: c1\n'
GOOD = """\
qos: [{name: normal, MaxJobsPU: 3}, {name: high, Preempt: "low,normal"}, {name: low}]
accounts:
  - {name: root, QOS: "normal,high,low", MaxSubmitJobs: 1000}
  - {name: physics, coordinators: ada}
  - {name: theory, parent: physics, DefaultQOS: high, GrpTRES: "cpu=4"}
users:
  - {name: ada, accounts: [theory, root], DefaultQOS: low, associations: {theory: {DefaultQOS: high}}}
partitions:
  - {PartitionName: main, Nodes: ALL, AllowAccounts: "physics,theory", AllowQos: ALL, QOS: high}
"""


def complaints(text: str) -> list[str]:
    with pytest.raises(ClusterFileError) as error:
        loading.parse(HEAD + text, "c.yaml")
    return list(error.value.complaints)


def test_a_sound_tree_is_taken() -> None:
    assert loading.parse(HEAD + GOOD, "c.yaml").has_accounts


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("accounts: [{name: a, parent: b}]", 'accounts[0].parent: "b" is not a known account (known: a)'),
        ("accounts: [{name: physics, parent: phisics}]",
         'accounts[0].parent: "phisics" is not a known account (did you mean physics?)'),
        ("accounts: [{name: a, parent: a}]", "accounts[0].parent: the accounts form a loop: a below a"),
        ("accounts: [{name: a}, {name: a}]", 'accounts[1].name: "a" is already the name of accounts[0]'),
        ("accounts: [{name: root, parent: x}]",
         "accounts[0].parent: slurmdbd makes root itself; only its limits can be set"),
        ("accounts: [{name: a, coordinators: zoe}]",
         'accounts[0].coordinators: "zoe" is not a known user with accounts (known: none)'),
        ("accounts: [{name: a, GrpTRESS: cpu=1}]",
         "accounts[0].GrpTRESS: Slurm has no such limit here; did you mean GrpTRES?"),
        ("accounts: [{name: a, GrpCPUs: 1}]", "accounts[0].GrpCPUs: unknown key; write GrpTRES: cpu=…"),
        ("accounts: [{name: a, Priority: 1, MaxTRESPU: cpu=1}]",
         "accounts[0].MaxTRESPU: only a QOS has this limit in Slurm; set it on a QOS, and assign that with the key "
         "QOS"),
        ("accounts: [{name: a, MaxTRES: cpu=1, MaxTRESPerJob: cpu=2}]",
         "accounts[0].MaxTRESPerJob: it is the same key as MaxTRES"),
        ("accounts: [{name: a, DefaultQOS: normal, QOS: high}]\nqos: [{name: high}]",
         'accounts[0].DefaultQOS: "normal" is not among the QOS allowed there: high'),
        ("accounts: [{name: a, DefaultQOS: high}]\nqos: [{name: high}]",
         '"high" is not among the QOS allowed there: normal, which all have; set a list with QOS'),
        ("users: [{name: ada, accounts: b}]", 'users[0].accounts: "b" is not a known account (known: root)'),
        ("accounts: [{name: a}]\nusers: [{name: ada, accounts: [a, a]}]",
         "users[0].accounts: an account is listed twice"),
        ("accounts: [{name: a}]\nusers: [{name: ada, accounts: a, associations: {b: {MaxJobs: 1}}}]",
         'users[0].associations.b: "b" is not among the accounts of ada'),
        ("accounts: [{name: a}]\nusers: [{name: ada, MaxJobs: 1}]",
         "users[0].MaxJobs: limits need an account, and ada has none"),
        ("accounts: [{name: a}]\nusers: [{name: ada, accounts: a, DefaultAccount: a}]",
         "users[0].DefaultAccount: unknown key; the first of accounts is the default"),
        ("qos: [{name: a}, {name: a}]", 'qos[1].name: "a" is already the name of qos[0]'),
        ("qos: [{name: a, Preempt: b}, {name: b, Preempt: c}, {name: c, Preempt: a}]",
         "qos[0].Preempt: the QOS form a loop: a preempts b preempts c preempts a"),
        ("qos: [{name: a, Preempt: a}]",
         "qos[0].Preempt: it preempts itself; for jobs of the same QOS, write PreemptMode: within"),
        ("qos: [{name: a, Preempt: b}]", 'qos[0].Preempt: "b" is not a known QOS (known: a, normal)'),
        ("qos: [{name: a, MaxWall: soon}]",
         'qos[0].MaxWall: "soon" is not a time such as 90 (minutes), 12:00:00 or 7-00:00:00'),
        ("qos: [{name: a, PreemptMode: kill}]",
         '"kill" is not a PreemptMode (known: off, cluster, cancel, gang, requeue, suspend, within, priority)'),
        ("qos: [{name: a}]\npartitions: [{PartitionName: p, Nodes: ALL, QOS: b}]",
         'partitions[0].QOS: "b" is not a known QOS (known: a, normal)'),
        ("accounts: [{name: a}]\npartitions: [{PartitionName: p, Nodes: ALL, DenyAccounts: b}]",
         'partitions[0].DenyAccounts: "b" is not a known account (known: a, root)'),
    ],
)  # fmt: skip
def test_a_mistake_is_told_where_it_stands(text: str, said: str) -> None:
    assert any(line.endswith(said) for line in complaints(text)), complaints(text)


def test_all_mistakes_are_told_at_once_with_their_lines() -> None:
    told = complaints("qos: [{name: a, Preempt: a}]\naccounts:\n  - {name: b, parent: c}\n  - {name: b}\n")
    assert [line.partition(": ")[0] for line in told] == ["c.yaml:5", "c.yaml:7", "c.yaml:8"]


def test_accounts_without_a_database_have_nobody_to_keep_them() -> None:
    with pytest.raises(ClusterFileError) as error:
        loading.parse(HEAD.replace("database: c1\n", "") + "accounts: [{name: a}]\n", "c.yaml")
    assert "slurmdbd stores these, and the cluster has none; set its host: database: HOST" in str(error.value)


def test_partitions_of_a_cluster_without_qos_and_accounts_of_its_own_may_name_what_they_like() -> None:
    loading.parse(HEAD + "partitions: [{PartitionName: p, Nodes: ALL, QOS: b, AllowAccounts: c}]\n", "c.yaml")
