"""Rollbacks over hosts that answer from memory: what hosts are asked, and what happens to the files here."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from support import THREE_HOSTS, FakeHosts, cluster, facts_of, prepared, run_over, with_key

from slurmfab.base.errors import ClusterFileError, InputError
from slurmfab.cluster.inventory import lock as locks
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.history.rollback import undoing
from slurmfab.commands.history.rollback.undoing import Undoing
from slurmfab.core.engine import record
from slurmfab.core.engine.progress import Progress
from slurmfab.core.engine.record import Record
from slurmfab.core.engine.report import Step
from slurmfab.core.engine.run import Run, RunOptions
from slurmfab.core.plan.pinned import pin
from slurmfab.hosts.session import Line
from slurmfab.on_hosts.agent.core.resource import CHANGED, Outcome

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
    """Hosts with the slurm.conf from before a run in their undo stores.

    Args:
        dropped: the newest run that some have forgotten.
        oblivious: these.
        kept: the files that each keeps.
    """

    dropped: str = ""
    oblivious: tuple[str, ...] = ("n1",)
    kept: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {host: [CONF] for host in HOSTS})

    def call(
        self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None] = lambda _: None
    ) -> tuple[Line, ...]:
        if request["op"] != "kept":
            return super().call(host, request, heard)
        assert request["since"] == SECOND
        files = self.kept[host]
        dropped = self.dropped if host in self.oblivious else ""
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
    """Three hosts, some of which have another slurm.conf than in their undo stores."""
    facts = with_key()
    return KeepingHosts(facts, wrong={host: {FILES} for host in wrong}, **more)


def ran(name: str, text: str) -> Record:
    steps = (Step("slurm.conf", "n1", (Outcome("service:slurmd", CHANGED),)),)
    return Record(
        name, "deploy", "ann@laptop", NOW, NOW, hosts=HOSTS, steps=steps, cluster_file=text, lock=asdict(LOCK)
    )


@dataclass
class Place:
    """A cluster file with its lock, and the output of a rollback."""

    path: Path
    said: io.StringIO = field(default_factory=io.StringIO)

    def go_back(self, hosts: FakeHosts) -> Run:
        """Undo the second of two runs."""
        records = (ran(FIRST, BEFORE), ran(SECOND, AFTER))
        present = Inventory(cluster(), LOCK, self.path)
        target = undoing.target_before(records, records[1])
        plan = Undoing(target, undoing.inventory_then(target, present), records[1], records)
        run = Run(RunOptions("rollback"), plan.then, HOSTS, hosts, Progress(self.said), write_record=record.begin)
        undoing.carry_out(run, plan)
        return run


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A cluster file as the second run left it."""
    path = tmp_path / "cluster.yaml"
    path.write_text(AFTER)
    locks.save(LOCK, tmp_path / "cluster.lock.json")
    return Place(path)


def test_the_controller_is_rolled_back_first_and_the_cluster_file_last(place: Place) -> None:
    hosts = hosts_with()
    run = place.go_back(hosts)
    assert hosts.changed[0] == "c1"
    assert {(step.phase, step.host) for step in run.steps} == {("slurm.conf", host) for host in HOSTS}
    assert place.path.read_text() == BEFORE
    assert f"{place.path} is as it was before {SECOND}." in place.said.getvalue()
    assert list(place.path.parent.glob("*.before-*")) == []


def test_if_no_host_differs_only_the_cluster_file_is_written(place: Place) -> None:
    hosts = hosts_with(wrong=())
    run = place.go_back(hosts)
    assert (hosts.changed, run.steps) == ([], [])
    assert place.path.read_text() == BEFORE
    place.go_back(hosts)
    assert place.said.getvalue().endswith("All is as it was before.\n")


def test_undeployed_edits_of_the_cluster_file_are_saved_beside_it(place: Place) -> None:
    place.path.write_text(AFTER + "# mine\n")
    run = place.go_back(hosts_with())
    beside = place.path.with_name(f"cluster.yaml.before-{run.id}")
    assert beside.read_text() == AFTER + "# mine\n"
    assert f"they are in {beside}." in place.said.getvalue()
    assert place.path.read_text() == BEFORE


def test_an_invalid_cluster_file_is_replaced_by_the_newest_record(place: Place) -> None:
    place.path.write_text("cluster: [\n")
    records = (ran(FIRST, BEFORE), ran(SECOND, AFTER))
    assert undoing.current_inventory(place.path, records) == Inventory(cluster(), LOCK, place.path)
    with pytest.raises(ClusterFileError):
        undoing.current_inventory(place.path, ())


def test_an_unreachable_host_is_named_with_the_command_to_continue(place: Place) -> None:
    hosts = hosts_with()
    del hosts.facts["n2"]
    run = place.go_back(hosts)
    assert run.report().exit_code == 3
    assert f"To continue with n2 later: fab rollback --run {SECOND}" in place.said.getvalue()
    assert place.path.read_text() == BEFORE


@pytest.mark.parametrize("oblivious", [("c1",), ("n1", "n2")])
def test_a_state_that_the_controllers_or_most_undo_stores_lack_stops_the_rollback_before_any_change(
    place: Place, oblivious: tuple[str, ...]
) -> None:
    hosts = hosts_with(dropped=SECOND, oblivious=oblivious)
    with pytest.raises(InputError, match=f": the undo store there does not have the state before {SECOND} any more"):
        place.go_back(hosts)
    assert hosts.changed == []
    assert place.path.read_text() == AFTER


@pytest.mark.parametrize("dropped", [SECOND, "29991231T235959.000000Z-deploy"])
def test_a_node_that_alone_says_that_its_undo_store_lacks_the_state_is_left_out(place: Place, dropped: str) -> None:
    hosts = hosts_with(dropped=dropped)
    run = place.go_back(hosts)
    assert (run.report().exit_code, sorted(set(hosts.changed))) == (3, ["c1", "n2"])
    assert f"n1: failed: its undo store has no state before {SECOND} any more" in place.said.getvalue()


@pytest.mark.parametrize(
    ("command", "told"),
    [("rotate-jwt-key", "tokens made with it count again"), ("rotate-munge-key", "is any user to Slurm again")],
)
def test_a_key_that_was_changed_when_it_comes_back_then_that_is_told_with_the_way_to_a_new_one(
    command: str, told: str
) -> None:
    records = (ran(FIRST, BEFORE), replace(ran(SECOND, AFTER), command=command))
    (line,) = undoing.keys_that_count_again(records[1:])
    assert told in line
    assert line.endswith(f"new key afterwards: fab {command}.")
    assert list(undoing.keys_that_count_again(records[:1])) == []


def test_a_host_without_undo_state_of_its_changes_is_excluded(place: Place) -> None:
    hosts = hosts_with()
    hosts.kept["n1"] = []
    run = place.go_back(hosts)
    assert "its undo store does not have the changes that were made there" in run.failed_hosts["n1"].reason
    assert "n1" not in hosts.changed


def test_the_record_names_the_run_that_is_undone(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(AFTER)
    run = run_over(hosts_with(), cluster(), lock=LOCK, path=path, command="rollback", undoes=SECOND)
    record.begin(run)
    ((kept,), _) = record.load_all(path)
    assert kept.undoes == SECOND
