"""Nodes that leave: who may, and in which order it is done, so that a run that is cut off has only to be repeated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support import THREE_HOSTS, FakeHosts, cluster, facts_of, prepared, run_over

from slurmfab import inventory
from slurmfab import lock as locks
from slurmfab.clusterfile import cuts
from slurmfab.errors import InputError, SlurmfabError
from slurmfab.inventory import Inventory
from slurmfab.lock import Lock
from slurmfab.nodes import departure, removal
from slurmfab.nodes.removal import Leave, refuse
from slurmfab.run import Run
from slurmfab.situation import pin

IDLE = "NodeName={} State=IDLE CPUAlloc=0 CPUTot=4\n"


@dataclass
class LeavingHosts(FakeHosts):
    """Hosts whose controller tells of idle nodes, and of what hangs on them."""

    pending: list[dict[str, str]] = field(default_factory=list)
    reservations: dict[str, str] = field(default_factory=dict)

    def call(self, host: str, request: Mapping[str, Any], *rest: Any) -> tuple[dict[str, Any], ...]:
        if request["op"] == "node-jobs":
            return ({"node_jobs": {"pending": self.pending, "reservations": self.reservations}},)
        if request["op"] == "slurm":
            nodes = "".join(map(IDLE.format, ("n1", "n2")))
            return ({"slurm": {"ping": "Slurmctld(primary) at c1 is UP", "trouble": "", "nodes": nodes, "jobs": ""}},)
        return super().call(host, request, *rest)


def leaving(folder: Path) -> tuple[Run, LeavingHosts, str]:
    """A run over a deployed cluster that n2 shall leave."""
    path = folder / "cluster.yaml"
    path.write_text("# Ours.\n" + THREE_HOSTS)
    lock = pin(cluster(), Lock(slurm="24.11.5"), facts_of(cluster(), prepared))
    locks.save(lock, inventory.lock_path(path))
    hosts = LeavingHosts(facts_of(cluster(), prepared), {"n2": {resource.id for resource in departure.stopped()}})
    run = run_over(hosts, cluster(), lock=lock)
    run.inventory = Inventory(cluster(), lock, path)
    return run, hosts, cuts.without_nodes(path.read_text(), ["n2"])


def test_a_node_that_leaves_is_stopped_cleaned_and_out_of_both_files(tmp_path: Path) -> None:
    run, hosts, text = leaving(tmp_path)
    removal.carry_out(run, ("n2",), text, Leave())
    known = inventory.load(run.inventory.path)
    assert run.inventory.path.read_text() == text
    assert known.cluster.compute_nodes == ("n1",)
    assert "n2" not in known.lock.hosts
    assert hosts.of("n2") == ["apply service", "apply service,absent,block,no-kept-secrets"]
    assert run.hosts == ("c1", "n1")


def test_packages_go_only_when_that_is_said_and_after_all_that_could_reach_the_cluster() -> None:
    assert "packages-gone" not in [resource.kind for resource in departure.cleaned(purge=False)]
    *_, last = departure.cleaned(purge=True)
    assert last.kind == "packages-gone"
    assert not {"openssh-client", "slurmctld"} & departure.purged()


def test_a_dead_node_leaves_as_well_and_the_exit_code_says_that_it_was_not_cleaned(tmp_path: Path) -> None:
    run, hosts, text = leaving(tmp_path)
    del hosts.facts["n2"]
    removal.carry_out(run, ("n2",), text, Leave())
    assert run.inventory.path.read_text() == text
    assert run.report().exit_code == 3


def test_a_node_that_fails_while_it_is_cleaned_stays_in_the_files_so_that_the_command_can_be_repeated(
    tmp_path: Path,
) -> None:
    run, hosts, text = leaving(tmp_path)
    hosts.failing["n2"] = hosts.wrong["n2"]
    with pytest.raises(SlurmfabError, match="run the same command again"):
        removal.carry_out(run, ("n2",), text, Leave())
    assert "n[1-2]" in run.inventory.path.read_text()
    assert "n2" in inventory.load(run.inventory.path).lock.hosts


def test_pending_jobs_that_ask_for_the_node_and_reservations_stop_it_before_anything_is_changed(tmp_path: Path) -> None:
    run, hosts, text = leaving(tmp_path)
    hosts.pending = [{"id": "7", "user": "ann", "wants": "n[2-3]"}, {"id": "8", "user": "bob", "wants": "n1"}]
    with pytest.raises(SlurmfabError, match=r"7 \(ann, wants n\[2-3\]\)\. .*--now"):
        removal.carry_out(run, ("n2",), text, Leave())
    hosts.pending, hosts.reservations = [], {"school": "n2", "other": "n1"}
    with pytest.raises(SlurmfabError, match="school: this reservation"):
        removal.carry_out(run, ("n2",), text, Leave(now=True))
    assert hosts.of("n2") == []


@pytest.mark.parametrize(
    ("hosts", "words"),
    [
        (("n9",), r"n9: not in .*known: n\[1-2\]"),
        (("c1",), "c1: it is controller here"),
        (("n1", "n2"), "No compute node would be left"),
        (("n2",), "lone: no node would be left in the partition"),
    ],
)
def test_who_cannot_leave_is_refused_with_the_reason(hosts: tuple[str, ...], words: str) -> None:
    text = THREE_HOSTS + "partitions: [{PartitionName: main, Nodes: ALL}, {PartitionName: lone, Nodes: n2}]\n"
    known = Inventory(cluster(text), Lock(), Path("cluster.yaml"))
    with pytest.raises(InputError, match=f"(?s){words}.*Nothing was changed"):
        refuse(known, hosts, empty_partition=False)


def test_a_partition_may_be_emptied_when_that_is_said() -> None:
    text = THREE_HOSTS + "partitions: [{PartitionName: main, Nodes: ALL}, {PartitionName: lone, Nodes: n2}]\n"
    refuse(Inventory(cluster(text), Lock(), Path("cluster.yaml")), ("n2",), empty_partition=True)
