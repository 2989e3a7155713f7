"""New nodes: which are tried by a job, what becomes of those that pass, and of the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from support import THREE_HOSTS, FakeHosts, cluster, facts_of, prepared, run_over

from slurmfab.base.errors import Unreachable
from slurmfab.cluster.inventory.lock import HostLock, Lock
from slurmfab.core.engine import acceptance
from slurmfab.core.engine.run import Run, RunHooks

NEW = Lock(hosts={"c1": HostLock(), "n1": HostLock(on_trial=True), "n2": HostLock(on_trial=True)})


@dataclass
class Tried(FakeHosts):
    """Hosts on which test jobs run.

    Args:
        found: by node, what its job has found; nodes that are not named have passed.
    """

    found: Mapping[str, str] = field(default_factory=dict)

    def outcomes(self, host: str, request: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
        for wanted, outcome in zip(request["resources"], super().outcomes(host, request), strict=True):
            (node, *_) = wanted["nodes"]
            if request["dry_run"] and node in self.found:
                text = self.found[node]
                changes = [{"name": node, "actual": text, "wanted": "", "diff": ""}] if text else []
                yield {**outcome, "status": "would change", "changes": changes, "message": "no word of it"}
            else:
                yield outcome


def accept(
    text: str = THREE_HOSTS, lock: Lock = NEW, chosen: tuple[str, ...] = (), **found: str
) -> tuple[Run, Tried, list[Lock]]:
    """A run that has tried its new nodes, its hosts, and the locks that it has saved."""
    wanted, saved = cluster(text), list[Lock]()
    hosts = Tried(facts_of(wanted, prepared), found=found)
    hooks = RunHooks(save_lock=lambda run: saved.append(run.inventory.lock))
    run = run_over(hosts, wanted, chosen, lock, hooks=hooks)
    acceptance.accept_new_nodes(run)
    return run, hosts, saved


def trials(hosts: Tried) -> list[Mapping[str, Any]]:
    """The requests about test jobs: the one that runs them, and the one that asks for each node."""
    return [request for _, request in hosts.requests if request["resources"]]


def test_new_nodes_that_pass_their_job_are_new_no_longer() -> None:
    run, hosts, saved = accept()
    applied, compared = trials(hosts)
    assert [(one["nodes"], one["partitions"]) for one in applied["resources"]] == [(("n1", "n2"), ())]
    assert (applied["dry_run"], compared["dry_run"]) == (False, True)
    assert [one["nodes"] for one in compared["resources"]] == [("n1",), ("n2",)]
    assert [host.on_trial for host in saved[0].hosts.values()] == [False, False, False]
    assert len(saved) == 1
    assert run.inventory.lock == saved[0]
    assert [(step.phase, step.host, step.outcomes[0].id, step.outcomes[0].status) for step in run.steps] == [
        ("trial", "n1", "trial:n1", "changed"),
        ("trial", "n2", "trial:n2", "changed"),
    ]
    assert all(0 <= step.seconds < 60 for step in run.steps)


@pytest.mark.parametrize(("found", "reason"), [("no room in /tmp", "no room in /tmp"), ("", "no word of it")])
def test_a_node_whose_job_fails_stays_new_and_is_left_out_with_the_reason(found: str, reason: str) -> None:
    run, _, saved = accept(n2=found)
    assert {name: one.on_trial for name, one in saved[0].hosts.items()} == {"c1": False, "n1": False, "n2": True}
    assert [*run.failed_hosts] == ["n2"]
    told = run.failed_hosts["n2"].reason
    assert f"trial:n2: left drained, since its test job failed: {reason}. Repair the node, then run fab deploy" in told
    assert [step.outcomes[0].status for step in run.steps] == ["changed", "failed"]


def test_nodes_that_are_not_new_or_not_of_this_run_are_not_tried() -> None:
    known = Lock(hosts={"n1": HostLock(), "n2": HostLock(on_trial=True)})
    assert accept(chosen=("c1", "n1"), lock=known)[1].requests == []
    assert accept(lock=Lock())[1].requests == []
    run, hosts, _ = accept(chosen=("c1", "n2"), lock=known)
    assert [one["nodes"] for one in trials(hosts)[0]["resources"]] == [("n2",)]
    assert run.steps


def test_a_new_node_that_was_lost_is_not_tried() -> None:
    wanted = cluster()
    hosts = Tried(facts_of(wanted, prepared))
    run = run_over(hosts, wanted, (), NEW, failed_hosts={"n1": Unreachable("n1", "off.")})
    acceptance.accept_new_nodes(run)
    assert [one["nodes"] for one in trials(hosts)[0]["resources"]] == [("n2",)]
    assert run.inventory.lock.hosts["n1"].on_trial


def test_without_a_partition_of_slurmfabs_own_each_job_has_one_of_its_node() -> None:
    partitions = """\
own_partition: false
partitions:
  - {PartitionName: one, Nodes: n1}
  - {PartitionName: two, Nodes: n2}
"""
    _, hosts, _ = accept(THREE_HOSTS + partitions)
    assert trials(hosts)[0]["resources"][0]["partitions"] == ("one", "two")
