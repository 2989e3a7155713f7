"""Faults that end by themselves: their unit on a systemd that only writes down, and their scripts on this machine."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from slurmfab.on_hosts.agent.core.resource import CHANGED, FAILED, OK, Context, apply
from slurmfab.on_hosts.agent.nodes import timed_fault
from slurmfab.on_hosts.agent.nodes.timed_fault import PLACE, TimedFault
from slurmfab.on_hosts.agent.services.start_guard import TRANSIENT


class Systemd(Context):
    """A scratch root with a stand-in for systemd: a unit is a file, and its scripts run when it begins and ends."""

    commands: list[tuple[str, ...]]

    def run(self, argv: Sequence[str], *_: object, **__: object) -> subprocess.CompletedProcess[bytes]:
        self.commands.append(tuple(argv))
        place, unit = Path(self.path(PLACE % "link")), Path(self.path(f"{TRANSIENT}/slurmfab-drill-link.service"))
        if argv[0] == "sh":
            return subprocess.run(argv, capture_output=True, check=False)
        if argv[0] == "systemctl":
            if unit.exists():
                unit.unlink()
                subprocess.run(["sh", place / "end"], check=True)
            return subprocess.CompletedProcess(argv, 0, b"", b"")
        hold = argv[-1].replace("systemd-notify --ready; exec flock", "exit 0; :")
        done = subprocess.run(["sh", "-c", hold], capture_output=True, check=False)
        if done.returncode == 0:
            unit.parent.mkdir(parents=True, exist_ok=True)
            unit.touch()
        else:
            subprocess.run(["sh", place / "end"], check=True)
        return subprocess.CompletedProcess(argv, done.returncode, b"", b"Job failed. See journalctl.")


@pytest.fixture
def systemd(tmp_path: Path) -> Systemd:
    (tmp_path / "run").mkdir()
    made = Systemd(str(tmp_path))
    made.commands = []
    return made


def fault(root: Path, begin: str = "") -> TimedFault:
    """A fault that removes a file, and brings it back."""
    return TimedFault("link", begin or f"rm {root}/file", f"touch {root}/file", 90)


def test_a_fault_begins_once_and_ends_with_nothing_left(systemd: Systemd, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    wanted = fault(tmp_path)
    assert apply(wanted, systemd).status == CHANGED
    assert not (tmp_path / "file").exists()
    assert apply(wanted, systemd).status == OK
    assert apply(TimedFault("link"), systemd).status == CHANGED
    assert (tmp_path / "file").exists()
    assert list((tmp_path / "run").glob("slurmfab-drill*")) == []
    assert apply(TimedFault("link"), systemd).status == OK


def test_the_end_of_a_fault_reads_what_its_beginning_wrote_down(systemd: Systemd, tmp_path: Path) -> None:
    assert apply(TimedFault("link", "echo before >note", f"cp note {tmp_path}/file", 90), systemd).status == CHANGED
    assert apply(TimedFault("link"), systemd).status == CHANGED
    assert (tmp_path / "file").read_text() == "before\n"


def test_a_fault_has_a_longest_time_and_its_scripts_are_roots_alone(systemd: Systemd, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    apply(fault(tmp_path), systemd)
    (begun,) = [argv for argv in systemd.commands if argv[0] == "systemd-run"]
    assert "RuntimeMaxSec=90" in begun
    assert f"ExecStopPost=/bin/sh {tmp_path}/run/slurmfab-drill-link/end" in begun
    place = tmp_path / "run/slurmfab-drill-link"
    assert (place.stat().st_mode & 0o777, (place / "begin").stat().st_mode & 0o777) == (0o700, 0o600)


def test_a_fault_that_refuses_tells_why_and_leaves_nothing(systemd: Systemd, tmp_path: Path) -> None:
    outcome = apply(fault(tmp_path, "refuse 'not on a Monday'\nrm file"), systemd)
    assert (outcome.status, outcome.message) == (FAILED, "not on a Monday")
    assert list((tmp_path / "run").glob("slurmfab-drill*")) == []


def test_a_script_that_fails_at_any_line_does_not_begin(systemd: Systemd, tmp_path: Path) -> None:
    outcome = apply(fault(tmp_path, f"false\ntouch {tmp_path}/after"), systemd)
    assert (outcome.status, (tmp_path / "after").exists()) == (FAILED, False)


def test_what_a_host_has_left_of_a_fault_is_taken_back(systemd: Systemd, tmp_path: Path) -> None:
    place = tmp_path / "run/slurmfab-drill-link"
    place.mkdir(parents=True)
    (place / "end").write_text(f"touch {tmp_path}/file\n")
    assert apply(TimedFault("link"), systemd).status == CHANGED
    assert ((tmp_path / "file").exists(), place.exists()) == (True, False)


def test_warnings_of_a_script_that_works_are_no_error(systemd: Systemd, tmp_path: Path) -> None:
    assert apply(fault(tmp_path, "echo careful >&2"), systemd).status == CHANGED
    assert (tmp_path / "run/slurmfab-drill-link/error").read_text() == ""
    assert apply(TimedFault("link"), systemd).status == CHANGED


def test_the_unit_waits_for_the_end_of_the_run() -> None:
    assert timed_fault.HOLD.endswith("exec flock --shared %s true")
