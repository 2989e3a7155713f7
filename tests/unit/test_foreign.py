"""Whose files are trusted beside a cluster file, and with code: not those that others could write, replace or bend."""

from __future__ import annotations

import os
import stat
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest

from slurmfab.base import foreign
from slurmfab.base.foreign import Trusted

ME = os.geteuid()
OTHER = 4242
MINE = Trusted(frozenset({0, ME}), None)
SHARED = Trusted(frozenset({0, ME}), os.getegid())


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A file in a directory of this user alone."""
    path = tmp_path / "place" / "fabfile.py"
    path.parent.mkdir(mode=0o755)
    path.touch(0o644)
    path.chmod(0o644)
    return path


def given_away(monkeypatch: pytest.MonkeyPatch, *places: Path) -> None:
    """Have files belong to another user, as only root could make them."""

    def told(place: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        found = os.stat(place, follow_symlinks=follow_symlinks)  # noqa: PTH116 - `Path.stat` is this function
        is_given = place in places and not (follow_symlinks and stat.S_ISLNK(os.lstat(place).st_mode))
        return os.stat_result([*found[:4], OTHER, *found[5:]]) if is_given else found

    monkeypatch.setattr(Path, "stat", told)
    monkeypatch.setattr(Path, "lstat", lambda place: told(place, follow_symlinks=False))


def test_code_of_this_user_alone_is_run(code: Path) -> None:
    assert foreign.why_unsafe(code, MINE) == ""


@pytest.mark.parametrize(
    ("opened", "mode"), [("place/fabfile.py", 0o666), ("place", 0o777), ("place", 0o1777), (".", 0o777)]
)
def test_code_that_others_may_write_replace_or_put_something_beside_is_not_run(
    tmp_path: Path, code: Path, opened: str, mode: int
) -> None:
    (tmp_path / opened).chmod(mode)
    assert foreign.why_unsafe(code, MINE) == f"others may write to {tmp_path / opened} (mode {mode:04o})"


def test_code_below_a_directory_such_as_tmp_is_run(tmp_path: Path, code: Path) -> None:
    tmp_path.chmod(0o1777)
    assert foreign.why_unsafe(code, MINE) == ""


def test_code_in_a_directory_of_another_user_is_not_run(monkeypatch: pytest.MonkeyPatch, code: Path) -> None:
    given_away(monkeypatch, code.parent.parent)
    assert foreign.why_unsafe(code, MINE) == f"{code.parent.parent} belongs to another user (UID {OTHER})"


def test_code_behind_a_link_of_another_user_is_not_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: Path
) -> None:
    link = tmp_path / "checks"
    link.symlink_to(code.parent)
    assert foreign.why_unsafe(link / code.name, MINE) == ""
    given_away(monkeypatch, link)
    assert foreign.why_unsafe(link / code.name, MINE) == f"{link} belongs to another user (UID {OTHER})"


def test_a_group_may_write_code_where_it_shares_the_cluster_file_and_nothing_is_listed_besides(code: Path) -> None:
    code.chmod(0o664)
    assert foreign.why_unsafe(code, MINE) == f"others may write to {code} (mode 0664)"
    assert foreign.why_unsafe(code, SHARED) == ""
    entries = [(1, 6, 0xFFFFFFFF), (2, 6, OTHER), (4, 6, 0xFFFFFFFF), (16, 6, 0xFFFFFFFF), (32, 4, 0xFFFFFFFF)]
    try:
        os.setxattr(
            code, foreign.ACCESS_LIST, struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *one) for one in entries)
        )
    except OSError:
        pytest.skip("this file system has no access control lists")
    assert foreign.why_unsafe(code, SHARED) == f"others may write to {code} (it has an access control list)"


def test_a_group_with_the_owners_name_is_the_owners_own_unless_somebody_else_has_it(
    monkeypatch: pytest.MonkeyPatch, code: Path
) -> None:
    found, own = code.stat(), SimpleNamespace(pw_name="ann", pw_gid=code.stat().st_gid)
    monkeypatch.setattr(foreign.pwd, "getpwuid", lambda _: own)
    monkeypatch.setattr(foreign.grp, "getgrgid", lambda _: SimpleNamespace(gr_name="ann", gr_mem=[]))
    monkeypatch.setattr(foreign.pwd, "getpwall", lambda: [own])
    assert foreign.is_own_group(found)
    monkeypatch.setattr(foreign.pwd, "getpwall", lambda: [own, SimpleNamespace(pw_name="eve", pw_gid=found.st_gid)])
    assert not foreign.is_own_group(found)


@pytest.mark.parametrize(
    ("mode", "is_member", "owner"), [(0o2775, True, ME), (0o2755, True, ME), (0o2775, False, ME), (0o2775, True, OTHER)]
)
def test_a_group_is_let_in_by_a_directory_of_this_users_own_alone(
    code: Path, monkeypatch: pytest.MonkeyPatch, mode: int, is_member: bool, owner: int
) -> None:
    directory, is_let_in = code.parent, (mode, is_member, owner) == (0o2775, True, ME)
    directory.chmod(mode)
    if owner == OTHER:
        given_away(monkeypatch, directory)
    monkeypatch.setattr(foreign, "is_in", lambda _user, _group: is_member)
    assert foreign.own(directory).group == (directory.stat().st_gid if is_let_in else None)


def test_a_planted_cluster_file_makes_nobody_one_whose_code_is_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    planted = tmp_path / "cluster.yaml"
    planted.touch()
    planted.chmod(0o664)
    given_away(monkeypatch, planted)
    assert OTHER in foreign.sharing(planted).users
    monkeypatch.setattr(foreign, "is_in", lambda _user, _group: True)
    assert foreign.own(tmp_path) == Trusted(frozenset({0, ME, int(os.environ.get("SUDO_UID", ME))}), None)


def test_who_called_sudo_is_this_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(foreign.os, "geteuid", lambda: 0)
    monkeypatch.setenv("SUDO_UID", str(OTHER))
    assert foreign.own(tmp_path).users == {0, OTHER}
