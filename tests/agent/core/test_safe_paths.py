"""Paths below directories that another user can change: no link of that user, and no swap, leads root elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hostile_directory import OTHER, give_away, insist, state_of, swapped

from slurmfab.on_hosts.agent.core import replace, safe_paths
from slurmfab.on_hosts.agent.core.resource import ResourceFailed
from slurmfab.on_hosts.agent.core.safe_paths import UnsafePath, open_folder, open_parent

ME = (os.geteuid(), os.getegid())
needs_root = pytest.mark.needs_root("only root can give files to another user")


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A directory of root that another user wants, such as /usr/local/bin."""
    made = tmp_path / "usr/local/bin"
    made.mkdir(parents=True)
    (made / "tool").write_text("of root\n")
    made.chmod(0o755)
    return made


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A directory that another user can change, such as slurm's home."""
    return give_away(tmp_path / "var/lib/slurm")


def test_a_link_of_root_in_directories_of_root_is_followed(tmp_path: Path) -> None:
    (tmp_path / "disk/slurm").mkdir(parents=True)
    (tmp_path / "absolute").symlink_to(tmp_path / "disk")
    (tmp_path / "disk/relative").symlink_to("../disk/./slurm")
    with open_folder(f"{tmp_path}/absolute/relative") as folder:
        assert folder.path == f"{tmp_path}/disk/slurm"
        assert folder.others == ""


