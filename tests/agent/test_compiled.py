"""The cache of compiled modules on hosts, which is valid only for the same source."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from slurmfab.on_hosts.agent.compiled import Compiled

SOURCE = "VALUE = 1\n"
OTHER = "VALUE = 2\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The path of the cache; it does not exist, as on a host that was just started."""
    return tmp_path / "kept"


def value(place: str | Path, source: str, path: str = "slurmfab/on_hosts/agent/x.py") -> object:
    """The value that a module's code sets; a new agent gets the code from the cache."""
    space: dict[str, object] = {}
    exec(Compiled(str(place)).code(source, path), space)
    return space["VALUE"]


def files(place: Path) -> list[Path]:
    return sorted(place.iterdir())


def planted(place: Path, source: str) -> None:
    """Put code of another source into the cache as the code of SOURCE, so that a test sees which one runs."""
    value(place, SOURCE)
    (kept,) = files(place)
    head = kept.read_bytes()[:16]
    value(place, source)
    kept.write_bytes(head + kept.read_bytes()[16:])


def test_a_module_when_it_was_compiled_before_is_not_compiled_again(place: Path) -> None:
    planted(place, OTHER)
    assert value(place, SOURCE) == 2


def test_a_module_with_another_source_is_compiled_and_replaces_the_old_one(place: Path) -> None:
    assert [value(place, source) for source in (SOURCE, OTHER, OTHER, SOURCE)] == [1, 2, 2, 1]
    assert len(files(place)) == 1


def test_the_cache_is_readable_by_its_owner_alone_whatever_the_umask(place: Path) -> None:
    before = os.umask(0)
    try:
        value(place, SOURCE)
    finally:
        os.umask(before)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (place, *files(place))] == [0o700, 0o600]


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701], ids=oct)
def test_a_cache_that_other_users_can_enter_is_not_used(place: Path, mode: int) -> None:
    planted(place, OTHER)
    place.chmod(mode)
    assert value(place, SOURCE) == 1


def test_a_cache_of_another_user_is_not_used(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted(place, OTHER)
    monkeypatch.setattr(os, "geteuid", lambda: place.stat().st_uid + 1)
    assert value(place, SOURCE) == 1


def test_a_link_to_a_cache_is_not_used(place: Path, tmp_path: Path) -> None:
    planted(place, OTHER)
    (tmp_path / "link").symlink_to(place)
    assert value(tmp_path / "link", SOURCE) == 1
    (tmp_path / "dangling").symlink_to(tmp_path / "made")
    assert value(tmp_path / "dangling", SOURCE) == 1
    assert not (tmp_path / "made").exists()


def test_a_link_in_the_cache_is_not_followed(place: Path, tmp_path: Path) -> None:
    planted(place, OTHER)
    (kept,) = files(place)
    kept.rename(tmp_path / "elsewhere")
    kept.symlink_to(tmp_path / "elsewhere")
    assert value(place, SOURCE) == 1


@pytest.mark.parametrize("left", [0, 10, 16, 20], ids=["nothing", "half-a-head", "head-alone", "half"])
def test_an_incomplete_file_is_replaced(place: Path, left: int) -> None:
    planted(place, OTHER)
    (kept,) = files(place)
    kept.write_bytes(kept.read_bytes()[:left])
    whole = value(place, SOURCE), value(place, SOURCE)
    assert whole == (1, 1)
    assert kept.stat().st_size > 20


@pytest.mark.parametrize(
    "where", ["", "/proc/none/kept", "/dev/null"], ids=["nowhere", "no-such-parent", "no-directory"]
)
def test_a_host_without_a_cache_compiles(where: str) -> None:
    assert value(where, SOURCE) == 1


def test_a_full_file_system_leaves_no_temporary_file(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", full)
    assert value(place, SOURCE) == 1
    assert files(place) == []
