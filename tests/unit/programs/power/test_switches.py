"""The switches of nodes, with programs that write down how they are called."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from slurmfab.on_hosts.agent.core import resource
from slurmfab.on_hosts.agent.core.resource import ResourceFailed
from slurmfab.on_hosts.programs.power import switches
from slurmfab.on_hosts.programs.power.main import main, note

IPMI = {"how": "ipmi", "ipmi": {"address": {"n1": "n1-ipmi"}, "user": "slurm", "password": "/etc/secret"}}
CALL = "-I lanplus -H n1-ipmi -U slurm -f /etc/secret chassis power "


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory in which stand-ins for ipmitool and ssh write down their arguments."""
    for name in ("ipmitool", "ssh"):
        program = tmp_path / name
        program.write_text(
            f'#!/bin/sh\necho "$*" >>{tmp_path}/{name}.calls\n'
            f"case $* in *status) cat {tmp_path}/status ;; esac\n"
            f"[ ! -e {tmp_path}/fails ] || {{ rm {tmp_path}/fails; echo 'no session' >&2; exit 1; }}\n"
        )
        program.chmod(0o755)
    (tmp_path / "status").write_text("Chassis Power is on\n")
    monkeypatch.setattr(resource, "SYSTEM_PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(switches, "BETWEEN_TRIES", 0.0)
    monkeypatch.setattr(switches, "POLL_SECONDS", 0.01)
    return tmp_path


def words(calls: Path, name: str = "ipmitool") -> list[str]:
    return [line.removeprefix(CALL) for line in (calls / f"{name}.calls").read_text().splitlines()]


def test_a_node_when_it_does_not_shut_down_by_itself_then_its_power_is_cut(calls: Path) -> None:
    switches.switch_for(IPMI, "n1", time.monotonic() + 0.2).off()
    found = words(calls)
    assert (found[:2], found[-1]) == (["status", "soft"], "off")


def test_a_node_when_it_is_off_already_then_it_is_left_so_and_switched_on_plainly(calls: Path) -> None:
    (calls / "status").write_text("Chassis Power is off\n")
    switches.switch_for(IPMI, "n1", time.monotonic() + 5).off()
    switches.switch_for(IPMI, "n1", time.monotonic() + 5).on()
    assert words(calls) == ["status", "status", "on"]


def test_a_node_when_it_is_on_already_then_it_is_booted_anew(calls: Path) -> None:
    switches.switch_for(IPMI, "n1", time.monotonic() + 5).on()
    assert words(calls) == ["status", "cycle"]


def test_a_call_when_it_fails_once_then_it_is_made_once_more(calls: Path) -> None:
    (calls / "fails").touch()
    switches.switch_for(IPMI, "n1", time.monotonic() + 5).on()
    assert words(calls) == ["status", "status", "cycle"]


def test_a_call_when_it_fails_twice_then_the_reason_is_told(calls: Path) -> None:
    (calls / "ipmitool").write_text("#!/bin/sh\necho 'no session' >&2\nexit 1\n")
    with pytest.raises(ResourceFailed, match="no session"):
        switches.switch_for(IPMI, "n1", time.monotonic() + 5).on()


def test_ssh_when_it_switches_a_node_off_then_it_runs_what_the_sudo_rule_allows(calls: Path) -> None:
    settings = {"how": "wake_on_lan", "wake_on_lan": {"address": {"n1": "10.0.0.2"}, "mac": {}, "broadcast": ""}}
    switches.switch_for(settings, "n1", time.monotonic() + 5).off()
    (call,) = words(calls, "ssh")
    assert call.endswith("-- 10.0.0.2 sudo -n /usr/bin/systemctl poweroff")
    assert "BatchMode=yes" in call


def test_a_magic_packet_when_it_is_sent_then_it_has_the_address_16_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.settimeout(5)
        monkeypatch.setattr(switches, "WAKE_PORT", listener.getsockname()[1])
        lan = {"address": {}, "mac": {"n1": "52:54:00:00:00:0a"}, "broadcast": "127.0.0.1"}
        switches.switch_for({"how": "wake_on_lan", "wake_on_lan": lan}, "n1", time.monotonic() + 5).on()
        assert listener.recv(200) == b"\xff" * 6 + bytes.fromhex("52540000000a") * 16


def test_programs_of_the_site_are_called_with_the_node(calls: Path) -> None:
    settings = {"how": "command", "command": {"suspend": str(calls / "ssh"), "resume": str(calls / "ipmitool")}}
    switches.switch_for(settings, "n1", time.monotonic() + 5).off()
    switches.switch_for(settings, "n1", time.monotonic() + 5).on()
    assert (words(calls, "ssh"), words(calls)) == (["n1"], ["n1"])


def test_a_failure_when_it_is_noted_then_it_stays_until_the_node_is_switched(tmp_path: Path) -> None:
    note(str(tmp_path), "suspend", "n1", "no\nsession")
    assert (tmp_path / "n1").read_text() == "suspend: no session\n"
    note(str(tmp_path), "resume", "n1", "")
    assert list(tmp_path.iterdir()) == []


def test_the_program_when_its_settings_are_missing_then_it_fails(tmp_path: Path) -> None:
    assert main("suspend", str(tmp_path / "none"), "n1") == 1