@needs_root
def test_a_link_that_belongs_to_another_user_is_not_followed_wherever_it_is(tmp_path: Path, victim: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(victim)
    os.lchown(link, OTHER, OTHER)
    with pytest.raises(UnsafePath, match=f"link is a symbolic link of nobody to {victim}.*rm {link}"):
        open_folder(str(link))


def test_a_link_in_a_directory_of_another_user_is_not_followed_even_if_it_is_roots(theirs: Path, victim: Path) -> None:
    (theirs / "slurmctld").symlink_to(victim)
    for step in (
        lambda: open_folder(f"{theirs}/slurmctld"),
        lambda: open_folder(f"{theirs}/slurmctld/below", make=True),
        lambda: replace.make_directory(f"{theirs}/slurmctld", *ME, 0o700),
        lambda: replace.put(f"{theirs}/slurmctld/file", b"", *ME, 0o600),
        lambda: replace.read(f"{theirs}/slurmctld/tool"),
        lambda: replace.unlink(f"{theirs}/slurmctld/tool"),
        lambda: replace.change_access(f"{theirs}/slurmctld/tool", *ME, 0o777),
    ):
        before = state_of(victim)
        with pytest.raises(UnsafePath, match="is not followed"):
            step()
        assert state_of(victim) == before


def test_a_link_below_a_directory_of_another_user_is_not_followed_though_its_own_directory_is_roots(
    theirs: Path, victim: Path
) -> None:
    (theirs / "roots").mkdir()
    (theirs / "roots/link").symlink_to(victim)
    with pytest.raises(UnsafePath):
        open_folder(f"{theirs}/roots/link")


def test_a_link_in_a_directory_like_tmp_is_not_followed_but_one_in_roots_directory_there_is(
    tmp_path: Path, victim: Path
) -> None:
    sticky = tmp_path / "tmp"
    (sticky / "roots").mkdir(parents=True)
    sticky.chmod(0o1777)
    (sticky / "link").symlink_to(victim)
    (sticky / "roots/link").symlink_to(victim)
    with open_folder(f"{sticky}/roots/link") as folder:
        assert folder.path == str(victim)
    with pytest.raises(UnsafePath):
        open_folder(f"{sticky}/link")


def test_links_that_lead_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        open_folder(f"{tmp_path}/one")


def test_a_folder_is_itself_after_another_user_has_put_something_else_in_its_place(theirs: Path, victim: Path) -> None:
    (theirs / "folder").mkdir()
    folder, name = open_parent(f"{theirs}/folder/file")
    with folder:
        (theirs / "folder").rename(theirs / "away")
        (theirs / "folder").symlink_to(victim)
        replace.exchange_in(folder, name, b"text", (*ME, 0o600))
        folder.set_access(mode=0o711)
    assert (theirs / "away/file").read_bytes() == b"text"
    assert [path.name for path in victim.iterdir()] == ["tool"]
    assert victim.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("name", ["slurmctld", "slurmctld/below"])
def test_a_directory_while_another_user_swaps_it_with_a_link_is_made_there_or_nowhere(
    theirs: Path, victim: Path, name: str
) -> None:
    before, other = state_of(victim), OTHER if os.geteuid() == 0 else os.geteuid()
    with swapped(theirs / "slurmctld", victim):
        done = insist(lambda: replace.make_directory(f"{theirs}/{name}", other, -1, 0o700), (UnsafePath, OSError))
    assert done
    assert state_of(victim) == before


def test_files_while_another_user_swaps_their_directory_with_a_link_are_written_there_or_nowhere(
    theirs: Path, victim: Path
) -> None:
    (theirs / "etc").mkdir()
    before, path = state_of(victim), f"{theirs}/etc/tool"

    def work() -> None:
        replace.put(path, b"new", *ME, 0o600)
        replace.change_access(path, *ME, 0o640)
        assert replace.read(path) in (None, b"new")
        replace.unlink(path)

    with swapped(theirs / "etc", victim):
        insist(work, (ResourceFailed, OSError))
    assert state_of(victim) == before


def test_a_file_with_another_name_when_its_directory_can_be_changed_gets_its_mode_as_a_copy(
    theirs: Path, victim: Path
) -> None:
    (theirs / "file").hardlink_to(victim / "tool")
    replace.change_access(f"{theirs}/file", *ME, 0o666)
    assert (theirs / "file").stat().st_mode & 0o777 == 0o666
    assert (theirs / "file").read_text() == "of root\n"
    assert (victim / "tool").stat().st_mode & 0o777 == 0o644


@needs_root
def test_a_file_with_another_name_when_its_directory_can_be_changed_is_given_to_nobody(
    theirs: Path, victim: Path
) -> None:
    (theirs / "file").hardlink_to(victim / "tool")
    before = state_of(victim)
    with pytest.raises(UnsafePath, match=f"file is one of 2 names of a file of root.*rm {theirs}/file"):
        replace.change_access(f"{theirs}/file", OTHER, OTHER, 0o600)
    assert state_of(victim) == before


def test_a_file_with_another_name_in_directories_of_root_is_changed_in_place(victim: Path) -> None:
    (victim / "second").hardlink_to(victim / "tool")
    replace.change_access(f"{victim}/tool", *ME, 0o600)
    assert (victim / "second").stat().st_mode & 0o777 == 0o600


def test_a_fifo_and_a_huge_file_of_another_user_are_refused_and_not_waited_for(theirs: Path) -> None:
    os.mkfifo(theirs / "fifo")
    with pytest.raises(ResourceFailed, match="fifo is not a regular file"):
        replace.read(f"{theirs}/fifo")
    with (theirs / "huge").open("wb") as file:
        file.truncate(safe_paths.MAX_BYTES + 1)
    with pytest.raises(UnsafePath, match="huge has 16777217 bytes"):
        replace.read(f"{theirs}/huge")


def test_a_directory_that_another_user_replaces_as_it_is_made_is_not_taken(
    theirs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (theirs / "full").mkdir()
    (theirs / "full/of root").touch()
    mkdir = os.mkdir

    def make_and_swap(name: str, mode: int, dir_fd: int) -> None:
        mkdir(name, mode, dir_fd=dir_fd)
        (theirs / "new").rmdir()
        (theirs / "full").rename(theirs / "new")

    monkeypatch.setattr(os, "mkdir", make_and_swap)
    with pytest.raises(UnsafePath, match="new was replaced while it was made by"):
        replace.make_directory(f"{theirs}/new", *ME, 0o777)
    assert (theirs / "new").stat().st_mode & 0o777 == 0o755


@needs_root
def test_a_directory_of_root_that_another_host_of_root_fills_as_it_is_made_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir = os.mkdir

    def make_and_fill(name: str, mode: int, dir_fd: int) -> None:
        mkdir(name, mode, dir_fd=dir_fd)
        mkdir(tmp_path / "shared/state")
        os.chown(tmp_path / "shared", OTHER, OTHER)

    monkeypatch.setattr(os, "mkdir", make_and_fill)
    replace.make_directory(f"{tmp_path}/shared", *ME, 0o755)
    status = (tmp_path / "shared").stat()
    assert (status.st_uid, status.st_mode & 0o777, (tmp_path / "shared/state").is_dir()) == (ME[0], 0o755, True)


def on_network(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    """Have the file system of a directory be one that comes over the network."""
    device = directory.stat().st_dev
    listed = directory / "mountinfo"
    listed.write_text(f"30 20 {os.major(device)}:{os.minor(device)} / {directory} rw - nfs4 nas:/home rw\n")
    monkeypatch.setattr(safe_paths, "MOUNTS", str(listed))


@pytest.mark.parametrize("make", [False, True])
def test_a_link_of_root_on_a_network_file_system_leads_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: bool
) -> None:
    on_network(monkeypatch, tmp_path)
    (tmp_path / "staff").symlink_to("/dev/shm")
    below = "/slurmfab-test-of-a-link" if make else ""
    with pytest.raises(UnsafePath, match=f"{tmp_path}/staff is a symbolic link on a network file system"):
        open_folder(f"{tmp_path}/staff{below}", make=make)
    assert not Path("/dev/shm/slurmfab-test-of-a-link").exists()


def test_a_link_of_root_on_a_network_file_system_is_followed_within_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_network(monkeypatch, tmp_path)
    (tmp_path / "groups").mkdir()
    (tmp_path / "staff").symlink_to(tmp_path / "groups")
    with open_folder(f"{tmp_path}/staff/ann", make=True) as folder:
        assert folder.path == f"{tmp_path}/groups/ann"
