"""The chain of a node: its state, who set it, what became of jobs, and the command that brings it back."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import pytest
from told_jobs import at, line, record, told

from slurmfab.commands.explain.node_chain import links
from slurmfab.core.engine.record import Record
from slurmfab.core.engine.report import Step
from slurmfab.on_hosts.agent.core.resource import Outcome

STATE = "NodeName=n2 CPUTot=2 RealMemory=23382 State={} Partitions=main Version=24.11.5{}\n"
BY_ROOT = " Reason=broken fan [root@2026-11-27T14:05:00]"
OURS = " Reason=slurmfab: new disk (ann@laptop 2026-11-27T14:05) [root@2026-11-27T14:05:00]"
HEALTH = " Reason=slurmfab: health: /scratch is not mounted [root@2026-11-27T14:05:00]"
GPUS = " Reason=slurmfab: gpu check: all_reduce 98.2 GB/s, wanted 120 [root@2026-11-27T14:05:00]"
SILENT = " Reason=Not responding [slurm@2026-11-27T14:05:00]"


def event(state: str, by: str, reason: str) -> list[str]:
    return ["n2", "14:05:00", "Unknown", state, by, reason]


@pytest.mark.parametrize(
    ("state", "events", "lost", "wanted"),
    [
        pytest.param(
            STATE.format("IDLE+DRAIN", BY_ROOT),
            [event("DRAIN", "root(0)", "broken fan")],
            {},
            ["n2 is drained since 14:05:00 by root: broken fan, for 55 min", "it lost no job",
             "when root agrees: fab resume n2 --any"],
            id="drained by a person",
        ),
        pytest.param(
            STATE.format("IDLE+DRAIN", OURS),
            [],
            {},
            ["n2 is drained since 14:05:00 by ann@laptop with slurmfab: new disk, for 55 min", "it lost no job",
             "fab resume n2"],
            id="drained by slurmfab, no event on record",
        ),
        pytest.param(
            STATE.format("IDLE+DRAIN", HEALTH),
            [],
            {},
            ["n2 is drained since 14:05:00 by its health check: /scratch is not mounted, for 55 min", "it lost no job",
             "repair what the health check finds; it then resumes the node. At once: fab resume n2"],
            id="drained by its health check",
        ),
        pytest.param(
            STATE.format("IDLE+DRAIN", GPUS),
            [],
            {},
            ["n2 is drained since 14:05:00 by slurmfab: gpu check: all_reduce 98.2 GB/s, wanted 120, for 55 min",
             "it lost no job", "fab resume n2"],
            id="drained by a check of GPUs",
        ),
        pytest.param(
            STATE.format("DOWN*", SILENT),
            [event("DOWN*", "slurm(64030)", "Not responding")],
            {"n2": "nothing listens at port 22."},
            ["n2 is down since 14:05:00 by slurmctld itself: Not responding, for 55 min", "it lost no job",
             "n2 does not answer over SSH: nothing listens at port 22.",
             "switch it on, or repair its network, then: fab resume n2"],
            id="switched off",
        ),
        pytest.param(STATE.format("IDLE", ""), [], {}, ["n2 is in service (idle)"], id="in service"),
    ],
)  # fmt: skip
def test_a_node_when_its_state_is_known_then_the_chain_says_who_why_and_what_helps(
    state: str, events: list[list[str]], lost: dict[str, str], wanted: list[str]
) -> None:
    known = told(nodes=state, events=events, job="")
    assert [link.text for link in links(known, "n2", lost, ())] == wanted


def test_a_node_when_it_went_down_with_jobs_then_they_are_named_with_what_became_of_them() -> None:
    lost = record(JobID="7", State="NODE_FAIL", NodeList="n2", End="14:05:00")
    back = record(JobID="8", State="REQUEUED", NodeList="n2", End="14:05:01")
    other = record(JobID="9", State="COMPLETED", NodeList="n2", End="13:00:00")
    silent = [event("DOWN*", "slurm(64030)", "Not responding")]
    known = told(nodes=STATE.format("DOWN*", SILENT), events=silent, others=[lost, back, other], job="")
    texts = [link.text for link in links(known, "n2", {}, ())]
    assert "it lost job 7 of ann (NODE_FAIL) and job 8 of ann (put back)" in texts


def test_a_node_when_a_daemon_had_stopped_before_then_that_is_told() -> None:
    known = told(
        nodes=STATE.format("DOWN*", SILENT),
        lines=[line("14:04:30", "n2", "munge", "systemd: Stopped munge.service - MUNGE authentication service.")],
        job="",
    )
    assert "munge of n2 was stopped at 14:04:30" in [link.text for link in links(known, "n2", {}, ())]


def test_a_node_when_slurmctld_named_another_slurm_conf_then_that_is_told_until_slurmd_starts_anew() -> None:
    wrong = line(
        "14:50:00", "ctl", "slurmctld", "error: Node n2 appears to have a different slurm.conf than the slurmctld"
    )
    anew = line("14:51:00", "n2", "slurmd", "slurmd version 24.11.5 started")
    texts = [
        [link.text for link in links(told(nodes=STATE.format("IDLE", ""), lines=lines, job=""), "n2", {}, ())]
        for lines in ([wrong], [wrong, anew])
    ]
    said = "at 14:50:00 slurmctld said that its slurm.conf was another one than slurmctld's. To compare: fab plan"
    assert [said in one for one in texts] == [True, False]


def test_a_node_when_it_is_reserved_then_the_reservation_is_named() -> None:
    works = "ReservationName=works StartTime=2026-11-27T14:00:00 EndTime=2026-11-27T16:00:00 Duration=02:00:00 Nodes=n2"
    known = told(nodes=STATE.format("IDLE+MAINT", ""), reservations=works, job="")
    assert "n2 is reserved (works) until 16:00:00" in [link.text for link in links(known, "n2", {}, ())]


def test_a_node_when_a_run_of_slurmfab_drained_it_then_the_run_is_named() -> None:
    begun = datetime.fromtimestamp(at("14:04:55"), timezone.utc)
    step = Step("nodes", "ctl", (Outcome("node-drain:n2", "changed"),))
    run = Record("r1", "drain", "ann@laptop", begun, begun.replace(minute=begun.minute + 1), steps=(step,))
    known = replace(told(nodes=STATE.format("IDLE+DRAIN", OURS), job=""), runs=(run,))
    assert "(fab drain by ann@laptop (r1))" in links(known, "n2", {}, ())[0].text
