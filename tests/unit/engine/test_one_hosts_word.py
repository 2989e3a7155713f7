"""What one host says leaves out that host alone; what the controller or most hosts say ends the run."""

from __future__ import annotations

import dataclasses
import io
from typing import Any

import pytest
from support import SMALL, FakeHosts, cluster, lost_words, prepared, run_over, with_key

from slurmfab.base.errors import InputError, SlurmfabError
from slurmfab.cluster.facts import Account, Cgroup, ClusterMark, SlurmUse
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.core.engine.converge import deploy, dry_run
from slurmfab.core.engine.progress import Progress
from slurmfab.core.impact.approvals import Approvals
from slurmfab.core.plan.pinned import pin

FOUR = """\
cluster: lab
addresses: {c1: 10.0.0.1, "n[1-3]": "10.0.0.[2-4]"}
controllers: [c1]
nodes: [{hosts: "n[1-3]"}]
"""
DIRECTORY = """\
directory:
  sssd: {servers: [ldaps://dir.example.org], base: "dc=example,dc=org", ca: ca.pem}
"""
PEOPLE = "users: [{name: ann}, {name: bob}]\n"
KNOWN = prepared("n1")


def person(name: str, number: int) -> dict[str, Any]:
    """What a host says that has one more user."""
    return {
        "accounts": {**KNOWN.accounts, name: Account(number, number, "/", "/bin/sh")},
        "groups": {**KNOWN.groups, name: number},
        "uids": {**KNOWN.uids, number: name},
        "gids": {**KNOWN.gids, number: name},
    }


LIES: tuple[tuple[str, str, dict[str, Any], str], ...] = (
    ("slurm's UID is another's", "", {"uids": {**KNOWN.uids, 64030: "me"}}, "UID 64030, wanted for slurm, belongs"),
    ("munge has another GID", "", {"groups": {**KNOWN.groups, "munge": 7}}, "group munge has GID 7 there"),
    ("a user has the UID of slurm", PEOPLE, person("ann", 64030), "GID 64030"),
    ("a user is a system user", PEOPLE, person("ann", 1), "1"),
    ("a user's UID is another's", "users: [{name: ann, uid: 3000}]\n", {"uids": {3000: "me"}}, "UID 3000"),
    ("all UIDs are taken", PEOPLE, {"uids": {**KNOWN.uids, **dict.fromkeys(range(2000, 60001), "me")}}, "wanted for"),
    ("a user's UID is -1", PEOPLE, person("ann", 4294967295), "user ann has UID 4294967295 there"),
    ("a user's UID may be another's", PEOPLE, person("ann", 100005), "user ann has UID 100005 there"),
    ("munge's UID may be another's", "", person("munge", 100005), "user munge has UID 100005 there"),
    ("munge's UID is -1", "", person("munge", 4294967295), "user munge has UID 4294967295 there"),
    ("little memory", "", {"hardware": dataclasses.replace(SMALL, CPUs=8000, RealMemory=8000)}, "1 MiB of memory"),
    ("jobs without limits", "", {"cgroup": Cgroup("none")}, "--allow lost-limits"),
    ("ufw", "firewall: managed\n", {"ufw": True}, "ufw is at work there"),
    ("another module system", "modules: lmod\n", {"packages": {**KNOWN.packages, "environment-modules": "5"}},
     "it has environment-modules"),
    ("no control groups", "node_logins: with_job\nslurm_user: slurm\n", {"cgroup": Cgroup("none")}, "control groups"),
    ("SELinux enforces", "node_logins: with_job\nslurm_user: slurm\n", {"enforces_selinux": True}, "SELinux enforces"),
    ("another cluster's", "", {"slurm_use": SlurmUse((ClusterMark("/x", "alpha", ("u1(10.9.0.1)",)),), ("slurmd",))},
     "it belongs to the cluster alpha"),
)  # fmt: skip


def saying(text: str, said: dict[str, Any], *liars: str) -> FakeHosts:
    facts = with_key(cluster(FOUR + text))
    return FakeHosts({**facts, **{host: dataclasses.replace(facts[host], **said) for host in liars}})


@pytest.mark.parametrize("chosen", [(), ("n1", "n2")], ids=["all hosts", "--hosts"])
@pytest.mark.parametrize(("text", "said", "words"), [row[1:] for row in LIES], ids=[row[0] for row in LIES])
def test_a_fact_of_one_host_that_is_in_the_way_leaves_out_that_host_alone_with_what_it_said(
    text: str, said: dict[str, Any], words: str, chosen: tuple[str, ...]
) -> None:
    honest = saying(text, {})
    # With some hosts, numbers of users have to be known.
    lock = pin(cluster(FOUR + text), Lock(), honest.facts) if chosen else Lock()
    lock = dataclasses.replace(lock, hosts={host: one for host, one in lock.hosts.items() if host != "n1"})
    hosts = saying(text, said, "n1")
    run = run_over(hosts, cluster(FOUR + text), chosen, lock)
    report = dry_run(run)
    lost = lost_words(run.failed_hosts)
    assert list(lost) == ["n1"], lost
    assert words in lost["n1"]
    assert report.exit_code == 3
    assert "compare" in hosts.of("n2")
    assert "n1" not in run.inventory.lock.hosts, "nothing of what it says is in the lock"


