"""What `sstatus JOB` tells users, from rows of squeue and sacct of Slurm 22.05 and 24.11."""

from __future__ import annotations

import time

import pytest

from slurmfab.on_hosts.programs.user_tools import endings, sstatus
from slurmfab.on_hosts.programs.user_tools.asking import RECORDED_FIELDS, REMEMBERED_FIELDS
from slurmfab.on_hosts.programs.user_tools.job_story import story

SUBMITTED = int(time.mktime((2026, 11, 27, 14, 0, 0, 0, 0, -1)))


def record(**fields: str) -> dict[str, str]:
    usual = {
        "JobID": "3", "State": "COMPLETED", "Reason": "None", "Submit": str(SUBMITTED), "Start": str(SUBMITTED + 725),
        "End": str(SUBMITTED + 1000), "NodeList": "n1", "ExitCode": "0:0", "ReqMem": "60M", "Timelimit": "00:10:00",
        "MaxRSS": "", "AdminComment": "", "TotalCPU": "", "AllocTRES": "", "TRESUsageInMax": "", "TRESUsageInTot": "",
    }  # fmt: skip
    return dict(zip(RECORDED_FIELDS, ({**usual, **fields}[name] for name in RECORDED_FIELDS), strict=True))


def remembered(**fields: str) -> dict[str, str]:
    usual = {
        "JobArrayID": "3", "State": "PENDING", "Reason": "Resources", "SubmitTime": str(SUBMITTED), "StartTime": "N/A",
        "EndTime": "N/A", "NodeList": "", "exit_code": "0",
    }  # fmt: skip
    return dict(zip(REMEMBERED_FIELDS, ({**usual, **fields}[name] for name in REMEMBERED_FIELDS), strict=True))


def test_a_job_when_it_ran_out_of_memory_then_the_story_has_what_it_asked_for_and_used() -> None:
    step = record(JobID="3.batch", State="OUT_OF_MEMORY", MaxRSS="60812K")
    assert story([], [record(State="OUT_OF_MEMORY", ExitCode="0:125"), step], SUBMITTED + 9000) == [
        "Job 3: OUT_OF_MEMORY",
        "  Waited 12 min 5 s, started 2026-11-27 14:12:05 on n1.",
        "  Ended 2026-11-27 14:16:40 after 4 min 35 s: out of memory: it asked for 60M, and 60812K were measured.",
    ]


def test_a_job_when_a_step_had_too_little_memory_and_the_script_went_on_then_the_step_is_named() -> None:
    step = record(JobID="3.0", State="OUT_OF_MEMORY", ExitCode="0:125")
    assert story([], [record(), step], SUBMITTED + 9000)[3:] == ["  A step ran out of memory all the same: 3.0."]


def test_a_job_when_it_has_ended_then_the_story_says_how_much_of_what_it_had_it_used() -> None:
    had = {"AllocTRES": "billing=4,cpu=4,gres/gpu=1,mem=4G,node=1", "TotalCPU": "09:10.500"}
    batch = record(JobID="3.batch", TRESUsageInMax="cpu=00:09:10,mem=1023M", TRESUsageInTot="cpu=00:09:10,mem=1G")
    step = record(JobID="3.0", TRESUsageInMax="gres/gpuutil=55,mem=9M", TRESUsageInTot="mem=9M")
    assert story([], [record(**had), batch, step], SUBMITTED + 9000)[3:] == [
        "  It used 50 % of 4 CPUs (9 min 10 s of 18 min 20 s of CPU time); 25 % of 4G of memory; at most 55 % of a GPU."
    ]
    assert story([], [record(AllocTRES="")], SUBMITTED + 9000)[3:] == []


def test_a_heterogeneous_job_when_it_waits_then_each_part_is_told_once() -> None:
    old = record(State="PENDING", Start="Unknown", End="Unknown", NodeList="None assigned")
    parts = [remembered(JobArrayID="3+0"), remembered(JobArrayID="3+1")]
    told = [line for line in story(parts, [old], SUBMITTED + 120) if line.startswith("Job")]
    assert told == ["Job 3+0: PENDING", "Job 3+1: PENDING"]


def test_a_job_when_it_waits_then_the_story_has_slurms_present_reason_in_plain_words() -> None:
    old = record(State="PENDING", Start="Unknown", End="Unknown", NodeList="None assigned")
    lines = story([remembered(Reason="JobHeldUser")], [old], SUBMITTED + 120)
    assert lines == [
        "Job 3: PENDING",
        "  Has waited 2 min. You hold it (--hold). To let it go: scontrol release 3 [JobHeldUser]",
    ]


def test_a_job_when_it_runs_then_the_story_says_for_how_long() -> None:
    running = remembered(State="RUNNING", StartTime=str(SUBMITTED + 60), NodeList="n[1-2]", Reason="None")
    assert story([running], [], SUBMITTED + 3660)[1:] == [
        "  Waited 1 min, started 2026-11-27 14:01:00 on n[1-2].",
        "  It has run for 1 h.",
    ]


@pytest.mark.parametrize(
    ("state", "code", "words"),
    [
        ("FAILED", "3:0", "ended with exit code 3"),
        ("FAILED", "0:9", "was killed by signal 9 (SIGKILL)"),
        ("FAILED", "0:53", "could not be started: its output file or its directory could not be opened"),
        ("FAILED", "127:0", "ended with exit code 127, which shells give for a command that they do not find"),
        ("FAILED", "139:0", "ended with exit code 139, which shells give for a command that signal 11 (SIGSEGV) has killed"),  # noqa: E501
        ("TIMEOUT", "0:0", "reached its time limit"),
        ("REVOKED", "0:0", "ended as REVOKED"),
    ],
)  # fmt: skip
def test_an_end_when_slurm_gives_state_and_code_then_it_is_told_in_words(state: str, code: str, words: str) -> None:
    assert endings.meaning(state, code) == words


@pytest.mark.parametrize("words", [["12", "--json"], ["12", "13"], ["x"], ["--user", "ann", "12"]])
def test_arguments_when_they_are_no_single_job_then_they_are_refused(words: list[str]) -> None:
    with pytest.raises(sstatus.WrongWords):
        sstatus.parsed(words)
