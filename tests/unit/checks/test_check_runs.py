"""A run of the checks over stand-in hosts: what runs where, what is left out, and what comes of it."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from ruled_shells import daemons_of

from slurmfab.base.errors import InputError, LoginRefused, Unreachable
from slurmfab.base.json_output import as_json
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.checks import runner
from slurmfab.commands.checks.display import Display
from slurmfab.commands.checks.results import Verdict
from slurmfab.commands.checks.runner import CHECKS, ORDER, verify
from slurmfab.commands.checks.shell import CommandResult, NoAnswer, TooSlow
from slurmfab.core.engine.session import Output

Look = Callable[..., Verdict]
GONE = "no answer from 10.0.0.3 port 22 within 10 s."


def outcomes(verdict: Verdict, check: str) -> dict[str, str]:
    return {result.host: result.outcome for result in verdict.results if result.check == check}


def test_run_when_all_is_well_passes_on_every_host_and_exits_0(look: Look) -> None:
    verdict = look("ssh", "configuration", "nodes", "jobs")
    assert [result for result in verdict.results if result.outcome != "passed"] == []
    assert outcomes(verdict, "job_runs") == {"n1": "passed", "n2": "passed"}
    assert outcomes(verdict, "files_are_the_controllers") == {"n1": "passed", "n2": "passed"}
    assert outcomes(verdict, "job_runs_on_many_nodes") == {"ctl": "passed"}
    assert verdict.exit_code == 0


def test_run_when_the_user_has_options_for_pytest_in_the_environment_does_not_take_them(
    look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no_such_plugin -k nothing")
    monkeypatch.setenv("PYTEST_PLUGINS", "no_such_plugin")
    assert look("ssh").exit_code == 0


def test_run_when_a_node_is_unreachable_tells_it_once_and_leaves_its_other_checks_out(look: Look, shells: dict) -> None:
    shells["n2"] = Unreachable("n2", GONE)
    verdict = look("ssh", "configuration", "jobs")
    failed = verdict.having("failed")
    assert [(result.host, result.check, result.cause) for result in failed] == [("n2", "host_is_reachable", GONE)]
    left = {result.cause for result in verdict.having("not run") if result.host == "n2"}
    assert left == {"n2 is unreachable."}
    assert outcomes(verdict, "files_are_no_links")["n2"] == "not run"
    assert outcomes(verdict, "files_are_links_to_the_shared_directory") == {}, "it says nothing of this cluster"
    assert outcomes(verdict, "job_runs")["n1"] == "passed"
    assert verdict.exit_code == 3


def test_run_when_a_node_has_been_too_slow_tells_it_once_and_asks_it_nothing_more(look: Look, shells: dict) -> None:
    class Slow:
        """A shell whose patience is used up after its first command."""

        asked = 0

        def run(self, command: str, stdin: str = "", seconds: float = 30.0) -> CommandResult:  # noqa: ARG002
            self.asked += 1
            if self.asked > 1:
                raise TooSlow("n2", "it is too slow.")
            return CommandResult(0)

    shells["n2"] = Slow()
    verdict = look("ssh", "configuration", "jobs")
    assert {(result.host, result.cause) for result in verdict.having("failed")} == {("n2", "it is too slow.")}
    left = {result.cause for result in verdict.having("not run") if result.host == "n2"}
    assert left == {"n2 is not asked any more: it has been slow."}
    assert outcomes(verdict, "job_runs")["n1"] == "passed"


def test_run_when_the_controller_is_unreachable_runs_nothing_that_needs_it(look: Look, shells: dict) -> None:
    shells["ctl"] = Unreachable("ctl", "nothing listens at 10.0.0.1 port 22.")
    verdict = look("ssh", "nodes", "jobs")
    assert {result.outcome for result in verdict.results if result.group in ("ssh", "nodes", "jobs")} == {"not run"}
    assert {result.cause for result in verdict.results if result.group == "nodes"} == {"ctl is unreachable."}
    assert verdict.exit_code == 3


def test_run_when_slurmctld_is_down_fails_there_and_waits_for_no_command(look: Look, shells: dict) -> None:
    shells["ctl"].rules["scontrol ping"] = CommandResult(1, b"Slurmctld(primary) at ctl is DOWN\n*****\n")
    verdict = look("nodes", "jobs")
    assert outcomes(verdict, "controller_answers")["ctl"] == "failed"
    causes = {result.cause for result in verdict.results if result.group == "nodes"}
    assert causes == {"slurmctld does not answer on ctl."}
    assert not any("show node" in command or "srun" in command for command in shells["ctl"].commands)
    assert verdict.exit_code == 1


def test_run_when_a_signal_has_stopped_munged_says_so_once_and_asks_nothing_that_waits_for_it(
    look: Look, shells: dict
) -> None:
    shells["n1"].rules |= daemons_of(stopped="munge")
    verdict = look("daemons", "munge", "slurmctld_runs_with")
    assert outcomes(verdict, "munged_runs") == {"ctl": "passed", "n1": "failed", "n2": "passed"}
    for check in ("controller_answers", "credential_of_the_controller_is_believed", "slurmctld_runs_with_this_file"):
        assert outcomes(verdict, check)["n1"] == "not run"
        assert outcomes(verdict, check)["n2"] == "passed"
    waits = [one for one in shells["n1"].commands if one.startswith(("munge", "unmunge", "scontrol ping"))]
    assert waits == []


def test_run_when_a_node_is_unsound_sends_no_job_there(look: Look, shells: dict) -> None:
    shells["n2"].rules["unmunge"] = CommandResult(15, b"STATUS:           Invalid credential (15)\n")
    verdict = look("credential", "jobs")
    assert outcomes(verdict, "credential_of_the_controller_is_believed") == {"n1": "passed", "n2": "failed"}
    assert outcomes(verdict, "job_runs") == {"n1": "passed", "n2": "not run"}
    assert not any("srun" in command and "n2" in command for command in shells["ctl"].commands)


def test_run_when_the_connection_breaks_midway_fails_once_and_goes_on_elsewhere(look: Look, shells: dict) -> None:
    def breaks(_: str) -> str:
        raise Unreachable("n1", "the connection was lost.")

    shells["n1"].rules["ssh -o BatchMode"] = breaks
    verdict = look("ssh", "configuration")
    causes = [(result.host, result.cause) for result in verdict.having("failed")]
    assert causes == [("n1", "the connection was lost.")]
    assert outcomes(verdict, "files_are_the_controllers") == {"n1": "not run", "n2": "passed"}


@pytest.mark.parametrize("trouble", [NoAnswer("n1", "gave no answer"), LoginRefused("n1", "its login shell ends")])
def test_run_when_a_login_runs_no_command_tells_it_once_and_asks_the_host_nothing_more(
    look: Look, shells: dict, trouble: Exception
) -> None:
    def fails(_: str) -> str:
        raise trouble

    shells["n1"].rules = {".": fails}
    verdict = look("reachable", "daemons", "configuration")
    assert [(result.host, result.check) for result in verdict.having("failed")] == [("n1", "host_is_reachable")]
    assert len(shells["n1"].commands) == 1
    assert verdict.exit_code == 3


def test_run_when_a_host_has_another_release_says_so_once(look: Look, shells: dict) -> None:
    shells["n1"].rules["scontrol --version"] = "slurm-wlm 22.05.8\n"
    shells["n1"].rules["scontrol ping"] = CommandResult(1, b"", b"scontrol: error: Protocol version mismatch\n")
    verdict = look("release", "daemons", "configuration", "nodes", "jobs")
    failed = verdict.having("failed")
    assert [(result.host, result.check) for result in failed] == [("n1", "release_is_the_controllers")]
    assert "its Slurm is 22.05.8, and slurmctld on ctl is 24.11.5, which talks to 23.02" in failed[0].cause
    assert failed[0].repair.startswith("fab upgrade --to 24.11 --hosts n1")
    left = {result.cause for result in verdict.having("not run") if result.host == "n1"}
    assert left == {"n1 has a Slurm that does not work with the controller's."}


def test_run_when_a_host_has_an_older_release_within_the_window_is_green_with_a_note(
    look: Look, shells: dict, capsys: pytest.CaptureFixture[str]
) -> None:
    shells["n1"].rules["scontrol --version"] = "slurm-wlm 23.11.4\n"
    verdict = look("release", "configuration", "nodes", "jobs")
    assert verdict.exit_code == 0
    assert outcomes(verdict, "job_runs") == {"n1": "passed", "n2": "passed"}
    told = [(result.host, result.cause) for result in verdict.having("passed") if result.cause]
    assert [host for host, _ in told] == ["n1"]
    assert told[0][1].startswith("it has Slurm 23.11.4, ctl has 24.11.5: that works")
    Display(sys.stdout).show(verdict)
    assert "note    n1: it has Slurm 23.11.4" in capsys.readouterr().out


HISTORY = """
Start-Date: 2026-11-23  18:26:14
Commandline: apt-get upgrade
Upgrade: slurmd:amd64 (24.11.5-4, 26.05.5-1), libx1:amd64 (2.12.0-4, 2.15-2), vi:all (8, 9), libx1-plugins:all (1-1, 2)
End-Date: 2026-11-23  18:26:19

