"""Rollbacks over hosts that answer from memory: who is asked what, and what becomes of the files here."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from support import MUNGE_KEY, THREE_HOSTS, FakeHosts, cluster, facts_of, prepared

from slurmfab import lock as locks
from slurmfab.agent.resource import CHANGED, Outcome
from slurmfab.errors import ClusterFileError, InputError
from slurmfab.inventory import Inventory
from slurmfab.lock import Lock
from slurmfab.progress import Progress
from slurmfab.report import Step
from slurmfab.rollback import goal as goals
from slurmfab.rollback import undoing
from slurmfab.rollback.undoing import Undoing
from slurmfab.run import Run
from slurmfab.runs import record
from slurmfab.runs.record import Record
from slurmfab.situation import pin
from slurmfab.ssh.session import Line

HOSTS = ("c1", "n1", "n2")
NOW = datetime(2026, 11, 21, 10, tzinfo=timezone.utc)
FIRST, SECOND = "20261121T100100.000000Z-deploy", "20261121T100200.000000Z-deploy"
FILES = "slurm-files:/etc/slurm"
BEFORE = f"# before\n{THREE_HOSTS}"
AFTER = f"# after\n{THREE_HOSTS}"
LOCK = pin(cluster(), Lock(), facts_of(cluster(), prepared))
CONF = {
    "path": "/etc/slurm/slurm.conf",
    "run": SECOND,
    "existed": True,
    "secret": False,
    "content": "NodeName=n1\n",
    "same": False,
}


@dataclass
class KeepingHosts(FakeHosts):
    """Hosts that keep the slurm.conf from before a run.

    Args:
        dropped: the newest run that n1 has forgotten.
        kept: the files that each keeps.
    """

    dropped: str = ""
    kept: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {host: [CONF] for host in HOSTS})

    def call(
        self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None] = lambda _: None
    ) -> tuple[Line, ...]:
        if request["op"] != "kept":
            return super().call(host, request, heard)
        assert request["since"] == SECOND
        files = self.kept[host]
        dropped = self.dropped if host == "n1" else ""
        runs = sorted({file["run"] for file in files})
        return ({"kept": {"runs": runs, "dropped": dropped, "files": files, "services": []}},)

    @property
    def changed(self) -> list[str]:
        """Ids and hosts of what was converged."""
        return [
            host
            for host, request in self.requests
            if request["op"] == "apply" and not request["dry_run"] and request["resources"]
        ]


def hosts_with(wrong: tuple[str, ...] = HOSTS, **more: Any) -> KeepingHosts:
    """Three hosts, of which some have another slurm.conf than they keep."""
    facts = facts_of(cluster(), prepared)
    facts["c1"] = dataclasses.replace(facts["c1"], munge_key=MUNGE_KEY)
    return KeepingHosts(facts, wrong={host: {FILES} for host in wrong}, **more)


def ran(name: str, text: str) -> Record:
    steps = (Step("slurm.conf", "n1", (Outcome("service:slurmd", CHANGED),)),)
    return Record(
        name, "deploy", "ann@laptop", NOW, NOW, hosts=HOSTS, steps=steps, cluster_file=text, lock=asdict(LOCK)
    )


@dataclass
class Place:
    """A cluster file with its lock and what a rollback over it says."""

    path: Path
    said: io.StringIO = field(default_factory=io.StringIO)

    def go_back(self, hosts: FakeHosts) -> Run:
        """Undo the second of two runs."""
        records = (ran(FIRST, BEFORE), ran(SECOND, AFTER))
        present = Inventory(cluster(), LOCK, self.path)
        goal = goals.before(records, records[1])
        plan = Undoing(goal, goals.inventory_then(goal, present), records[1], records)
        run = Run("rollback", plan.then, hosts, Progress(self.said), HOSTS, record=record.begin)
        undoing.carry_out(run, plan)
        return run


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A cluster file as the second run left it."""
    path = tmp_path / "cluster.yaml"
    path.write_text(AFTER)
    locks.save(LOCK, tmp_path / "cluster.lock.json")
    return Place(path)


def test_hosts_go_back_the_controller_first_and_then_the_cluster_file(place: Place) -> None:
    hosts = hosts_with()
    run = place.go_back(hosts)
    assert hosts.changed[0] == "c1"
    assert {(step.phase, step.host) for step in run.steps} == {("slurm.conf", host) for host in HOSTS}
    assert place.path.read_text() == BEFORE
    assert f"{place.path} is as it was before {SECOND}." in place.said.getvalue()
    assert list(place.path.parent.glob("*.before-*")) == []


def test_when_the_hosts_are_as_they_were_the_cluster_file_alone_is_put_back(place: Place) -> None:
    hosts = hosts_with(wrong=())
    run = place.go_back(hosts)
    assert (hosts.changed, run.steps) == ([], [])
    assert place.path.read_text() == BEFORE
    place.go_back(hosts)
    assert place.said.getvalue().endswith("All is as it was.\n")


def test_edits_of_the_cluster_file_that_no_run_has_seen_are_kept_beside_it(place: Place) -> None:
    place.path.write_text(AFTER + "# mine\n")
    run = place.go_back(hosts_with())
    beside = place.path.with_name(f"cluster.yaml.before-{run.id}")
    assert beside.read_text() == AFTER + "# mine\n"
    assert f"they are in {beside}." in place.said.getvalue()
    assert place.path.read_text() == BEFORE


def test_a_cluster_file_that_somebody_has_broken_is_taken_as_the_newest_run_left_it(place: Place) -> None:
    place.path.write_text("cluster: [\n")
    records = (ran(FIRST, BEFORE), ran(SECOND, AFTER))
    assert undoing.known(place.path, records) == Inventory(cluster(), LOCK, place.path)
    with pytest.raises(ClusterFileError):
        undoing.known(place.path, ())


def test_a_host_that_cannot_be_reached_is_named_with_the_command_that_goes_on(place: Place) -> None:
    hosts = hosts_with()
    del hosts.facts["n2"]
    run = place.go_back(hosts)
    assert run.report().exit_code == 3
    assert f"To go on with n2 later: fab rollback {SECOND}" in place.said.getvalue()
    assert place.path.read_text() == BEFORE


def test_a_state_that_a_host_has_forgotten_stops_all_before_anything_is_changed(place: Place) -> None:
    hosts = hosts_with(dropped=SECOND)
    with pytest.raises(InputError, match=f"n1: the state before {SECOND} is not kept there any more"):
        place.go_back(hosts)
    assert hosts.changed == []
    assert place.path.read_text() == AFTER


def test_a_host_that_keeps_nothing_of_what_was_changed_there_is_left_out(place: Place) -> None:
    hosts = hosts_with()
    hosts.kept["n1"] = []
    run = place.go_back(hosts)
    assert "it keeps nothing of what was changed there" in run.lost["n1"].reason
    assert "n1" not in hosts.changed


def test_the_record_names_the_run_that_is_undone(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(AFTER)
    run = Run("rollback", Inventory(cluster(), LOCK, path), hosts_with(), Progress(io.StringIO()), HOSTS, undoes=SECOND)
    record.begin(run)
    ((kept,), _) = record.load_all(path)
    assert kept.undoes == SECOND
