"""The command sstatus: what it shows for answers of Slurm's, as text and as JSON."""

from __future__ import annotations

import io
import json
import os
import pwd
import time
from pathlib import Path
from typing import Any

import pytest
from json_shapes import assert_fits

from slurmfab.on_hosts.programs.user_tools import main, settings, showing, sstatus, state
from slurmfab.on_hosts.programs.user_tools.asking import JOB_FIELDS, Answer
from slurmfab.on_hosts.programs.user_tools.hostnames import fold

ADA = state.Person("ada", "4001")
NOW = 1795440000.0
BASE = dict.fromkeys(JOB_FIELDS, "N/A") | {
    "JobArrayID": "12", "Partition": "gpu", "UserName": "ada", "Account": "physics", "QOS": "normal",
    "State": "RUNNING", "Reason": "None", "NumNodes": "1", "NumCPUs": "4", "NumTasks": "1", "TimeUsed": "30:00",
    "TimeLimit": "1:00:00", "NodeList": "n1", "tres-alloc": "cpu=4,gres/gpu=2,gres/gpu:a100=2", "Name": "train",
}  # fmt: skip
WAITS = {"State": "PENDING", "NodeList": "(null)", "TimeUsed": "0:00", "tres-alloc": "cpu=4"}
PARTITION = "PartitionName=gpu AllowAccounts=ALL QoS=gpus Default=YES State=UP MaxTime=1-00:00:00\n"
NODES = """\
NodeName=n1 CPUAlloc=4 CPUTot=8 Gres=gpu:a100:4 GresUsed=gpu:a100:2(IDX:0-1) State=MIXED Partitions=gpu
NodeName=n2 CPUAlloc=0 CPUTot=8 Gres=gpu:a100:4 GresUsed=gpu:a100:0(IDX:N/A) State=IDLE Partitions=gpu
NodeName=n3 CPUAlloc=0 CPUTot=8 Gres=gpu:a100:4 GresUsed=gpu:a100:0(IDX:N/A) State=IDLE Partitions=gpu
NodeName=n4 CPUAlloc=0 CPUTot=8 Gres=gpu:a100:4 GresUsed=gpu:a100:0(IDX:N/A) State=IDLE+DRAIN Partitions=gpu Reason=x
"""
ANSWERS = {
    "nodes": Answer(0, NODES, ""),
    "partitions": Answer(0, PARTITION, ""),
    "use": Answer(0, "", ""),
    "associations": Answer(0, "physics|||normal||||||||||\n", ""),
    "qos": Answer(0, "gpus|||||||||gres/gpu=4|||||||\nnormal||||||||||||||||\n", ""),
}


def row(**fields: str) -> tuple[str, ...]:
    return tuple({**BASE, **{name.replace("_", "-"): value for name, value in fields.items()}}.values())


def told(*rows: tuple[str, ...], accounting: bool = True, **answers: Answer) -> state.State:
    known = {"cluster": "titanic", "accounting": accounting}
    return state.state(ADA, {**ANSWERS, **answers}, rows, known)


def shown(one: state.State, width: int = 100) -> list[str]:
    return showing.lines(one, showing.Paint(io.StringIO()), NOW, width)


def test_limits_of_one_job_are_told_of_partitions_qos_and_accounts() -> None:
    associations = Answer(0, "physics|||normal|||2-00:00:00|cpu=8,gres/gpu=1|mem=4G|||||\n", "")
    qos = Answer(0, "gpus||04:00:00|||||||gres/gpu=4|||||||\nnormal|||cpu=64||cpu=600|||||||||||\n", "")
    found = told(row(), associations=associations, qos=qos)
    assert list(found.job_limits) == [
        "A job may run for at most 04:00:00 on partition gpu",
        "A job may have at most 64 CPUs with QOS normal",
        "A job may have at most 600 minutes of CPUs with QOS normal",
        "A job may have at most 8 CPUs, 1 GPUs in account physics",
        "A job may have at most 4096 MiB of memory on each node in account physics",
        "A job may run for at most 2-00:00:00 in account physics",
    ]
    assert found.as_json()["job_limits"] == list(found.job_limits)
    assert shown(found)[shown(found).index(found.job_limits[-1]) + 1].startswith("JOBID")