@pytest.mark.parametrize("liars", [("c1",), ("n1", "n2", "n3")], ids=["the controller", "most hosts"])
@pytest.mark.parametrize(
    ("text", "said", "words"),
    [row[1:] for row in LIES if row[0] in ("slurm's UID is another's", "ufw", "another cluster's")],
)
def test_a_fact_of_the_controller_or_of_most_hosts_ends_the_run(
    text: str, said: dict[str, Any], words: str, liars: tuple[str, ...]
) -> None:
    hosts = saying(text, said, *liars)
    with pytest.raises(SlurmfabError, match=words):
        dry_run(run_over(hosts, cluster(FOUR + text)))


def test_what_a_host_once_said_of_its_memory_is_in_the_way_of_that_host_alone_although_the_lock_has_it() -> None:
    wanted = cluster(FOUR.replace('{hosts: "n[1-3]"}', '{hosts: "n[1-3]", RealMemory: 12000}'))
    assert KNOWN.hardware is not None
    small = dataclasses.replace(KNOWN.hardware, RealMemory=8000)
    facts = with_key(wanted)
    lied = {**facts, "n1": dataclasses.replace(facts["n1"], hardware=small)}
    for chosen in ((), ("n2",)):
        said = io.StringIO()
        run = run_over(FakeHosts(facts), wanted, chosen, pin(wanted, Lock(), lied), progress=Progress(said))
        report = dry_run(run)
        assert list(run.failed_hosts) == ([] if chosen else ["n1"]), run.failed_hosts
        assert report.exit_code == (0 if chosen else 3)
        assert "the cluster file gives RealMemory=12000, and the lock has 8000" in said.getvalue()


@pytest.mark.parametrize(("there", "is_mistake"), [(12000, False), (15000, True)])
def test_more_than_a_node_in_service_has_is_a_mistake_in_the_file_if_the_file_has_changed_and_else_the_nodes_word(
    there: int, is_mistake: bool
) -> None:
    wanted = cluster(FOUR.replace('{hosts: "n[1-3]"}', '{hosts: n1, RealMemory: 12000}, {hosts: "n[2-3]"}'))
    assert KNOWN.hardware is not None
    small = dataclasses.replace(KNOWN.hardware, RealMemory=8000)
    facts = with_key(wanted)
    lied = {**facts, "n1": dataclasses.replace(facts["n1"], hardware=small)}
    conf = f"ClusterName=lab\nNodeName=n1 RealMemory={there}\nNodeName=n[2-3]\n"
    facts["c1"] = dataclasses.replace(facts["c1"], slurm_conf=conf)
    run = run_over(FakeHosts(facts), wanted, (), pin(wanted, Lock(), lied))
    if is_mistake:
        with pytest.raises(InputError, match="n1: the cluster file gives RealMemory=12000, and the lock has 8000"):
            dry_run(run)
    else:
        dry_run(run)
        assert list(run.failed_hosts) == ["n1"]


def test_a_node_in_service_where_a_new_users_number_is_somebody_elses_is_drained_before_the_user_is_made() -> None:
    text = FOUR + "users: [{name: ann, uid: 3000}]\n"
    facts = {
        **with_key(cluster(text)),
        "n1": prepared("n1", uids={**KNOWN.uids, 3000: "me"}),
    }
    facts["c1"] = dataclasses.replace(facts["c1"], slurm_conf="ClusterName=lab\nNodeName=n1\nNodeName=n2\n")
    hosts = FakeHosts(facts, wrong={"c1": {"node-drain:n1"}, "n2": {"person:ann"}})
    run = run_over(hosts, cluster(text), approvals=Approvals(allowed=frozenset({"unknown-nodes"})))
    deploy(run)
    done = [words for host in hosts.facts for words in hosts.of(host) if words.startswith("apply")]
    assert hosts.of("c1")[:4] == ["facts", "compare", "claim", "apply node-drain"], (hosts.of("c1"), done)
    assert set(hosts.of("n1")) == {"facts"}


def test_a_host_that_takes_back_what_it_said_takes_part_again_in_a_run_on_some_hosts_too() -> None:
    hosts = saying("firewall: managed\n", {"ufw": True}, "n1")
    wanted = cluster(FOUR + "firewall: managed\n")
    run = run_over(hosts, wanted)
    dry_run(run)
    assert list(run.failed_hosts) == ["n1"]
    hosts.facts["n1"] = dataclasses.replace(hosts.facts["n1"], ufw=False)
    again = run_over(hosts, wanted, ("n1",), run.inventory.lock)
    assert dry_run(again).exit_code == 0
    assert "n1" in again.inventory.lock.hosts
