"""Files that sshd reads: loaded when they changed, and taken back when sshd does not accept them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slurmfab.on_hosts.agent.core.resource import CHANGED, FAILED, OK, Context, apply
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.files.sshd_files import DROP_INS, PID_FILE, SshdFiles

DROP_IN = f"{DROP_INS}/mine.conf"
FILES = SshdFiles("user-ssh", (OwnedFile(DROP_IN, "HostbasedAuthentication yes\n"),))
LATER = 5.0


class Host(Context):
    """A scratch root whose sshd accepts its files or not, and writes its PID file when it is reloaded."""

    def __init__(self, root: Path, refusal: str = "", *, has_socket: bool = False) -> None:
        super().__init__(str(root))
        self.refusal = refusal
        self.has_socket = has_socket
        self.programs: list[str] = []
        (root / "run").mkdir()
        (root / DROP_INS[1:]).mkdir(parents=True)
        self.loads(-LATER)

    def loads(self, seconds: float) -> None:
        """Have sshd load its files so many seconds after the newest of them."""
        at = Path(self.path(DROP_INS)).stat().st_mtime + seconds
        Path(self.path(PID_FILE)).touch()
        os.utime(self.path(PID_FILE), (at, at))

    def run(self, argv: Sequence[str], *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        if "is-active" in argv:
            return subprocess.CompletedProcess(argv, 0 if self.has_socket else 3, b"", b"")
        self.programs.append(argv[1] if argv[0] == "systemctl" else argv[0])
        if argv[0] == "sshd":
            return subprocess.CompletedProcess(argv, int(bool(self.refusal)), b"", self.refusal.encode())
        self.loads(LATER)
        return subprocess.CompletedProcess(argv, 0, b"", b"")


def test_sshd_loads_its_files_once_when_they_come_and_when_they_go(root: Path) -> None:
    host = Host(root)
    assert [apply(FILES, host).status, apply(FILES, host).status] == [CHANGED, OK]
    assert apply(SshdFiles("user-ssh", ()), host).status == CHANGED
    assert not Path(host.path(DROP_IN)).exists()
    assert host.programs == ["sshd", "try-reload-or-restart"] * 2


def test_sshd_that_a_socket_starts_is_restarted_since_it_would_lose_the_socket_by_a_reload(root: Path) -> None:
    host = Host(root, has_socket=True)
    assert apply(FILES, host).status == CHANGED
    assert host.programs == ["sshd", "try-restart"]


def test_files_that_sshd_has_not_loaded_are_loaded(root: Path) -> None:
    host = Host(root)
    apply(FILES, host)
    host.loads(-LATER)
    outcome = apply(FILES, host)
    assert (outcome.status, [change.name for change in outcome.changes]) == (CHANGED, ["loaded"])


def test_files_that_sshd_refuses_are_taken_back_and_never_loaded(root: Path) -> None:
    host = Host(root, "line 1: Bad configuration option")
    outcome = apply(FILES, host)
    assert (outcome.status, "Bad configuration option" in outcome.message) == (FAILED, True)
    assert (Path(host.path(DROP_IN)).exists(), host.programs) == (False, ["sshd"])
