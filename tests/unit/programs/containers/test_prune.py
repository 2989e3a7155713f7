"""Which images are removed: those unused for long, and the longest unused ones on a full disk, never those in use."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from slurmfab.on_hosts.programs.containers import images, main, prune
from slurmfab.on_hosts.programs.containers.prune import DAY, Run, Unused

IDS = tuple(f"{number:064x}" for number in range(4))


def image(directory: Path, number: int, age: float, used: float | None = None) -> None:
    """An image that came some days ago, and of which a container was made some days ago."""
    now = time.time()
    place = directory / "overlay-images" / IDS[number]
    place.mkdir(parents=True)
    os.utime(place, (now, now - age * DAY))
    listed = directory / "overlay-images/images.json"
    entries = json.loads(listed.read_text()) if listed.exists() else []
    layer = f"{number + 16:064x}"
    if used is not None:
        link = directory / "overlay" / layer / "link"
        link.parent.mkdir(parents=True)
        link.write_text("l")
        os.utime(link, (now - used * DAY, now - age * DAY))
    listed.write_text(json.dumps([*entries, {"id": IDS[number], "layer": layer}]))


def test_images_when_listed_then_have_the_time_of_their_last_use(tmp_path: Path) -> None:
    image(tmp_path, 1, age=40)
    image(tmp_path, 2, age=40, used=3)
    days = {one.id: round((time.time() - one.used) / DAY) for one in images.images_in(str(tmp_path))}
    assert days == {IDS[1]: 40, IDS[2]: 3}


@pytest.mark.parametrize("text", ["", "{", "{}", "[1]", '[{"id": 1}]', '[{"id": "../../etc"}]'])
def test_images_when_the_list_is_damaged_then_are_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "overlay-images").mkdir()
    (tmp_path / "overlay-images/images.json").write_text(text)
    assert list(images.images_in(str(tmp_path))) == []


class OneUser(Run):
    """A run in which the present user is the only one with images, on a disk that each removal makes emptier."""

    def __init__(self, storage: Path, fill: float = 0.0) -> None:
        super().__init__(str(storage))
        self.fill = fill
        self.removed: list[str] = []

    def call(self, uid: int, words: object) -> str:
        assert isinstance(words, list)
        if words[1] == "ps":
            return "of ann\n" if words[-1] == f"ancestor={IDS[3]}" else ""
        if words[1] == "untag":
            assert words[2] != IDS[3]
            return ""
        if words[1] == "rmi":
            self.removed.append(words[2])
            self.fill -= 10
            return "removed"
        return "".join(f"{one.used:.0f} {one.id}\n" for one in images.images_in(self.of(uid)))

    def used(self) -> float:
        return self.fill


@pytest.fixture
def run(tmp_path: Path) -> OneUser:
    """Images that were used 1, 20, 40 and 50 days ago; a container has the last one."""
    for number, used in enumerate((20, 1, 40, 50)):
        image(tmp_path / str(os.getuid()), number, age=90, used=used)
    return OneUser(tmp_path)


def test_old_ones_when_unused_for_longer_then_go_and_the_others_stay(run: OneUser) -> None:
    assert list(run.users()) == [os.getuid()]
    left = prune.old_ones(run, os.getuid(), 30.0)
    assert run.removed == [IDS[2]]
    assert {one.id for one in left} == {IDS[0], IDS[1]}
    assert prune.old_ones(run, os.getuid(), 0.0) == run.images(os.getuid())


@pytest.mark.parametrize(("fill", "count"), [(79.0, 0), (85.0, 1), (99.0, 2)])
def test_room_when_the_disk_is_full_then_the_longest_unused_go_until_it_is_not(
    run: OneUser, fill: float, count: int
) -> None:
    run.fill = fill
    prune.make_room(run, sorted(run.images(os.getuid())), 80.0)
    assert run.removed == [IDS[2], IDS[0]][:count]


def test_room_when_the_time_is_over_then_the_rest_waits(run: OneUser) -> None:
    run.fill, run.end = 99.0, time.monotonic()
    prune.make_room(run, [Unused(0.0, 1, IDS[0])], 80.0)
    assert run.removed == []


def test_users_when_a_directory_is_another_users_then_it_does_not_count(tmp_path: Path) -> None:
    (tmp_path / str(os.getuid() + 1)).mkdir()
    (tmp_path / "lost+found").mkdir()
    assert list(Run(str(tmp_path)).users()) == []
    assert list(Run(str(tmp_path / "missing")).users()) == []


def test_images_of_former_users_go_but_not_those_of_users_who_are_still_there(tmp_path: Path) -> None:
    gone = 2_000_000_000
    for uid in (gone, gone + 1, os.getuid()):
        (tmp_path / str(uid) / "overlay").mkdir(parents=True)
    settings = {"storage": str(tmp_path), "unused_for": 0, "above": 0, "former": [gone, os.getuid()]}
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    prune.of_former(Run(str(tmp_path)), [gone, os.getuid()])
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {str(gone + 1), str(os.getuid())}


def test_images_when_asked_for_by_the_program_then_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image(tmp_path, 1, age=2)
    assert main.main("images", str(tmp_path)) == 0
    assert capsys.readouterr().out.split()[1] == IDS[1]
