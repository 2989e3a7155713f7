"""Files of the deployer that are replaced in one step."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from slurmfab.base import atomic_file
from slurmfab.base.errors import InputError
from slurmfab.on_hosts.agent.core import replace


def test_a_file_when_new_gets_its_folders_and_mode_and_no_temporary_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "configs/runs/one.json"
    atomic_file.write(path, "ä\r\n", mode=0o600)
    assert path.read_bytes() == "ä\r\n".encode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["one.json"]


def test_a_file_when_it_exists_keeps_its_mode_and_is_not_written_without_need(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text("old")
    path.chmod(0o640)
    atomic_file.write(path, "new")
    inode = path.stat().st_ino
    atomic_file.write(path, "new")
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode), path.stat().st_ino) == ("new", 0o640, inode)


def test_a_path_when_it_can_be_written_is_accepted_and_nothing_is_left_there(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text("old")
    for path in (tmp_path / "old.json", tmp_path / "new.json", tmp_path / "in/a/new/folder.json"):
        atomic_file.require_writable(path, "--json")
    assert [entry.name for entry in tmp_path.iterdir()] == ["old.json"]
    assert (tmp_path / "old.json").read_text() == "old"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("a-folder", "this is a folder"),
        ("a-file/report.json", "it cannot be written: Not a directory"),
        ("/dev/null", "this is not a regular file"),
        ("/proc/report.json", "it cannot be written: No such file or directory"),
    ],
)
def test_a_path_when_it_cannot_be_written_is_refused_with_its_option(tmp_path: Path, path: str, reason: str) -> None:
    (tmp_path / "a-folder").mkdir()
    (tmp_path / "a-file").touch()
    with pytest.raises(InputError, match=rf"^--json .*{path}: {reason}.*Nothing was done"):
        atomic_file.require_writable(tmp_path / path, "--json")


def test_a_file_when_a_link_leads_to_it_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there/file").write_text("old")
    link = tmp_path / "link"
    link.symlink_to("there/file")
    atomic_file.write(link, "new", through_link=True)
    assert link.is_symlink()
    assert (tmp_path / "there/file").read_text() == "new"


def test_a_text_with_surrogates_when_written_to_any_kind_of_file_has_them_written_out(tmp_path: Path) -> None:
    atomic_file.write(tmp_path / "file", "name \udcff ä\n")
    assert (tmp_path / "file").read_text() == "name \\udcff ä\n"


@pytest.mark.needs_root("only root can give a folder to another group")
def test_a_file_when_its_folder_hands_on_its_group_gets_this_group(tmp_path: Path) -> None:
    os.chown(tmp_path, -1, 4711)
    tmp_path.chmod(0o2775)
    atomic_file.write(tmp_path / "shared", "text")
    assert (tmp_path / "shared").stat().st_gid == 4711


def test_a_file_when_many_write_it_at_once_is_always_whole(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    texts = [str(number) * 5000 for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda text: atomic_file.write(path, text), texts * 5))
    assert path.read_text() in texts
    assert [entry.name for entry in tmp_path.iterdir()] == ["lock"]


def test_a_file_when_it_cannot_be_replaced_keeps_its_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(replace.os, "fsync", full)
    with pytest.raises(
        InputError, match=r"file cannot be written: No space left on device\. What was there is unchanged"
    ):
        atomic_file.write(path, "new")
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_records_when_their_folder_is_a_link_then_nothing_behind_it_is_written_closed_or_removed(
    tmp_path: Path,
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "1.json").write_text("theirs")
    (victim / "1.json").chmod(0o644)
    (tmp_path / "cluster.runs").symlink_to(victim)
    with pytest.raises(InputError, match="is a link"):
        atomic_file.write_private(tmp_path / "cluster.runs/2.json", "{}", tmp_path / "cluster.yaml")
    atomic_file.keep_newest(tmp_path / "cluster.runs", 0)
    assert [(one.name, stat.S_IMODE(one.stat().st_mode)) for one in victim.iterdir()] == [("1.json", 0o644)]
