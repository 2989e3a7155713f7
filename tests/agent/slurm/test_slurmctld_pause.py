"""slurmctld stopped for a while: not before all is ready for it, and never without a guard."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from slurmfab.on_hosts.agent.core.resource import Context, Outcome, apply
from slurmfab.on_hosts.agent.services import start_guard
from slurmfab.on_hosts.agent.slurm.slurmctld_pause import SlurmctldPause

FILES = (("slurm.conf", "new\n"),)


class Controller(Context):
    """A host whose slurmctld starts and stops, and whose Slurm may refuse files; `programs` lists what was run."""

    def __init__(self, root: Path, *, refusal: str = "", running: bool = True) -> None:
        super().__init__(str(root))
        self.refusal, self.running = refusal, running
        self.programs: list[str] = []
        (root / "etc/slurm").mkdir()
        (root / "etc/slurm/slurm.conf").write_text("old\n")
        (root / start_guard.TRANSIENT[1:]).mkdir(parents=True)
        self.guard = root / start_guard.TRANSIENT[1:] / "slurmfab-start-slurmctld.service"

    def run(self, argv: Sequence[str], *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        words = " ".join(word for word in argv if word != "--quiet")
        if argv[:2] == ["systemctl", "show"]:
            state = "active" if self.running else "inactive"
            return subprocess.CompletedProcess(argv, 0, f"ActiveState={state}\n".encode(), b"")
        self.programs.append(argv[0] if argv[0] in ("systemd-run", "scontrol") else words)
        if argv[0] == "systemd-run":
            self.guard.touch()
        elif words.endswith("slurmfab-start-slurmctld"):
            self.guard.unlink()
        elif argv[0] == "systemctl" and argv[1] in ("start", "stop"):
            self.running = argv[1] == "start"
        return subprocess.CompletedProcess(argv, int(argv[0] == "scontrol" and bool(self.refusal)), b"",
                                           self.refusal.encode())  # fmt: skip


def paused(host: Controller) -> Outcome:
    return apply(SlurmctldPause(files=FILES), host)


def test_slurmctld_is_stopped_after_slurm_has_accepted_the_files_and_the_guard_is_set(root: Path) -> None:
    host = Controller(root)
    kept: list[str] = []
    host.keep = lambda resource, _, differing: kept.extend(resource.touches(differing))
    assert paused(host).status == "changed"
    assert host.programs == ["scontrol", "systemd-run", "systemctl stop slurmctld"]
    assert kept == ["/etc/slurm/slurm.conf"]
    assert (root / "etc/slurm/slurm.conf").read_text() == "old\n"
    assert [path.name for path in (root / "etc/slurm").iterdir()] == ["slurm.conf"]


def test_slurmctld_goes_on_when_slurm_refuses_the_files(root: Path) -> None:
    host = Controller(root, refusal="scontrol: fatal: no such plugin")
    outcome = paused(host)
    assert (outcome.status, host.programs, host.running) == ("failed", ["scontrol"], True)
    assert "fatal: no such plugin" in outcome.message


def test_slurmctld_goes_on_when_there_is_no_room_for_the_files(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("slurmfab.on_hosts.agent.core.replace.put", full)
    host = Controller(root)
    outcome = paused(host)
    assert (outcome.status, host.programs, host.running) == ("failed", [], True)
    assert "No space left on device" in outcome.message


def test_a_slurmctld_that_did_not_run_gets_no_guard(root: Path) -> None:
    host = Controller(root, running=False)
    assert paused(host).status == "ok"
    assert host.programs == []


def test_a_slurmctld_that_runs_again_has_no_guard_any_more(root: Path) -> None:
    host = Controller(root)
    paused(host)
    host.programs.clear()
    assert apply(SlurmctldPause(paused=False), host).status == "changed"
    assert host.programs == [
        "systemctl stop slurmfab-start-slurmctld", "systemctl reset-failed slurmctld", "systemctl start slurmctld"
    ]  # fmt: skip
    assert host.running


def test_a_guard_that_an_interrupted_run_has_left_is_not_set_twice(root: Path) -> None:
    host = Controller(root)
    host.guard.touch()
    paused(host)
    assert host.programs == ["scontrol", "systemctl stop slurmctld"]