Start-Date: 2026-11-23  18:30:00
Upgrade: tzdata:all (2025b-4, 2026a-1)
End-Date: 2026-11-23  18:30:01
"""
REFUSED = b" slurmd : Depends: libx1 (< 2.12.0A) but 2.15.0-2 is to be installed"
REFUSED_NEXT = b" libx1-plugins : Depends: libx1 (>= 2.15) but 2.12.0-4 is to be installed"


def test_run_when_apt_has_upgraded_a_node_tells_the_command_that_apt_accepts(look: Look, shells: dict) -> None:
    shells["n1"].rules["scontrol --version"] = "slurm-wlm 26.05.5\n"
    shells["n1"].rules["dpkg-query"] = "slurmd 26.05.5-1 installed\nslurm-client 26.05.5-1 installed\nsackd 1 not\n"
    shells["ctl"].rules["dpkg-query"] = "slurmctld 24.11.5-4 installed\nslurm-client 24.11.5-4 installed\n"
    shells["n1"].rules["history.log"] = HISTORY

    def simulated(command: str) -> CommandResult:
        if "libx1-plugins=1-1" in command:
            return CommandResult(0)
        return CommandResult(100, REFUSED_NEXT if "libx1=2.12.0-4" in command else REFUSED)

    shells["n1"].rules["apt-get install"] = simulated
    verdict = look("release", "nodes")
    (failed,) = verdict.having("failed")
    assert "refuses what a newer slurmd or command sends" in failed.cause
    assert failed.repair.startswith(
        "apt-get install --allow-downgrades slurmd=24.11.5-4 slurm-client=24.11.5-4 libx1=2.12.0-4 "
        "libx1-plugins=1-1 there; then fab deploy --hosts n1."
    )


@pytest.mark.parametrize(
    ("running", "words"),
    [
        ("slurmd 24.11.3", "slurmd still runs the program of 24.11.3, which was replaced on disk by 24.11.5."),
        ("slurmctld 23.11.4", "fab upgrade --to 24.11, which saves it first"),
    ],
)
def test_run_when_a_daemon_runs_a_replaced_program_tells_whether_a_restart_is_enough(
    look: Look, shells: dict, running: str, words: str
) -> None:
    for host in ("ctl", "n1"):
        shells[host].rules["slurm[a-z]* -V"] = "slurm-wlm 24.11.5\n"
    name, version = running.split()
    pid = re.search(r"MainPID=(\d+)", shells["n1"].rules[f"^systemctl show {name}$"])
    gone = {f"^realpath /proc/{pid[1]}/exe$": f"/usr/sbin/{name} (deleted)\n", f"^tr .*/proc/{pid[1]}/exe": version}
    shells["n1"].rules |= gone
    verdict = look("release")
    (failed,) = verdict.having("failed")
    assert (failed.host, failed.check) == ("n1", "daemons_run_what_is_installed")
    assert words in f"{failed.cause} {failed.repair}"


def test_run_when_slurmd_is_dead_on_a_node_says_that_no_job_runs_on_all_nodes(look: Look, shells: dict) -> None:
    shells["n2"].rules |= daemons_of(start=None)
    verdict = look("daemons", "jobs")
    (failed,) = (result for result in verdict.having("failed") if result.check == "job_runs_on_many_nodes")
    assert "no job runs on n2 now (n2: it has failed that " in failed.cause
    assert not any("srun" in command and "n2" in command for command in shells["ctl"].commands)


def test_run_when_a_node_is_drained_says_that_no_job_runs_on_all_nodes(look: Look, shells: dict) -> None:
    first, second = shells["ctl"].rules["scontrol .*show node$"].splitlines(keepends=True)
    shells["ctl"].rules["scontrol .*show node$"] = first + second.replace("IDLE", "IDLE+DRAIN")
    verdict = look("many_nodes")
    assert [result.cause for result in verdict.having("failed")] == [
        "no job runs on n2 now (n2: its state in Slurm is IDLE+DRAIN), so none runs on all nodes."
    ]


def test_run_when_a_node_is_unreachable_cannot_tell_whether_a_job_runs_on_all(look: Look, shells: dict) -> None:
    shells["n2"] = Unreachable("n2", GONE)
    assert outcomes(look("many_nodes"), "job_runs_on_many_nodes") == {"ctl": "not run"}


def test_run_leaves_out_what_does_not_apply_in_the_results_and_in_the_junit_file(look: Look, tmp_path: Path) -> None:
    verdict = look("configuration", "site", "nodes", junit=tmp_path / "checks.xml")
    assert outcomes(verdict, "files_are_no_links") == {"ctl": "passed", "n1": "passed", "n2": "passed"}
    assert outcomes(verdict, "files_are_links_to_the_shared_directory") == {}
    assert {result.group for result in verdict.results} >= {"configuration", "nodes"}
    assert [result for result in verdict.results if result.outcome != "passed" or result.group == "site"] == []
    suite = ElementTree.parse(tmp_path / "checks.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("skipped")) == (str(len(verdict.results)), "0")


def test_run_when_jobs_ran_cancels_what_is_left_of_them_by_name(look: Look, shells: dict) -> None:
    look("job_runs")
    names = {word for command in shells["ctl"].commands for word in command.split() if word.startswith("--job-name=")}
    assert len(names) == 1
    assert f"scancel --quiet --name={names.pop().removeprefix('--job-name=')}" in shells["ctl"].commands


def test_check_on_many_hosts_runs_on_all_of_them_at_the_same_time(look: Look, shells: dict) -> None:
    discovery = threading.Barrier(3, timeout=20)

    def waits_for_the_others(_: str) -> str:
        discovery.wait()
        return ""

    for shell in shells.values():
        shell.rules["^true$"] = waits_for_the_others
    verdict = look("ssh")
    assert outcomes(verdict, "host_is_reachable") == {"ctl": "passed", "n1": "passed", "n2": "passed"}


def test_run_when_a_host_answers_late_then_the_others_go_on_and_the_results_are_in_order(
    look: Look, shells: dict
) -> None:
    is_further = threading.Event()
    n1_answers = shells["n1"].rules["sha256sum .*munge.key"]

    def further(_: str) -> str:
        is_further.set()
        return str(n1_answers)

    def late(_: str) -> str:
        assert is_further.wait(20)
        return ""

    shells["n1"].rules["sha256sum .*munge.key"] = further
    shells["n2"].rules["^true$"] = late
    verdict = look("reachable", "munge", hosts=("n1", "n2"))
    assert outcomes(verdict, "host_is_reachable") == {"n1": "passed", "n2": "passed"}
    checks = list(dict.fromkeys(f"{one.group}.{one.check}" for one in verdict.results))
    assert checks[0] == "reachable.host_is_reachable"
    assert [one.host for one in verdict.results if one.check == "key_is_the_controllers"] == ["n1", "n2"]


def test_run_limited_to_a_node_looks_at_it_alone_with_the_controller_as_partner(look: Look) -> None:
    verdict = look("ssh", "jobs", hosts=("n2",))
    assert {result.host for result in verdict.results} == {"n2"}


def test_run_when_a_word_chooses_nothing_asks_nobody_and_names_the_groups(look: Look, shells: dict) -> None:
    with pytest.raises(InputError, match=r"--only mungo: no check is called that\. Groups of checks: .*munge"):
        look("mungo", "ssh")
    assert not any(shell.commands for shell in shells.values())


def test_run_when_the_cluster_was_never_deployed_is_wrong_input(known: Inventory) -> None:
    with pytest.raises(InputError, match="never been deployed"):
        verify(replace(known, lock=Lock()), ("ctl",), opener=lambda *_: pytest.fail("nobody shall be asked"))


def test_junit_file_has_one_case_per_check_and_host_with_our_words(look: Look, shells: dict, tmp_path: Path) -> None:
    right = shells["ctl"].rules["sha256sum slurm.conf"]
    shells["n1"].rules["sha256sum slurm.conf"] = "ee  slurm.conf\n" + right.partition("\n")[2]
    shells["n2"] = Unreachable("n2", GONE)
    look("files_are", junit=tmp_path / "checks.xml")
    suite = ElementTree.parse(tmp_path / "checks.xml").getroot()[0]
    cases = {case.get("name"): case for case in suite}
    failure = cases["test_files_are_the_controllers[n1]"].find("failure")
    assert failure is not None
    assert failure.get("message") == ("n1: changed file: slurm.conf differs from ctl's. Repair: fab deploy --hosts n1")
    assert cases["test_files_are_the_controllers[n2]"].find("skipped") is not None


def test_results_and_the_junit_file_name_the_failure_from_which_others_follow(
    look: Look, shells: dict, tmp_path: Path
) -> None:
    shells["n1"].rules |= daemons_of(stopped="munge")
    down = "NodeName=n1 State=DOWN*+NOT_RESPONDING Reason=gone\n"
    shells["ctl"].rules = {"scontrol .*show node .*n1": down, **shells["ctl"].rules}
    verdict = look("munged_runs", "node_takes_jobs", junit=tmp_path / "checks.xml")
    because = {result.check: result.because for result in verdict.having("failed")}
    assert because == {"munged_runs": "", "node_takes_jobs": "daemons.munged_runs on n1"}
    assert [one["because"] for one in as_json(verdict)["checks"] if one["because"]] == ["daemons.munged_runs on n1"]
    suite = ElementTree.parse(tmp_path / "checks.xml").getroot()[0]
    messages = [str(failure.get("message")) for failure in suite.iter("failure")]
    assert [message.rpartition(" Because of: ")[2] for message in messages if "Because of" in message] == [
        "daemons.munged_runs on n1"
    ]


def test_texts_of_hosts_steer_no_terminal_from_the_junit_file(look: Look, shells: dict, tmp_path: Path) -> None:
    shells["n2"] = Unreachable("n2", "gone \x9b2J\u202e\x1b]52;c;eA==\x07")
    look("reachable", junit=tmp_path / "checks.xml")
    text = (tmp_path / "checks.xml").read_text()
    assert r"n2: gone \x9b2J\u202e\x1b]52;c;eA==\x07" in text
    assert not set(text) & set("\x9b\u202e\x1b\x07")


def test_every_file_of_checks_has_its_place_in_the_order() -> None:
    assert sorted(ORDER) == sorted(path.stem.removeprefix("test_") for path in CHECKS.glob("test_*.py"))


@pytest.mark.parametrize("is_part", [False, True], ids=["alone", "in-an-upgrade"])
def test_check_when_standard_output_is_for_json_then_its_text_is_elsewhere_and_a_part_of_a_command_has_no_json(
    known: Inventory, shells: dict, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], is_part: bool
) -> None:
    monkeypatch.setattr(runner.loading, "load_named", lambda _: known)
    monkeypatch.setattr(
        runner, "opener_of", lambda _: lambda _known, hosts: nullcontext({one: shells[one] for one in hosts})
    )
    runner.check("", "", "munge", "", Output(json="-"), writes_json=not is_part)
    printed = capsys.readouterr()
    assert re.search(r"\d+ checks passed", printed.err)
    assert (printed.out == "") if is_part else json.loads(printed.out)["cluster"] == "tiny"
