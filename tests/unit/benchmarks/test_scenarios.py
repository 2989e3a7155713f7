"""The scenarios of the benchmarks and their command line."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import __main__ as program
from benchmarks import light_hosts, stand_ins
from benchmarks.access import Access, Place, each
from benchmarks.clusters import Labs
from benchmarks.measuring import Measured, Way
from benchmarks.peers import Tools
from benchmarks.programs import output_of
from benchmarks.scenarios import SCENARIOS, Setting
from slurmfab import lab
from slurmfab.lab import LabSpec
from slurmfab.lab.state import LabState

ROWS = (
    "first deployment of untouched hosts, 1",
    "first deployment of untouched hosts with accounting",
    "nothing to change, 5 hosts",
    "nothing to change, 16 hosts",
    "one slurm.conf value changed",
    "live at 4 and at 64 slurmd",
    "add-node",
    "check-cluster (daemons, keys, hashes, states), 5",
    "check-cluster (daemons, keys, hashes, states), 16",
    "while 40 jobs wait",
    "lab-up",
    "64 lightweight hosts",
    "512 sshd endpoints",
    "64, 512 and 2,000 stand-ins",
    "10,000 stand-ins",
    "10,000 nodes",
    "start of the program",
    "20 ms",
    "100 ms",
)


def test_scenarios_when_listed_then_cover_all_that_is_promised() -> None:
    titles = [scenario.title for scenario in SCENARIOS.values()]
    assert [row for row, title in zip(ROWS, titles, strict=True) if row not in title] == []


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_when_looked_at_then_is_bounded_and_has_a_target(name: str) -> None:
    scenario = SCENARIOS[name]
    assert re.fullmatch(r"[a-z0-9-]{1,18}", name)
    assert 0 < scenario.minutes <= 30
    assert scenario.rounds >= 3
    assert any(target.at_most is not None for target in scenario.targets)


@pytest.mark.parametrize(("suite", "name"), [("trixie", "add-node"), ("bookworm", "add-node-bookworm")])
def test_a_result_when_measured_on_another_suite_then_stands_beside_the_usual_one(
    suite: str, name: str, tmp_path: Path
) -> None:
    options = program.Options(("add-node",), 1, tmp_path, suite, "b", with_peers=False)
    setting = Setting(Labs("b", suite, tmp_path, print), (), tmp_path, print, 1)
    made = program.result_of(SCENARIOS["add-node"], Measured(), {}, Tools(), setting, options)
    assert (made.scenario, made.title.endswith(", bookworm")) == (name, suite == "bookworm")


def test_a_scenario_that_nobody_knows_when_asked_for_then_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        program.main(["no-such"])
    assert ended.value.code == 2
    assert "no such scenario: no-such (known: first-deployment, " in capsys.readouterr().err


def test_a_lab_prefix_that_leaves_no_room_when_given_then_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        program.main(["--lab", "toolong"])
    assert "--lab toolong" in capsys.readouterr().err


def test_a_scenario_with_hosts_when_this_machine_cannot_have_any_then_is_not_measured_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lab, "obstacle", lambda: "A lab needs root: run the command with sudo.")
    code = program.main(["no-change-5", "--results", str(tmp_path), "--no-report"])
    assert code == 1
    assert "no-change-5: not measured. A lab needs root" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_ended_by_hand_takes_everything_down_and_says_so_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tidied: list[str] = []

    def interrupted(_: Setting) -> Iterable[Way]:
        raise KeyboardInterrupt

    scenario = replace(SCENARIOS["start"], ways=interrupted, tidy=lambda _: tidied.append("start"))
    monkeypatch.setitem(SCENARIOS, "start", scenario)
    assert program.main(["start", "--results", str(tmp_path), "--no-report"]) == program.INTERRUPTED
    assert tidied == ["start"]
    assert "Ended by Ctrl-C" in capsys.readouterr().err


def test_the_start_of_the_program_when_measured_then_leaves_a_result(tmp_path: Path) -> None:
    assert program.main(["start", "--rounds", "1", "--results", str(tmp_path), "--no-report"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["start.json"]


@pytest.fixture
def two_hosts(tmp_path: Path) -> Access:
    keys = {"ssh-ed25519": "AAAA"}
    places = (Place("ctl", "10.1.1.10", 22, keys), Place("n1", "127.0.0.1", 2201, keys, "10.1.1.11"))
    return Access(places, tmp_path / "key", tmp_path / "access").write()


def test_hosts_when_openssh_reads_about_them_then_have_their_address_port_and_key(two_hosts: Access) -> None:
    shown = output_of(["ssh", "-G", "-F", str(two_hosts.config), "n1"]).splitlines()
    assert {"hostname 127.0.0.1", "port 2201", "user root", f"identityfile {two_hosts.key}"} <= set(shown)
    assert two_hosts.known_hosts.read_text() == "10.1.1.10 ssh-ed25519 AAAA\n[127.0.0.1]:2201 ssh-ed25519 AAAA\n"


def test_a_command_for_each_host_when_run_then_its_words_reach_one_client_as_they_are(
    two_hosts: Access, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = tmp_path / "bin" / "ssh"
    client.parent.mkdir()
    client.write_text(f'#!/bin/sh\nfor word; do :; done\nprintf "%s" "$word" >"{tmp_path}/said-$$"\n')
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{client.parent}:/usr/bin:/bin")
    each({"ctl": "echo 'a  b' && true", "n1": "exit 0"}, two_hosts)
    assert sorted(path.read_text() for path in tmp_path.glob("said-*")) == ["echo 'a  b' && true", "exit 0"]


@pytest.mark.parametrize(
    ("count", "namespaces", "ports"), [(4, 4, {22}), (8, 2, {2200, 2201, 2202, 2203})], ids=["own", "shared"]
)
def test_lightweight_hosts_when_spread_then_no_two_listen_at_the_same_place(
    count: int, namespaces: int, ports: set[int]
) -> None:
    spec = LabSpec(name="x", nodes=namespaces - 1)
    places = tuple(light_hosts.spread(LabState(spec, "10.9.8.0/24", "/none", (), "/none"), count, {}))
    assert len({(place.address, place.port) for place in places}) == len({place.behind for place in places}) == count
    assert {place.port for place in places} == ports
    assert [place.name for place in places[:3]] == ["ctl", "n1", "n2"]


def test_stand_ins_when_installed_then_say_what_they_are_and_replace_links_instead_of_what_they_lead_to(
    tmp_path: Path,
) -> None:
    real = tmp_path / "real"
    real.write_text("real")
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/sinfo").symlink_to(real)
    stand_ins.install(tmp_path)
    assert real.read_text() == "real"
    for name in stand_ins.PROGRAMS:
        assert stand_ins.MARK in (tmp_path / name).read_text()
        output_of(["sh", "-n", str(tmp_path / name)])


def test_hosts_when_waited_for_then_count_as_there_once_their_sshd_speaks() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = Place("n1", "127.0.0.1", server.getsockname()[1], {})

        def speak() -> None:
            answering, _ = server.accept()
            answering.sendall(b"SSH-2.0-x\r\n")
            answering.close()

        speaker = threading.Thread(target=speak)
        speaker.start()
        light_hosts.wait([place])
        speaker.join()
