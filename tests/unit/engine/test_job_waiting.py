"""Waiting for jobs: when it ends, and which nodes it excludes from the run."""

from __future__ import annotations

import pytest
from fake_slurm import FakeSlurm, job_line
from support import cluster, facts_of, lost_words, prepared, run_over

from slurmfab.base.errors import AgentFailed
from slurmfab.core.engine import job_waiting
from slurmfab.core.status import snapshot

IDLE = ("IDLE", "", "")


def hosts() -> FakeSlurm:
    return FakeSlurm(facts_of(cluster(), prepared), nodes={"n1": IDLE, "n2": IDLE})


def test_waiting_ends_with_the_last_job() -> None:
    slurm = hosts()
    slurm.jobs = [job_line(12, "n1"), job_line(13, "n2")]
    run = run_over(slurm, cluster())
    job_waiting.wait_until_empty(run, ("n1", "n2"), 0, pause=lambda _: slurm.jobs.pop())
    assert (run.failed_hosts, slurm.jobs) == ({}, [])


def test_waiting_names_nodes_and_jobs_at_the_time_limit() -> None:
    slurm = hosts()
    slurm.jobs = [job_line(12, "n1")]
    run = run_over(slurm, cluster())
    job_waiting.wait_until_empty(run, ("n1", "n2"), 1e-9, pause=lambda _: None)
    assert lost_words(run.failed_hosts) == {
        "n1": "jobs still run there after 0 min: 12 (ann). The node stays drained; the jobs continue."
    }
    assert run.report().exit_code == 1


def test_waiting_continues_while_the_controller_does_not_answer_for_a_moment() -> None:
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
    run = run_over(slurm, cluster())
    job_waiting.wait_until_empty(run, ("n1",), 0, pause=looks.append)
    assert len(looks) == 3


def test_waiting_within_the_time_limit_ends_with_the_last_job() -> None:
    slurm = hosts()
    slurm.jobs = [job_line(12, "n1"), job_line(13, "n2")]
    run = run_over(slurm, cluster())
    job_waiting.wait_until_empty(run, ("n1", "n2"), 600, pause=lambda _: slurm.jobs.pop())
    assert run.failed_hosts == {}


def test_waiting_is_given_up_when_the_controller_is_silent_beyond_the_limit() -> None:
    slurm = hosts()
    slurm.jobs = [job_line(12, "n1")]

    def look() -> None:
        raise AgentFailed("c1", "the connection was lost.")

    slurm.looked = look
    with pytest.raises(AgentFailed):
        job_waiting.wait_until_empty(run_over(slurm, cluster()), ("n1",), 1e-9, pause=lambda _: None)


def test_jobs_are_known_by_their_nodes_and_named_ten_at_most() -> None:
    slurm = hosts()
    slurm.jobs = [job_line(number, "n1") for number in range(11)]
    current = snapshot.ask(run_over(slurm, cluster()).transport, "c1", job_waiting.NODES_AND_JOBS)
    assert len(job_waiting.jobs_by_node(current)["n1"]) == 11
    assert job_waiting.jobs_on(current, ["n2"]) == ()
    told = job_waiting.format_jobs(job_waiting.jobs_on(current, ["n1", "n2"]))
    assert told.startswith("0 (ann), 1 (ann), ")
    assert told.endswith("9 (ann) and 1 more")
    assert job_waiting.format_jobs(current.jobs[:10]).endswith("9 (ann)")