def test_the_state_is_told_as_the_lines_that_users_know() -> None:
    rows = (row(JobArrayID="14", **WAITS | {"Reason": "QOSMaxGRESPerUser"}), row())
    assert shown(told(*rows)) == [
        "titanic status:",
        "GPU usage 2/16",
        "Free nodes 2/4: n[2-3]",
        "",
        "Jobs of ada:",
        "Using 0/4 GPUs allowed on partition gpu",
        "JOBID  PARTITION  NAME   STATE    GPUS  CPUS  CPU TIME  NODES",
        "12     gpu        train  RUNNING  2     4     02:00:00  n1",
        "14     gpu        train  PENDING  -     4     00:00:00  -",
        "",
        "Why jobs wait:",
        "14: With it, you would have more GPUs or other generic resources than allowed at once, by the QOS of",
        "  the job or of its partition; it starts when jobs of yours end. If none of them runs, it asks for",
        "  too much by itself: submit it with less. [QOSMaxGRESPerUser]",
    ]


def test_without_jobs_accounts_and_gpus_little_is_said() -> None:
    plain = Answer(0, NODES.replace("gpu:a100:4", "(null)"), "")
    assert shown(told(accounting=False, nodes=plain))[1:] == ["Free nodes 2/4: n[2-3]", "", "Jobs of ada:", "No jobs."]


def test_jobs_with_the_same_reason_are_told_once_with_the_start_that_slurm_expects() -> None:
    start = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(NOW + 3300))
    day = time.strftime("%Y-%m-%d %H:%M", time.localtime(NOW + 3300))
    rows = (
        row(JobArrayID="14", StartTime=start, **WAITS | {"Reason": "Priority"}),
        row(JobArrayID="15_[1-9]", **WAITS | {"Reason": "Priority"}),
        row(JobArrayID="16", **WAITS | {"Reason": "SomethingNew"}),
    )
    lines = shown(told(*rows), width=400)
    why = lines[lines.index("Why jobs wait:") + 1 :]
    assert why[0].startswith("14, 15_[1-9]: Jobs with a higher priority come first.")
    assert why[0].endswith("[Priority]")
    assert why[1:] == [f"  Expected start of 14: {day} (in 55 min)", "16: Slurm says: SomethingNew"]


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({"nodes": Answer(0, "", "")}, "No nodes are shown to you."),
        ({"nodes": Answer(1, "", "odd")}, "Slurm tells nothing about nodes (odd)."),
        ({"qos": Answer(1, "", "refused")}, "Some limits are unknown: slurmdbd does not answer (refused)."),
    ],
)
def test_what_cannot_be_had_is_said(answers: dict[str, Answer], words: str) -> None:
    assert words in shown(told(row(), **answers))


def test_nodes_that_private_data_hides_are_no_trouble() -> None:
    denied = Answer(1, "", "slurm_load_node error: Access/permission denied")
    assert shown(told(row(), nodes=denied))[1] == "No nodes are shown to you."
    assert told(row(), nodes=denied).notes == ()


def test_a_job_when_its_gpus_are_idle_then_its_user_is_told_what_will_become_of_it() -> None:
    comment = (
        "billed [idle GPUs: idle since 2026-11-26 10:04; cancelled after 2026-11-26 12:40 unless it uses them|n1 1-2]"
    )
    idle = tuple({**BASE, "admin_comment": comment}.values())
    lines = shown(told(idle, row(JobArrayID="13")))
    assert lines[lines.index("GPUs that do nothing:") + 1 :] == [
        "12: idle since 2026-11-26 10:04; cancelled after 2026-11-26 12:40 unless it uses them"
    ]
    assert "GPUs that do nothing:" not in shown(told(row()))


def test_jobs_of_others_may_be_there_and_not_shown() -> None:
    assert shown(told()._replace(person=ADA._replace(is_caller=False)))[-1] == "No jobs are shown to you."


def test_a_crowd_of_jobs_is_not_listed_whole() -> None:
    lines = shown(told(*(row(JobArrayID=str(number)) for number in range(60))))
    assert lines[-1] == "... and 10 more; --json has them all."
    assert len(lines) == 7 + showing.MOST_JOBS + 1


@pytest.mark.parametrize(
    ("fields", "gpus"),
    [
        ({}, 2),
        (WAITS, 0),
        (WAITS | {"tres-per-node": "gres/gpu:a100:2", "NumNodes": "3"}, 6),
        (WAITS | {"tres-per-node": "gpu:1"}, 1),
        (WAITS | {"tres-per-job": "gres/gpu:4"}, 4),
        (WAITS | {"tres-per-task": "gres:gpu:1", "NumTasks": "8"}, 8),
    ],
)
def test_the_gpus_of_a_job_are_the_allocated_or_the_wanted_ones(fields: dict[str, str], gpus: int) -> None:
    (one,) = told(row(**fields)).jobs
    assert one.gpus == gpus


def test_names_that_users_choose_cannot_forge_lines() -> None:
    (one,) = told(row(Name="a\nb\033[31m|c")).jobs
    assert one.name == "a?b?[31m|c"


