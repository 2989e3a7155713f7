"""When add-user and remove-user write the files, and what hosts are asked to do."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from slurm_tables import job_rows
from support import FakeHosts, facts_of, prepared

from slurmfab.base.errors import IdConflict, SlurmfabError
from slurmfab.cluster.facts import Account
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory import lock as locks
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.people import users
from slurmfab.core.engine.progress import Progress
from slurmfab.core.engine.run import Run, RunOptions
from slurmfab.core.plan.pinned import pin
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.hosts.session import Line

BEFORE = 'cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: "n[1-2]"}]\n'
AFTER = BEFORE + "users: [{name: ann}]\n"
ANN = {"ann": Account(2000, 2000, "/home/ann", "/bin/bash")}


@dataclass
class SlurmHosts(FakeHosts):
    """Hosts of which the controller answers for Slurm.

    Args:
        jobs: lines as squeue prints them for slurmfab.
    """

    jobs: str = ""

    def call(
        self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None] = lambda _: None
    ) -> tuple[Line, ...]:
        if request["op"] == "slurm":
            return ({"slurm": {"ping": "Slurmctld(primary) at c1 is UP", "jobs": job_rows(self.jobs)}},)
        return super().call(host, request, heard)


@dataclass
class Busy(SlurmHosts):
    """Hosts on some of which processes of whoever is to go run.

    Args:
        busy: which.
    """

    busy: set[str] | frozenset[str] = frozenset()

    def outcomes(self, host: str, request: Mapping[str, Any]) -> Any:
        for outcome in super().outcomes(host, request):
            is_refused = host in self.busy and outcome["id"].startswith("person-gone:")
            yield {**outcome, "status": "failed", "message": "it cannot be done"} if is_refused else outcome


def run_for(hosts: FakeHosts, text: str, path: Path, lock: Lock | None = None) -> Run:
    known = Inventory(loading.parse(text, "cluster.yaml"), lock or Lock(), path)
    return Run(RunOptions("add-user"), known, known.cluster.hosts, hosts, Progress(io.StringIO()))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A cluster file without users."""
    file = tmp_path / "cluster.yaml"
    file.write_text(BEFORE)
    return file


BEFORE_CLUSTER = loading.parse(BEFORE, "cluster.yaml")


def hosts_of(text: str, *, is_deployed: bool = True, **differing: Any) -> SlurmHosts:
    """Hosts after a deployment of this cluster file."""
    cluster = loading.parse(text, "cluster.yaml")
    facts = facts_of(cluster, prepared, **differing)
    conf = dict(PlanInput(cluster, pin(cluster, Lock(), facts), facts).files)["slurm.conf"]
    return SlurmHosts({host: replace(fact, slurm_conf=conf if is_deployed else "") for host, fact in facts.items()})


def test_the_file_is_written_after_all_hosts_were_asked_and_before_users_are_made(path: Path) -> None:
    hosts = hosts_of(AFTER)
    hosts.wrong = {"n1": {"person:ann"}, "n2": {"person:ann"}}
    users.carry_out_addition(run_for(hosts, AFTER, path), "ann", AFTER, BEFORE_CLUSTER)
    assert path.read_text() == AFTER
    assert locks.load(loading.lock_path(path)).ids["ann.uid"] == 2000
    assert hosts.of("n1")[:2] == ["facts", "compare"]
    assert [asked for asked in hosts.of("n1") if asked.startswith("apply")] == [
        "apply group,person,person-home,authorized-keys"
    ]
    assert not any("packages" in asked or "slurm-files" in asked for host in hosts.facts for asked in hosts.of(host))


def test_nothing_is_written_if_a_uid_belongs_to_another_user(path: Path) -> None:
    text = BEFORE + "users: [{name: ann, uid: 3000}]\n"
    hosts = hosts_of(BEFORE, uids={3000: "bob"})
    with pytest.raises(IdConflict, match=r"c1,n\[1-2\]: UID 3000, wanted for ann, belongs to bob there"):
        users.carry_out_addition(run_for(hosts, text, path), "ann", text, BEFORE_CLUSTER)
    assert [file.name for file in path.parent.iterdir()] == ["cluster.yaml"]
    assert path.read_text() == BEFORE
    assert hosts.of("n1") == ["facts"]


def test_before_the_first_deployment_a_user_is_only_added_to_the_file(path: Path) -> None:
    hosts = hosts_of(AFTER, is_deployed=False)
    hosts.wrong = {"n1": {"person:ann"}}
    users.carry_out_addition(run_for(hosts, AFTER, path), "ann", AFTER, BEFORE_CLUSTER)
    assert path.read_text() == AFTER
    assert not [asked for asked in hosts.of("n1") if asked.startswith("apply")]


@pytest.mark.parametrize(
    ("jobs", "failing", "words"),
    [
        (
            "12|12|ann|main|RUNNING|None|1|1|1|0:10|1:00|n1|||||sleep",
            set(),
            r"ann has jobs: 12 \(running\)\. Wait for them",
        ),
        ("", {"c1"}, "c1: it cannot be done"),
        ("", {"n1", "n2"}, "n2: it cannot be done"),
    ],
    ids=["jobs", "processes on the controller", "processes on most hosts"],
)
def test_nothing_is_written_while_jobs_or_processes_of_the_user_run(
    path: Path, jobs: str, failing: set[str], words: str
) -> None:
    path.write_text(AFTER)
    hosts = Busy(hosts_of(AFTER, accounts={**prepared("c1").accounts, **ANN}).facts, jobs=jobs, busy=failing)
    lock = Lock(ids={"ann.uid": 2000, "ann.gid": 2000}, leaving=("ann",))
    with pytest.raises(SlurmfabError, match=words):
        users.carry_out_removal(run_for(hosts, BEFORE, path, lock), "ann", BEFORE, loading.parse(AFTER, "cluster.yaml"))
    assert path.read_text() == AFTER
    assert not loading.lock_path(path).exists()


def test_a_user_with_processes_on_few_hosts_is_removed_and_stays_closed_there_alone(path: Path) -> None:
    path.write_text(AFTER)
    hosts = Busy(hosts_of(AFTER, accounts={**prepared("c1").accounts, **ANN}).facts, busy={"n2"})
    lock = Lock(ids={"ann.uid": 2000, "ann.gid": 2000}, leaving=("ann",))
    users.carry_out_removal(run_for(hosts, BEFORE, path, lock), "ann", BEFORE, loading.parse(AFTER, "cluster.yaml"))
    assert path.read_text() == BEFORE
    assert locks.load(loading.lock_path(path)).leaving == ("ann",)
    gone = [
        one
        for host, request in hosts.requests
        if host == "n2"
        for one in request.get("resources", ())
        if one["kind"] == "person-gone"
    ]
    assert {(one["must"], one["closes"]) for one in gone} == {(True, False), (False, True)}
