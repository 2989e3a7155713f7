"""Draining: what is refused before anything is asked, what is told, and how long jobs are waited for."""

from __future__ import annotations

import io
import re

import pytest
from fake_slurm import FakeSlurm, job_line
from support import THREE_HOSTS, cluster, facts_of, lost_words, prepared, run_over

from slurmfab import inventory
from slurmfab.errors import AgentFailed, HostError, InputError
from slurmfab.nodes import draining
from slurmfab.progress import Progress
from slurmfab.run import Run

IDLE = ("IDLE", "", "")


def hosts(**nodes: tuple[str, str, str]) -> FakeSlurm:
    return FakeSlurm(facts_of(cluster(), prepared), nodes={"n1": IDLE, "n2": IDLE, **nodes})


def run_of(slurm: FakeSlurm) -> tuple[Run, io.StringIO]:
    """A run, and what it tells."""
    run, told = run_over(slurm, cluster()), io.StringIO()
    run.progress = Progress(told)
    return run, told


@pytest.fixture
def known(tmp_path_factory: pytest.TempPathFactory) -> inventory.Inventory:
    path = tmp_path_factory.mktemp("configs") / "cluster.yaml"
    path.write_text(THREE_HOSTS)
    return inventory.load(path)


@pytest.mark.parametrize(
    ("words", "complaint"), [("", "Name the compute nodes"), ("c1", "c1: no compute node"), ("n9", "n9: not in")]
)
def test_hosts_that_are_no_compute_nodes_are_refused(known: inventory.Inventory, words: str, complaint: str) -> None:
    with pytest.raises(InputError, match=re.escape(complaint)):
        draining.compute_nodes(known, words)


def test_compute_nodes_keep_the_users_order(known: inventory.Inventory) -> None:
    assert draining.compute_nodes(known, "n2,n1") == ("n2", "n1")


@pytest.mark.parametrize("reason", ["", "   ", "two\nlines", "x" * 201])
def test_a_reason_that_slurm_cannot_keep_is_refused(reason: str) -> None:
    with pytest.raises(InputError, match="--reason"):
        draining.checked_reason(reason)


def test_who_drains_and_when_is_in_a_form_that_is_read_again() -> None:
    assert re.fullmatch(r"\S+@\S+ \d{4}-\d\d-\d\dT\d\d:\d\d", draining.stamp())


def test_nodes_when_drained_are_told_with_their_jobs_and_cost_two_requests_more_than_the_look() -> None:
    slurm = hosts(n2=("MIXED", "", ""))
    slurm.jobs = [job_line(12, "n2"), job_line(13, "n9")]
    slurm.wrong["c1"] = {"node-drain:n1,n2"}
    run, told = run_of(slurm)
    draining.drain_nodes(run, ("n1", "n2"), "new disks")
    assert "Still running there: 12 (ann). They go on to their end." in told.getvalue()
    assert [(step.phase, step.host) for step in run.steps] == [("drain", "c1")]
    assert slurm.of("c1") == ["claim", "apply node-drain"]
    assert {host for host, _ in slurm.requests} == {"c1"}


def test_a_node_that_somebody_drained_is_told_to_be_left() -> None:
    run, told = run_of(hosts(n1=("IDLE+DRAIN", "fan is loud", "bob")))
    draining.drain_nodes(run, ("n1",), "new disks")
    assert told.getvalue().startswith("n1: idle, drain already (“fan is loud”, bob, 2026-11-21 09:00:00). That is left")


def test_a_node_that_slurmctld_does_not_know_is_told_before_anything_is_changed() -> None:
    slurm = hosts()
    del slurm.nodes["n2"]
    run, _ = run_of(slurm)
    with pytest.raises(HostError, match="does not know n2"):
        draining.drain_nodes(run, ("n1", "n2"), "new disks")
    assert slurm.requests == []


def test_a_slurmctld_that_does_not_answer_is_told() -> None:
    slurm = hosts()
    slurm.ping = "Slurmctld(primary) at c1 is DOWN\n"
    run, _ = run_of(slurm)
    with pytest.raises(HostError, match="c1: slurmctld does not answer"):
        draining.drain_nodes(run, ("n1",), "new disks")


def test_waiting_ends_when_the_last_job_has() -> None:
    slurm = hosts()
    slurm.jobs = [job_line(12, "n1"), job_line(13, "n2")]
    run, _ = run_of(slurm)
    draining.wait_until_empty(run, ("n1", "n2"), 0, pause=lambda _: slurm.jobs.pop())
    assert (run.lost, slurm.jobs) == ({}, [])


def test_waiting_when_the_time_is_over_names_the_nodes_and_their_jobs() -> None:
    slurm = hosts()
    slurm.jobs = [job_line(12, "n1")]
    run, _ = run_of(slurm)
    draining.wait_until_empty(run, ("n1", "n2"), 1e-9, pause=lambda _: None)
    assert lost_words(run.lost) == {
        "n1": "after 0 min there are still jobs: 12 (ann). It stays drained, and they go on."
    }
    assert run.report().exit_code == 1


def test_waiting_goes_on_when_the_controller_is_away_for_a_moment() -> None:
    slurm = hosts()
    slurm.jobs = [job_line(12, "n1")]
    silent = iter([False, True, True])

    def look() -> None:
        if next(silent, False):
            raise AgentFailed("c1", "the connection was lost.")
        if len(looks) > 2:
            slurm.jobs.clear()

    looks: list[float] = []
    slurm.looked = look
    run, _ = run_of(slurm)
    draining.wait_until_empty(run, ("n1",), 0, pause=looks.append)
    assert len(looks) == 3
