"""Questions that are put once in a run, and the daemons of a host as one of them shows them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from ruled_shells import RuledShell, daemons_of

from slurmfab.commands.checks import daemons, test_munge
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.shell import CommandResult, NoAnswer

UNKNOWN = "LoadState=not-found\nActiveState=inactive\nResult=success\nUnitFileState=\nMainPID=0\nId=slurmdbd.service"


def test_question_when_many_checks_have_it_at_once_then_is_put_once() -> None:
    asked = threading.Event()

    def answer(_: str) -> str:
        asked.wait(10)
        return "24.11\n"

    shell = RuledShell({"--version": answer})
    host = CheckedHost("n1", shell)
    with ThreadPoolExecutor(max_workers=4) as pool:
        answers = [pool.submit(host.as_found.ask, "scontrol --version") for _ in range(4)]
        asked.set()
        assert {one.result() for one in answers} == {"24.11"}
    assert shell.commands == ["scontrol --version"]


def test_question_when_it_hung_once_then_nobody_waits_for_it_again() -> None:
    def hangs(_: str) -> CommandResult:
        raise NoAnswer("n1", "`scontrol ping` gave no answer within 30 s.")

    shell = RuledShell({"ping": hangs})
    host = CheckedHost("n1", shell)
    for _ in range(2):
        with pytest.raises(NoAnswer):
            host.as_found.run("scontrol ping")
    assert len(shell.commands) == 1


def test_host_when_asked_anew_then_tells_what_is_so_now() -> None:
    states = iter(("idle\n", "down\n"))
    host = CheckedHost("ctl", RuledShell({"sinfo": lambda _: next(states)}))
    assert host.as_found.ask("sinfo") == "idle"
    assert host.ask("sinfo") == "down"
    assert host.as_found.ask("sinfo") == "idle"


def found(answer: str) -> daemons.Daemons:
    return daemons.daemons(CheckedHost("n1", RuledShell({"^units=": answer})))


def test_daemons_when_they_run_then_have_a_start_and_ports() -> None:
    here = found(daemons_of(start=100, changes="650.5 /etc/slurm/slurm.conf\n100 /etc/munge/munge.key"))
    assert here.unit("slurmd").is_running
    assert here.start("slurmd") == pytest.approx(600)
    assert here.changes == {"/etc/slurm/slurm.conf": 650.5, "/etc/munge/munge.key": 100}
    assert {6817, 6818} <= here.ports
    assert here.has_munge_socket


def test_daemons_when_they_do_not_run_then_have_no_start() -> None:
    here = found(daemons_of(start=None))
    assert not here.unit("slurmd").is_running
    assert here.start("slurmd") is None
    assert not here.has_munge_socket


def test_daemons_when_systemd_does_not_know_one_then_it_neither_runs_nor_starts_at_boot() -> None:
    shown, rest = daemons_of().split("\n----\n", 1)
    here = found("\n\n".join([*shown.split("\n\n")[:2], UNKNOWN]) + "\n----\n" + rest)
    assert (here.unit("slurmdbd").load, here.unit("slurmdbd").is_enabled) == ("not-found", False)
    assert here.unit("slurmd").load == "not-found"


@pytest.mark.parametrize(
    ("state", "starts"),
    [("enabled", True), ("static", True), ("disabled", False), ("masked", False), ("", False)],
)
def test_unit_starts_at_boot_as_systemctl_is_enabled_says(state: str, starts: bool) -> None:
    assert daemons.Unit(boot=state).is_enabled is starts


def test_question_when_the_shell_cannot_answer_it_then_that_is_told() -> None:
    refusal: Any = CommandResult(2, b"", b"sh: out of memory\n")
    host = CheckedHost("n1", RuledShell({"^units=": refusal}))
    with pytest.raises(AssertionError, match="its daemons cannot be looked at: sh: out of memory"):
        daemons.daemons(host)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("", "there is no /etc/munge/munge.key"),
        ("root munge 400", "belongs to root:munge instead of munge:munge"),
        ("munge munge 440", "has the mode 0440 instead of 0400; others could read it"),
        ("munge munge 400", ""),
    ],
)
def test_munge_key_when_it_is_not_munges_alone_then_is_told(key: str, words: str) -> None:
    host = CheckedHost("n1", RuledShell({"^units=": daemons_of(key=key)}))
    if not words:
        test_munge.test_key_is_safe(host)
        return
    with pytest.raises(AssertionError, match=words):
        test_munge.test_key_is_safe(host)
