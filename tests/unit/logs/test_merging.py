"""Lines of many hosts told once, and which lines of a controller are about a node."""

from __future__ import annotations

import time

import pytest

from slurmfab.commands.logs.asking import HostLine, Told, is_about, merge, with_normal

HOSTS = ("ctl", "n1", "n2", "n3", "gpu01")


def line(text: str, first: float, last: float = 0, number: int = 1, source: str = "slurmd") -> HostLine:
    return HostLine(source, text, first, last or first, number)


def test_equal_lines_of_hosts_are_one_with_all_hosts_and_their_number() -> None:
    told = merge({"n1": [line("error: no", 5, 9, 3)], "n2": [line("error: no", 4)], "ctl": [line("up", 7)]})
    assert told == [
        Told(("n1", "n2"), "slurmd", "error: no", 4, 9, 4),
        Told(("ctl",), "slurmd", "up", 7, 7, 1),
    ]
    assert told[0].hostlist == "n[1-2]"


def test_lines_that_differ_in_the_hosts_name_address_or_client_port_are_one() -> None:
    told = merge(
        {
            "n1": [
                line("n1: error: no answer from 10.0.0.1", 1),
                line("error: recv [10.0.0.9:41234]", 2),
                line("up (pid 5)", 4),
            ],
            "n2": [
                line("n2: error: no answer from 10.0.0.2", 1),
                line("error: recv [10.0.0.9:2345]", 3),
                line("up (pid 6)", 5),
            ],
        }
    )
    assert [(one.hostlist, one.text) for one in told] == [
        ("n[1-2]", "n[1-2]: error: no answer from 10.0.0.[1-2]"),
        ("n[1-2]", "error: recv [10.0.0.9]"),
        ("n[1-2]", "up (pid 5)"),
    ]


def test_equal_lines_of_two_logs_stay_two() -> None:
    assert len(merge({"n1": [line("error: no", 1), line("error: no", 1, source="slurmctld")]})) == 2


@pytest.mark.parametrize(
    ("text", "at", "normal"),
    [
        ("error: Job accounting information gathered, but not stored", 3, "a start"),
        ("error: NOTE: Trying backup state save file. Jobs may be lost!", 3, "the first start"),
        ("error: NOTE: Trying backup state save file. Jobs may be lost!", 90, ""),  # at a later start
        ("error: Could not open job state file /s/job_state: Permission denied", 3, ""),
        ("error: Detected 1 oom_kill event in StepId=4.batch", 3, ""),
    ],
)
def test_a_line_that_daemons_write_when_they_are_well_is_marked(text: str, at: float, normal: str) -> None:
    started = line("slurmctld version 24.11.5 started on cluster c", 2, 88, 2, "slurmctld")
    told = with_normal(merge({"ctl": [started, line(text, at, source="slurmctld")]}))
    assert {one.text: one.normal for one in told}[text] == normal


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("error: Nodes n1 not responding", True),
        ("error: Nodes n[1-3] not responding", True),
        ("error: Nodes n[2,5-9] not responding", False),
        ("error: Nodes gpu[01-04] not responding", False),
        ("error: Nodes n2 not responding", False),
        ("error: Nodes n2,n1 not responding", True),
        ("slurmctld version 24.11.5 started on cluster lab", True),
        ("error: JobId=12 on n2", True),
        ("error: JobId=13 on n2", False),
        ("_job_complete: JobId=13 OOM failure", False),
        ("Allocate JobId=13 NodeList=n[01-99999999999]", True),
    ],
)
def test_lines_of_a_controller_are_about_the_node_or_about_none(text: str, expected: bool) -> None:
    assert is_about(text, {"n1"}, HOSTS, {"12"}) == expected


def test_hostile_lines_of_many_hosts_take_no_time() -> None:
    texts = ["n[" + "1-999999999," * 300 + "]", "a" * 1000, "1" * 1000, "[" * 1000, "a-" * 500, "10.0.0.1:" * 110]
    begun = time.monotonic()
    for text in texts * 20:
        is_about(text, {"n1"}, HOSTS)
        merge({"n1": [line(text, 1)], "n2": [line(text + "x", 1)]})
    assert time.monotonic() - begun < 2
