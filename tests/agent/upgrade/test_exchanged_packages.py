"""Slurm's packages exchanged for those of another version, with an apt-get that plays what was seen of the real one."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from outcomes import failure

from slurmfab.on_hosts.agent.core.resource import Context, apply
from slurmfab.on_hosts.agent.upgrade.exchanged_packages import ExchangedPackages

OLD = """Package: slurmd
Status: install ok installed
Version: 24.11.5-4

Package: slurm-client
Status: hold ok installed
Version: 24.11.5-4
"""
NEW = OLD.replace("24.11.5-4", "26.05.5-1")
WANTED = ("slurmd=26.05.5-1", "slurm-client=26.05.5-1")
REMOVES = """The following packages will be REMOVED:
  libhwloc-plugins libpmix2t64
E: Packages need to be removed but remove is disabled.
"""
UNSOLVABLE = " slurmd : Depends: libhwloc15 (>= 2.15.0) but 2.12.0-4 is to be installed\nE: Unable to correct problems"


class Host(Context):
    """A scratch host with an apt-get that knows what it may be asked, and a slurmd that runs.

    Args:
        root: its root.
        answers: what apt-get prints for words behind `--`, by these; others succeed.
        simulated: what it prints when it only simulates.
    """

    def __init__(self, root: str, answers: dict[str, str], simulated: str = "") -> None:
        super().__init__(root)
        self.answers, self.simulated = answers, simulated
        self.calls: list[str] = []
        self.status = Path(root) / "var/lib/dpkg/status"

    def run(self, argv: Sequence[str], *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        words = " ".join(argv[argv.index("--") + 1 :]) if "--" in argv else " ".join(argv[-2:])
        what = next((one for one in ("--simulate", "--download-only") if one in argv), argv[0])
        self.calls.append(f"{what} {words}")
        failure = self.answers.get(words, "") if argv[0] == "apt-get" else ""
        if argv[0] == "systemctl" and "show" in argv:
            shown = "Id=slurmd.service\nLoadState=loaded\nActiveState=active\nMainPID=0\n"
            return subprocess.CompletedProcess(argv, 0, shown.encode(), b"")
        if what == "apt-get" and "install" in argv and not failure:
            self.status.write_text(NEW)
        printed = self.simulated if what == "--simulate" else ""
        return subprocess.CompletedProcess(argv, 100 if failure else 0, printed.encode(), failure.encode())


@pytest.fixture
def dpkg(root: Path) -> Path:
    for folder in ("usr/sbin", "var/lib/dpkg/updates", "var/lib/apt/lists/partial"):
        (root / folder).mkdir(parents=True)
    (root / "var/lib/dpkg/status").write_text(OLD)
    return root


def test_packages_when_exchanged_then_are_all_there_before_slurmd_stops(dpkg: Path) -> None:
    host = Host(str(dpkg), {})
    assert apply(ExchangedPackages(WANTED, stops=("slurmd",)), host).status == "changed"
    order = [call for call in host.calls if "26.05" in call or "stop" in call or "hold" in call]
    versions = " ".join(WANTED)
    assert order == [
        f"--simulate {versions}",
        f"--download-only {versions}",
        "systemctl stop slurmd",
        f"apt-get {versions}",
        "apt-mark hold slurm-client",
    ]
    assert not list((dpkg / "usr/sbin").iterdir())


def test_packages_that_come_along_when_planned_then_are_exchanged_as_well(dpkg: Path) -> None:
    host = Host(str(dpkg), {})
    assert apply(ExchangedPackages(WANTED, others=("libhwloc15=2.15.0-2",)), host).status == "changed"
    assert f"apt-get {' '.join(WANTED)} libhwloc15=2.15.0-2" in host.calls


@pytest.mark.parametrize(
    ("simulated", "words"),
    [
        (REMOVES, "would remove libhwloc-plugins libpmix2t64, which slurmfab never does"),
        (UNSOLVABLE, "libhwloc15 (>= 2.15.0) but 2.12.0-4 is to be installed"),
    ],
)
def test_packages_when_apt_cannot_exchange_them_then_nothing_is_stopped_and_the_reason_is_told(
    dpkg: Path, simulated: str, words: str
) -> None:
    host = Host(str(dpkg), {" ".join(WANTED): simulated})
    assert words in failure(ExchangedPackages(WANTED, stops=("slurmd",)), host)
    assert not [call for call in host.calls if "stop" in call or call.startswith("--download-only")]


def test_packages_when_apt_would_change_more_than_planned_then_nothing_is_stopped(dpkg: Path) -> None:
    host = Host(str(dpkg), {}, "Inst libmariadb3 [11.8.6] (11.8.9 Debian:sid [amd64])\n")
    outcome = apply(ExchangedPackages(WANTED, stops=("slurmd",)), host)
    assert outcome.message.startswith("apt would now change libmariadb3 as well, which the plan did not show")
    assert not [call for call in host.calls if "stop" in call or call.startswith("--download-only")]
