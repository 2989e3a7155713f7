"""Memory in place of a file system that cannot hold the disks of hosts."""

import sys
from pathlib import Path

import pytest

from slurmfab.base.errors import LabError
from slurmfab.lab import needs

sys.path.append(str(Path(__file__).parents[2] / "agent"))
from hostile_directory import locks_met_by


@pytest.fixture
def on_an_overlay(monkeypatch, tmp_path) -> list[list[str]]:
    """Both places of labs are on an overlay; what is called is noted and not done."""
    called: list[list[str]] = []

    def call(argv: list[str]) -> str:
        called.append(argv)
        return "overlayfs\n"

    monkeypatch.setattr(needs, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(needs, "LABS", tmp_path / "lib/labs")
    monkeypatch.setattr(needs, "DISKS", tmp_path / "lib/disks")
    monkeypatch.setattr(needs, "ROOM", tmp_path / "run")
    monkeypatch.setattr(needs, "holds_overlays", lambda _: any(argv[0] == "mount" for argv in called))
    monkeypatch.setattr(needs, "call", call)
    return called


def memory(monkeypatch, directory: Path, kilobytes: int) -> None:
    file = directory / "meminfo"
    file.write_text(f"MemTotal:       99999999 kB\nMemAvailable:   {kilobytes} kB\n")
    monkeypatch.setattr(needs, "MEMORY", file)


def test_ensure_when_a_place_cannot_hold_disks_then_a_tmpfs_is_mounted_and_told(on_an_overlay, monkeypatch, tmp_path):
    memory(monkeypatch, tmp_path, 8 << 20)
    told: list[str] = []
    needs.ensure_room(told.append)
    assert [argv[-1] for argv in on_an_overlay if argv[0] == "mount"] == [str(tmp_path / "cache")]
    assert ["(overlayfs)" in line for line in told] == [True]


def test_ensure_when_there_is_no_memory_either_then_says_what_is_missing(on_an_overlay, monkeypatch, tmp_path):
    memory(monkeypatch, tmp_path, 2 << 20)
    with pytest.raises(LabError, match=r"2048 MiB of memory are too little for a tmpfs\. Mount a file system that can"):
        needs.ensure_room(print)
    assert [argv[0] for argv in on_an_overlay] == ["stat"]


@pytest.mark.usefixtures("on_an_overlay")
def test_ensure_when_mounting_is_forbidden_then_says_what_a_container_needs(monkeypatch, tmp_path):
    memory(monkeypatch, tmp_path, 8 << 20)

    def refuse(argv: list[str]) -> str:
        if argv[0] == "mount":
            raise LabError("`mount` failed on this machine with exit code 32: permission denied")
        return "overlayfs\n"

    monkeypatch.setattr(needs, "call", refuse)
    with pytest.raises(LabError, match=r"--privileged.*permission denied"):
        needs.ensure_room(print)


def test_ensure_when_others_may_enter_file_systems_of_hosts_then_they_are_this_users_alone(
    on_an_overlay, monkeypatch, tmp_path
):
    memory(monkeypatch, tmp_path, 8 << 20)
    (tmp_path / "cache").mkdir(mode=0o755)
    (tmp_path / "lib/labs").mkdir(parents=True, mode=0o755)
    assert needs.open_to_others() == (tmp_path / "cache", tmp_path / "lib/labs")
    needs.ensure_room(print)
    places = [tmp_path / name for name in ("cache", "lib/labs", "lib/disks")]
    assert [place.stat().st_mode & 0o777 for place in places] == [0o700] * 3
    assert needs.open_to_others() == ()
    assert on_an_overlay


@pytest.mark.needs_root("only root can become other users")
def test_ensure_when_others_may_open_directories_above_then_they_cannot_open_what_is_locked(
    on_an_overlay, monkeypatch, tmp_path
):
    memory(monkeypatch, tmp_path, 8 << 20)
    tmp_path.chmod(0o755)
    met = []

    def look(_: Path) -> bool:
        met.append((locks_met_by(tmp_path), locks_met_by(tmp_path, 0, 0)))
        return True

    monkeypatch.setattr(needs, "holds_overlays", look)
    needs.ensure_room(print)
    assert met == [([], ["run"])] * 2
    assert not on_an_overlay
