"""Batch jobs of a user: what comes of each, how long they are waited for, and that none is left behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from slurmfab.on_hosts.agent.nodes import user_jobs
from slurmfab.on_hosts.agent.nodes.user_jobs import FAILED, RAN, REFUSED, WAITED, End, Person, batch_jobs

ANN = Person("ann", "/home/ann")
NAME = "slurmfab-check-0a1b2c"
CLOSED = "slurmstepd: error: execve(): /srv/spool/job00007/slurm_script: Permission denied\n"


@dataclass
class Slurm:
    """A Slurm that gives jobs numbers from 1 on, and tells one state of theirs after the other.

    Args:
        told: by number, the states of a job; the last one stays.
        refused: by node, what sbatch says.
    """

    told: dict[str, Sequence[str]]
    refused: dict[str, str] = field(default_factory=dict)
    submitted: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    looks: int = 0

    def __call__(self, line: str, stdin: str) -> tuple[int, str, str]:
        if "sbatch" in line:
            assert stdin.startswith("#!/bin/sh\nsrun ")
            node = line.partition("--nodelist=")[2].split()[0]
            if node in self.refused:
                return 1, "", f"sbatch: error: Batch job submission failed: {self.refused[node]}\n"
            self.submitted.append(line)
            return 0, f"{len(self.submitted)};lab\n", ""
        if "scancel" in line:
            self.cancelled += line.partition("-- ")[2].split()
            return 0, "", ""
        self.looks += 1 if "--jobs=1" in line else 0
        rows = ((number, states[min(self.looks, len(states)) - 1]) for number, states in self.told.items())
        return 0, "".join(f"{number}|{state}|Resources|n1|512|now|\n" for number, state in rows if state), ""


@pytest.fixture(autouse=True)
def no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time passes by the looks at jobs alone, a second each."""
    now = [0.0]

    def sleep(_: float) -> None:
        now[0] += 1

    monkeypatch.setattr(user_jobs.time, "sleep", sleep)
    monkeypatch.setattr(user_jobs.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(user_jobs, "PARALLEL", 1)


@pytest.mark.parametrize(
    ("states", "how", "text"),
    [
        (["COMPLETED"], RAN, ""),
        (["PENDING", "RUNNING", "COMPLETED"], RAN, ""),
        (["RUNNING", "FAILED"], FAILED, "the batch job 1 of ann is FAILED (exit code 2:0)"),
        (["NODE_FAIL"], FAILED, "the batch job 1 of ann is NODE_FAIL (exit code 2:0)"),
        ([""], FAILED, "the batch job 1 of ann is GONE (exit code )"),
        (["PENDING"], WAITED, "it has waited for 5 s (Resources)"),
        (["RUNNING"], WAITED, "it has not ended within 20 s"),
    ],
)
def test_a_batch_job_of_a_user_is_judged_by_its_end_and_waited_for_in_bounds(
    states: list[str], how: str, text: str
) -> None:
    slurm = Slurm({"1": states})
    end = batch_jobs(slurm, ANN, {"n1": ["--partition=main"]}, NAME, 5.0)["n1"]
    assert (end.how, end.text) == (how, text)
    assert slurm.cancelled == (["1"] if how == WAITED else [])
    line, *again = slurm.submitted
    assert [f"--output={end.path} " in one for one in again] == ([True] if how == FAILED else [])
    assert "--output=/dev/null" in line
    assert line.startswith("cd /tmp && runuser -u ann -- env -i HOME=/home/ann ")
    assert "--partition=main --nodelist=n1 --ntasks=1 --time=2 --deadline=now+5minutes" in line


def test_jobs_on_many_nodes_when_one_is_refused_and_one_waits_then_the_others_are_judged() -> None:
    slurm = Slurm({"1": ["COMPLETED"], "2": ["PENDING"], "3": ["FAILED"]}, {"n4": "Invalid account"})
    ends = batch_jobs(slurm, ANN, {node: [] for node in ("n1", "n2", "n3", "n4")}, NAME, 5.0)
    assert {node: end.how for node, end in ends.items()} == {"n1": RAN, "n2": WAITED, "n3": FAILED, "n4": REFUSED}
    assert ends["n4"].text == "Invalid account"
    assert slurm.cancelled == ["2"]


@pytest.mark.parametrize(
    ("output", "told"),
    [
        (CLOSED, "SlurmdSpoolDir: namei -l /srv/spool there"),
        ("", "it failed. Repair: see the log of slurmd there"),
        ("srun: error: one\nlast.\n", "it failed: last. Repair: see the log of slurmd there"),
    ],
)
def test_a_failed_job_is_told_with_its_last_words_and_what_to_try(output: str, told: str) -> None:
    assert End(FAILED, "it failed").told(output).endswith(told)


@pytest.mark.parametrize(
    ("record", "mode", "why"),
    [
        ({"CPUAlloc": "0", "CPUTot": "4"}, "OFF", ""),
        ({"CPUAlloc": "3", "CPUTot": "4"}, "OFF", ""),
        ({"CPUAlloc": "4", "CPUTot": "4"}, "OFF", "all of it is taken by jobs"),
        ({"CPUAlloc": "0", "CPUTot": "4"}, "REQUEUE", ""),
        (
            {"CPUAlloc": "1", "CPUTot": "4"},
            "SUSPEND,GANG",
            "jobs run there, which another one might stop (PreemptMode)",
        ),
    ],
)
def test_a_node_has_room_for_a_test_job_where_it_takes_nothing_from_others(
    record: dict[str, str], mode: str, why: str
) -> None:
    shown = f"PreemptExemptTime       = 00:00:00\nPreemptMode             = {mode}\nPreemptType = x\n"
    assert user_jobs.no_room(record, user_jobs.preempts(shown)) == why
