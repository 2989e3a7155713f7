"""Slurm's commands as they are asked, and their answers with texts of hostile users in them."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Any

import pytest
from slurm_tables import environment, printed

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.client.commands import Table
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.nodes import states

FIELDS = ("JobArrayID", "UserName", "Name")
TEXTS = (
    "x\n--partition=main|RUNNING|slurm|main|1||None|slurmfab-gpu-check-n1",
    "\n\n",
    "\r\n7|root|x",
    "\x85\u2028\x0b\x0c\x1c7|root|x",
    "|0123456789ab|7|0123456789ab|root|0123456789ab|",
    "\x1b[2J\x1b]52;c;Y3VybA==\x07",
    "",
)


@pytest.mark.parametrize("text", TEXTS)
def test_a_job_whose_name_looks_like_other_jobs_when_read_is_one_job_with_that_name(text: str) -> None:
    table = commands.jobs(FIELDS)
    rows = [["6", "ann", text], ["8_[1-3%2]", "bob", "y"]]
    assert table.rows(printed(rows, table.argv, table.env).decode()) == rows


@pytest.mark.parametrize("text", TEXTS)
def test_a_node_whose_reason_looks_like_other_nodes_when_read_is_one_node_with_that_reason(text: str) -> None:
    table = commands.node_reasons()
    rows = [["n1", "down", text, "root"], ["n2", "idle", "none", "Unknown"]]
    assert table.rows(printed(rows, table.argv, table.env).decode()) == rows


def test_a_mark_when_guessed_from_an_earlier_question_is_wrong() -> None:
    first, second = commands.jobs(FIELDS), commands.jobs(FIELDS)
    rows = [["6", "mallory", f"x{first.mark}\n7{first.mark}root{first.mark}y"]]
    assert second.rows(printed(rows, second.argv, second.env).decode()) == rows


def test_a_mark_when_squeue_is_asked_is_nowhere_in_its_arguments() -> None:
    table = commands.jobs(FIELDS, "--states=all")
    assert table.mark in table.env["SQUEUE_FORMAT2"]
    assert table.mark.strip("|") not in " ".join(table.argv)


@pytest.mark.parametrize("shown", ["7", "7!ann!", "7!ann!x!\n8!", "7!ann!x!\nslurm_load_jobs"])
def test_an_answer_that_was_cut_off_when_read_is_an_error(shown: str) -> None:
    table = commands.jobs(FIELDS)
    with pytest.raises(ResourceFailed, match="squeue answered with other fields"):
        table.rows(shown.replace("!", table.mark))


def test_a_queue_without_jobs_when_read_is_empty() -> None:
    assert commands.jobs(FIELDS).rows("") == []


@pytest.mark.parametrize("text", ["1", "12_3", "12_[4-9]", "12_[1,3-7:2%5]", "12+1"])
def test_what_squeue_calls_a_job_is_an_id(text: str) -> None:
    assert commands.is_job_id(text)


@pytest.mark.parametrize(
    "text",
    ["", "--partition=main", "-u", "1 2", "1,2", "1\n", "1\n2", "1_", "1_[]", "1.0", "1_[1;2]", "\u0663", "1|", "all"],
)
def test_what_squeue_calls_no_job_is_no_id_and_no_command_takes_it(text: str) -> None:
    assert not commands.is_job_id(text)
    for command in (commands.recorded, lambda one: commands.job_states([one]), lambda one: commands.cancel([one])):
        with pytest.raises(ResourceFailed, match="is not the id of a job"):
            command(text)


def test_jobs_when_cancelled_are_named_behind_the_options_and_without_their_limit() -> None:
    assert commands.cancel(["12_[1-20%2]", "3"]) == ("scancel", "--quiet", "--", "12_[1-20]", "3")


def test_progress_of_a_job_when_read_has_its_exit_code_in_slurms_form() -> None:
    shown = "7|COMPLETED|None|n1|0|09:00|\n8|FAILED|NonZeroExitCode|n[1-2]|1792|09:00|\n9|CANCELLED|None||15|N/A|\n"
    found = commands.states(shown)
    assert found["7"] == commands.JobState("COMPLETED", "None", "n1", "0:0", "09:00")
    assert [found[number].code for number in ("8", "9")] == ["7:0", "0:15"]
    assert commands.states("") == {}


def test_reservations_with_line_breaks_and_other_nodes_in_their_texts_when_read_keep_their_own_nodes() -> None:
    shown = (
        "ReservationName=a b Nodes=n9 StartTime=1 EndTime=2 Duration=3 Nodes=n[1-2] NodeCnt=2 Comment=x Nodes=n9\n"
        "ReservationName=c\nReservationName=d StartTime=1 EndTime=2 Duration=3 Nodes=n3 NodeCnt=1\n"
        "ReservationName=licences StartTime=1 EndTime=2 Duration=3 Nodes=(null) NodeCnt=0\n"
    )
    assert commands.reserved_nodes(shown) == {"a b Nodes=n9": "n[1-2]", "c\nReservationName=d": "n3"}


def test_controllers_when_one_is_down_are_read_with_their_roles() -> None:
    shown = "Slurmctld(primary) at a is DOWN\nSlurmctld(backup1) at b is UP\n"
    assert commands.controllers(shown) == [("primary", "a", False), ("backup1", "b", True)]
    assert commands.any_answers(shown)
    assert not commands.any_answers("x Slurmctld(primary) at a is UP\n")


def test_a_node_whose_reason_has_unusual_line_ends_when_read_makes_no_second_node() -> None:
    forged = "fan\x0b\x1c\u2028\x85NodeName=n2 State=IDLE+DRAIN"
    shown = f"NodeName=n1 State=DOWN Reason={forged} [root@2026-11-21T09:00:00]\nNodeName=n2 State=IDLE CPUTot=2\n"
    assert {one["NodeName"]: one["State"] for one in states.records(shown)} == {"n1": "DOWN", "n2": "IDLE"}


def test_settings_of_a_site_for_its_users_commands_when_asked_do_not_reach_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("SQUEUE_FORMAT", "SQUEUE_USERS", "SINFO_FORMAT", "SCANCEL_STATE", "SLURM_TIME_FORMAT", "SLURM_CONF"):
        monkeypatch.setenv(name, "x")
    seen = Context().must(["env"])
    assert [line for line in seen.splitlines() if line.endswith("=x")] == []


def test_a_table_when_asked_has_its_format_in_the_environment() -> None:
    class Squeue(Context):
        """A host that answers in the format that it was asked for."""

        def run(self, argv: Sequence[str], *rest: Any, **more: Any) -> subprocess.CompletedProcess[bytes]:
            return subprocess.CompletedProcess(argv, 0, printed([["1", "x\n2"]], argv, environment(rest, more)), b"")

    assert Table(("squeue", "--all"), ("JobID", "Name")).ask(Squeue()) == [["1", "x\n2"]]
