"""Draining: what is refused before a host is contacted, and what is printed."""

from __future__ import annotations

import io
import re

import pytest
from fake_slurm import FakeSlurm, job_line
from support import THREE_HOSTS, cluster, facts_of, prepared, run_over

from slurmfab.base.errors import HostError, InputError
from slurmfab.cluster.inventory import loading
from slurmfab.commands.nodes import drain
from slurmfab.core.engine.progress import Progress
from slurmfab.core.engine.run import Run

IDLE = ("IDLE", "", "")


def hosts(**nodes: tuple[str, str, str]) -> FakeSlurm:
    return FakeSlurm(facts_of(cluster(), prepared), nodes={"n1": IDLE, "n2": IDLE, **nodes})


def run_of(slurm: FakeSlurm) -> tuple[Run, io.StringIO]:
    """A run, and its output."""
    run, told = run_over(slurm, cluster()), io.StringIO()
    run.progress = Progress(told)
    return run, told


@pytest.fixture
def known(tmp_path_factory: pytest.TempPathFactory) -> loading.Inventory:
    path = tmp_path_factory.mktemp("configs") / "cluster.yaml"
    path.write_text(THREE_HOSTS)
    return loading.load(path)


@pytest.mark.parametrize(
    ("words", "complaint"), [("", "Name the compute nodes"), ("c1", "c1: not a compute node"), ("n9", "n9: not in")]
)
def test_hosts_that_are_not_compute_nodes_are_refused(known: loading.Inventory, words: str, complaint: str) -> None:
    with pytest.raises(InputError, match=re.escape(complaint)):
        drain.compute_nodes(known, words)


def test_compute_nodes_keep_the_users_order(known: loading.Inventory) -> None:
    assert drain.compute_nodes(known, "n2,n1") == ("n2", "n1")


@pytest.mark.parametrize("reason", ["", "   ", "two\nlines", "x" * 201])
def test_a_reason_that_slurm_cannot_store_is_refused(reason: str) -> None:
    with pytest.raises(InputError, match="--reason"):
        drain.checked_reason(reason)


def test_user_and_time_in_a_reason_can_be_parsed_again() -> None:
    assert re.fullmatch(r"\S+@\S+ \d{4}-\d\d-\d\dT\d\d:\d\d", drain.stamp())


def test_a_drain_prints_running_jobs_and_needs_two_requests_besides_the_snapshot() -> None:
    slurm = hosts(n2=("MIXED", "", ""))
    slurm.jobs = [job_line(12, "n2"), job_line(13, "n9")]
    slurm.wrong["c1"] = {"node-drain:n1,n2"}
    run, told = run_of(slurm)
    drain.drain_nodes(run, ("n1", "n2"), "new disks")
    assert "Still running there: 12 (ann). These jobs continue." in told.getvalue()
    assert [(step.phase, step.host) for step in run.steps] == [("drain", "c1")]
    assert slurm.of("c1") == ["claim", "apply node-drain"]
    assert {host for host, _ in slurm.requests} == {"c1"}


def test_a_node_that_a_user_drained_is_not_changed() -> None:
    run, told = run_of(hosts(n1=("IDLE+DRAIN", "fan is loud", "bob")))
    drain.drain_nodes(run, ("n1",), "new disks")
    assert told.getvalue().startswith(
        "n1: idle, drain already (“fan is loud”, bob, 2026-11-21 09:00:00). This is not changed"
    )


def test_a_node_that_slurmctld_does_not_know_is_refused_before_any_change() -> None:
    slurm = hosts()
    del slurm.nodes["n2"]
    run, _ = run_of(slurm)
    with pytest.raises(HostError, match="does not know n2"):
        drain.drain_nodes(run, ("n1", "n2"), "new disks")
    assert slurm.requests == []


def test_a_slurmctld_that_does_not_answer_is_an_error_of_drain() -> None:
    slurm = hosts()
    slurm.ping = "Slurmctld(primary) at c1 is DOWN\n"
    run, _ = run_of(slurm)
    with pytest.raises(HostError, match="c1: slurmctld does not answer"):
        drain.drain_nodes(run, ("n1",), "new disks")
