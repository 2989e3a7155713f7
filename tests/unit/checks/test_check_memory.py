"""Questions that are put once in a run, and the daemons of a host as one of them shows them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from ruled_shells import RuledShell, daemons_of, unit

from slurmfab.commands.checks import daemons, test_munge
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.shell import CommandResult, NoAnswer


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


def test_modules_of_testinfra_when_several_checks_have_a_question_then_ask_it_once() -> None:
    shell = RuledShell(unit("munge"))
    host = CheckedHost("n1", shell)
    assert host.service("munge").is_running
    assert host.as_found.service("munge").is_running
    assert shell.commands.count("systemctl is-active munge") == 1


def test_units_with_line_breaks_in_a_command_are_read_all_the_same() -> None:
    broken = "ExecStart={ argv[]=sh -c echo\necho ; }\nMainPID=7\n"
    host = CheckedHost("n1", RuledShell({"^systemctl show x$": broken}))
    assert host.service("x").systemd_properties["MainPID"] == "7"


def here(**wanted: Any) -> CheckedHost:
    return CheckedHost("n1", RuledShell(daemons_of(**wanted)))


def test_daemons_when_they_run_then_have_a_start_and_ports() -> None:
    host = here(start=100, changes="650.5 /etc/slurm/slurm.conf\n100 /etc/slurm/gres.conf")
    assert daemons.start_of(host, "slurmd") == pytest.approx(600)
    assert daemons.newer_files(host, "slurmd") == ["/etc/slurm/slurm.conf"]
    assert {6817, 6818} <= daemons.listening_ports(host)


def test_daemons_when_they_do_not_run_then_have_no_start() -> None:
    assert daemons.start_of(here(start=None), "slurmd") is None


def test_daemons_when_a_signal_has_stopped_one_then_that_one_is_frozen() -> None:
    host = here(stopped="munge")
    assert [unit for unit in ("munge", "slurmd") if daemons.is_frozen(host, unit)] == ["munge"]


@pytest.mark.parametrize(
    ("state", "starts"),
    [("enabled", True), ("static", True), ("disabled", False), ("masked", False), ("", False)],
)
def test_unit_starts_at_boot_as_systemctl_is_enabled_says(state: str, starts: bool) -> None:
    host = CheckedHost("n1", RuledShell(unit("slurmd", UnitFileState=state)))
    assert daemons.starts_at_boot(host, "slurmd") is starts


def test_question_when_the_shell_cannot_answer_it_then_that_is_told() -> None:
    host = CheckedHost("n1", RuledShell({"^systemctl": CommandResult(2, b"", b"sh: out of memory\n")}))
    with pytest.raises(AssertionError, match="`systemctl show slurmd` fails on n1: sh: out of memory"):
        daemons.starts_at_boot(host, "slurmd")


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
    host = CheckedHost("n1", RuledShell(daemons_of(key=key)))
    if not words:
        test_munge.test_key_is_safe(host)
        return
    with pytest.raises(AssertionError, match=words):
        test_munge.test_key_is_safe(host)


def test_a_unit_when_several_checks_look_at_it_then_its_properties_are_read_once() -> None:
    host = CheckedHost("n1", RuledShell(daemons_of()))
    first, again = (host.service("munge").systemd_properties for _ in range(2))
    assert first is again
    assert first["ActiveState"] == "active"
    assert host.service("slurmd").systemd_properties is not first
