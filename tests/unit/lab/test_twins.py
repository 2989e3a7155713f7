"""Rehearsals on this machine: one of a cluster at a time, with temporary files in private, and none forgotten."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from slurmfab.base.errors import LabError
from slurmfab.lab import labs, twins

NAME, OTHER = "t0123abc", "t4567def"


@pytest.fixture
def removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of labs that are removed; rehearsals have their directories in a temporary one."""
    names: list[str] = []
    monkeypatch.setattr(twins, "PLACES", tmp_path / "rehearsals")
    monkeypatch.setattr(labs, "down", names.append)
    return names


@pytest.mark.usefixtures("removed")
def test_a_second_rehearsal_of_a_cluster_is_refused() -> None:
    with twins.alone(NAME), pytest.raises(LabError, match="Another rehearsal of this cluster"), twins.alone(NAME):
        pass


def test_temporary_files_of_a_rehearsal_are_in_a_directory_of_root_that_is_gone_at_the_end(removed: list[str]) -> None:
    before = tempfile.gettempdir()
    with twins.alone(NAME) as place, tempfile.NamedTemporaryFile() as file:
        assert Path(file.name).parent == place
        assert place.stat().st_mode & 0o777 == place.parent.stat().st_mode & 0o777 == 0o700
    assert (place.exists(), tempfile.gettempdir(), removed) == (False, before, [])


def test_what_a_killed_rehearsal_has_left_is_removed_by_the_next_whatever_its_cluster(removed: list[str]) -> None:
    with twins.alone(OTHER):
        left = twins.PLACES / NAME
        left.mkdir()
        (left / "decrypted").write_text("the state of a cluster")
        assert twins.remove_forgotten() == (NAME,)
        assert (left.exists(), (twins.PLACES / OTHER).exists(), removed) == (False, True, [NAME])


def test_a_directory_that_is_no_rehearsals_then_no_lab_of_its_name_is_removed(removed: list[str]) -> None:
    (twins.PLACES / "lab").mkdir(parents=True)
    assert (twins.remove_forgotten(), removed) == ((), [])


@pytest.mark.usefixtures("removed")
def test_a_twin_that_cannot_be_removed_then_stays_and_all_others_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    def down(name: str) -> None:
        if name == NAME:
            raise UnicodeError(name)

    monkeypatch.setattr(labs, "down", down)
    for name in NAME, OTHER:
        (twins.PLACES / name).mkdir(parents=True)
    assert twins.remove_forgotten() == (OTHER,)
    assert [place.name for place in twins.PLACES.iterdir()] == [NAME]