def test_json_has_a_version_and_all_values() -> None:
    found = json.loads(json.dumps(told(row(JobArrayID="14", **WAITS | {"Reason": "JobHeldUser"})).as_json()))
    assert_fits("sstatus", found)
    assert found["version"] == 1
    assert found["gpus"] == {"a100": {"used": 2, "total": 16}}
    assert found["nodes"] == {"total": 4, "free": 2, "names": "n[2-3]"}
    assert found["limits"][0]["text"] == "Using 0/4 GPUs allowed on partition gpu"
    assert found["jobs"][0]["explanation"] == "You hold it (--hold). To let it go: scontrol release 14"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--frob",), "there is no option '--frob'"),
        (("--user",), "--user needs the name of a user"),
        (("--user", "no-such-user"), "there is no user 'no-such-user' on this host"),
        (("--user=-x",), "there is no user '-x' on this host"),
        (("-u", "a,b"), "there is no user 'a,b' on this host"),
        (("n1",), "there is no option 'n1'"),
    ],
)
def test_wrong_words_are_told_and_nothing_is_asked(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sstatus.main(words) == 2
    assert said in capsys.readouterr().err


def fake_slurm(directory: Path, monkeypatch: pytest.MonkeyPatch, **scripts: str) -> None:
    for name in ("squeue", "scontrol", "sacctmgr"):
        path = directory / name
        path.write_text(f"#!/bin/sh\n{scripts.get(name, '')}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")


def test_the_command_when_slurm_answers_prints_the_state_of_who_calls_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_slurm(tmp_path, monkeypatch, scontrol=f"case $* in *node*) cat <<'E'\n{NODES}E\n;; esac")
    monkeypatch.setattr(settings, "read", lambda: {"cluster": "titanic"})
    assert main.main("sstatus") == 0
    me = pwd.getpwuid(os.getuid()).pw_name
    assert capsys.readouterr().out == (
        f"titanic status:\nGPU usage 2/16\nFree nodes 2/4: n[2-3]\n\nJobs of {me}:\nNo jobs.\n"
    )


def test_the_command_when_slurm_is_silent_says_what_becomes_of_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_slurm(tmp_path, monkeypatch, squeue="echo squeue: error: Unable to contact slurm controller >&2; exit 1")
    assert main.main("sstatus") == 1
    found = capsys.readouterr()
    assert found.out == ""
    assert "sstatus: Slurm does not answer (squeue: error: Unable to contact slurm controller). Running" in found.err


@pytest.mark.parametrize(
    ("text", "values"), [('{"cluster": "lab"}', {"cluster": "lab"}), ("[]", {}), ("{", {}), (None, {})]
)
def test_settings_that_cannot_be_read_are_none(tmp_path: Path, text: str | None, values: dict[str, Any]) -> None:
    path = tmp_path / "settings"
    if text is not None:
        path.write_text(text)
    assert settings.read(str(path)) == values


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["n1"], "n1"),
        (["n3", "n1", "n2"], "n[1-3]"),
        (["n8", "n9", "n10"], "n[8-10]"),
        (["n08", "n09", "n10"], "n[08-10]"),
        (["n08", "n100", "n9"], "n08,n[9,100]"),
        (["gpu01", "gpu03", "login"], "gpu[01,03],login"),
        (["a", "b", "a"], "a,b"),
    ],
)
def test_names_are_folded_to_a_hostlist(names: list[str], text: str) -> None:
    assert fold(names) == text


class Terminal(io.StringIO):
    """A terminal, for what asks whether it is one."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("out", "environment", "is_on"),
    [
        (Terminal(), {"TERM": "xterm"}, True),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {"TERM": "xterm"}, False),
    ],
)
def test_colours_are_for_terminals_that_want_them(out: io.StringIO, environment: dict[str, str], is_on: bool) -> None:
    assert showing.Paint(out, environment)("x", showing.BOLD) == ("\033[1mx\033[0m" if is_on else "x")


def test_a_user_without_an_account_when_jobs_need_one_then_is_told_so() -> None:
    known = {"cluster": "titanic", "accounting": True, "needs_account": True}
    nothing = {**ANSWERS, "associations": Answer(0, "", "")}
    assert shown(state.state(ADA, nothing, (), known))[-1] == (
        "You are in no account of this cluster, and jobs need one; ask your administrators."
    )
    assert "no account" not in "\n".join(shown(state.state(ADA, ANSWERS, (), known)))
    assert "no account" not in "\n".join(shown(state.state(ADA, nothing, (), {**known, "needs_account": False})))
