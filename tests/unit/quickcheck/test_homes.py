"""Quickcheck of shared homes: who submits, what is read where, and what is told when it is not there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from ruled_shells import Rule, RuledShell
from support import THREE_HOSTS, cluster

from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.checks.hosts import CheckedHost, Shells
from slurmfab.commands.checks.shell import CommandResult
from slurmfab.commands.quickcheck import basics
from slurmfab.commands.quickcheck.bench import Bench
from slurmfab.on_hosts.agent.client.commands import JobState
from slurmfab.on_hosts.agent.nodes.user_jobs import Person

FILE = "homes: /home\nmounts: [{path: /home, source: 'nas:/home', type: nfs4}]\n"
ANN = "ann:x:2000:2000::/home/ann:/bin/bash\n"
NODES = "".join(f"NodeName=n{one} RealMemory=7700 State=IDLE Partitions=main\n" for one in (1, 2))
MISSING = CommandResult(1, b"", b"cat: /home/ann/slurm-7.out: No such file or directory\n")
SLURM = Person("slurm", "/var/lib/slurm/home")


class Lab:
    """A controller that submits jobs, and a node, on which everything goes as the rules say."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, file: str, rules: Mapping[str, Rule], who: Person = SLURM
    ) -> None:
        self.node = RuledShell({"tail .*/home": "directory=/home/ann\n", "findmnt": "/dev/sda1\n"})
        usual: dict[str, Rule] = {"show node": NODES, "getent passwd ann": ANN, "sbatch": "7\n"}
        rules = {**usual, "cat /home": "directory=/home/ann\n", **rules}
        self.shell = RuledShell(rules)
        known = Inventory(cluster(THREE_HOSTS + file), Lock(), Path("cluster.yaml"))
        self.bench = Bench(known, CheckedHost("c1", self.shell), who, ("n1", "n2"), opener=self.open, seconds=5)
        monkeypatch.setattr(basics, "READ_SECONDS", 0)
        monkeypatch.setattr(basics.batch, "followed", lambda *_: JobState("COMPLETED", code="0:0"))

    @contextmanager
    def open(self, _: Inventory, hosts: Sequence[str]) -> Iterator[Shells]:
        yield dict.fromkeys(hosts, self.node)

    @property
    def words(self) -> str:
        return basics.homes(self.bench, "n1")

    def sent(self, word: str) -> list[str]:
        return [one for one in self.shell.commands if word in one]


def test_an_ordinary_user_submits_at_home_and_the_output_is_read_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(monkeypatch, FILE + "users: [{name: ann}]\n", {})
    assert lab.words == "job 7 of ann ran in /home/ann; c1 read its output"
    (job,) = lab.sent("sbatch")
    assert "runuser -u ann -- env -i HOME=/home/ann" in job
    assert "cd /home/ann && exec timeout" in job
    assert "--output" not in job
    assert "--chdir" not in job
    assert "rm -f /home/ann/slurm-7.out" in lab.sent("rm -f")[0]


def test_the_user_of_the_other_jobs_submits_if_the_home_is_a_shared_one(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(monkeypatch, FILE + "users: [{name: ann}]\n", {}, Person("bob", "/home/bob"))
    assert "of bob ran" in lab.words


def test_output_that_is_on_the_node_alone_is_told_with_its_disk_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(monkeypatch, FILE + "users: [{name: ann}]\n", {"cat /home": MISSING})
    with pytest.raises(AssertionError, match=r"c1 does not see /home/ann/slurm-7.out.*of n1 alone, on /dev/sda1\. Rep"):
        assert lab.words
    assert any("rm -f -- /home/ann/slurm-7.out" in one for one in lab.node.commands)


def test_a_home_in_which_nobody_can_submit_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = CommandResult(2, b"", b"sh: 1: cd: can't cd to /home/ann\n")
    lab = Lab(monkeypatch, FILE + "users: [{name: ann}]\n", {"sbatch": refusal})
    with pytest.raises(AssertionError, match="ann cannot submit a job in /home/ann on c1: sh: 1: cd: can't cd"):
        assert lab.words


@pytest.mark.parametrize(
    ("file", "why"),
    [
        ("", "the cluster file has no homes"),
        (FILE, "no user of the cluster file who may submit jobs has a home in /home"),
        (FILE + "database: c1\naccounts: [{name: a}]\nusers: [{name: ann}]\n", "no user of the cluster file who may"),
        (FILE.replace("4}", "4}, {path: /x, source: 'n:/x', type: nfs4}") + "login: [l1]\n", "no login host answers"),
    ],
)
def test_without_anybody_to_submit_it_is_not_run(monkeypatch: pytest.MonkeyPatch, file: str, why: str) -> None:
    with pytest.raises(pytest.skip.Exception, match=why):
        assert Lab(monkeypatch, file, {}).words
