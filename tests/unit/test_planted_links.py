"""Links that somebody has put where slurmfab writes by names of its own: nothing is written behind them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from slurmfab.base import atomic_file, surroundings
from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory import fabfile
from slurmfab.commands.backup import archive
from slurmfab.commands.support_bundle import making

CLUSTER = "cluster: tiny\ncontrollers: [ctl]\nnodes: [{hosts: n1}]\npartitions: [{PartitionName: main, Nodes: n1}]\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with a cluster file in `configs`, and a file and a directory of somebody else's interest."""
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs/cluster.yaml").write_text(CLUSTER)
    (tmp_path / "file").write_text("precious\n")
    (tmp_path / "folder").mkdir(mode=0o755)
    return tmp_path


def carried_out(place: Path, *words: str) -> tuple[int, str]:
    """The exit code of a command that is run there, and what it said."""
    done = subprocess.run(
        surroundings.program(*words), cwd=place, capture_output=True, text=True, check=False, timeout=120
    )
    return done.returncode, done.stdout + done.stderr


def untouched(place: Path) -> tuple[str, int, list[str]]:
    """The file's text, the directory's mode, and what is in it."""
    folder = place / "folder"
    return (place / "file").read_text(), folder.stat().st_mode & 0o777, [path.name for path in folder.iterdir()]


@pytest.mark.parametrize(
    ("link", "leads_to", "command"),
    [
        ("configs/cluster.known_hosts", "file", "ssh-config"),
        ("configs/cluster.known_hosts", "nowhere", "ssh-config"),
        ("tiny-users", "folder", "user-guide"),
        ("tiny-users/guide.html", "file", "user-guide"),
        ("tiny-users/guide.html", "nowhere", "user-guide"),
    ],
)
def test_a_link_in_place_of_what_a_command_writes_is_refused_and_named(
    place: Path, link: str, leads_to: str, command: str
) -> None:
    (place / link).parent.mkdir(exist_ok=True)
    (place / link).symlink_to(place / leads_to)
    code, said = carried_out(place, command)
    assert (code, f"{link} is a link" in " ".join(said.split())) == (2, True), said
    assert untouched(place) == ("precious\n", 0o755, [])
    assert not (place / "nowhere").exists()


def test_a_record_that_others_may_write_is_named_by_history_and_ignored(place: Path) -> None:
    runs = place / "configs/cluster.runs"
    runs.mkdir(mode=0o755)
    begun = "2030-01-01T00:00:00+00:00"
    values = {"command": "deploy", "by": "ann@laptop", "begun": begun, "ended": begun, "hosts": ["n1"], "exit_code": 0,
              "steps": [], "lost": {}, "cluster_file": CLUSTER, "lock": {}}  # fmt: skip
    planted = runs / "20300101T000000.000000Z-aaaa.json"
    planted.write_text(json.dumps(values))
    planted.chmod(0o644)
    assert "ann@laptop" in carried_out(place, "history")[1]
    planted.chmod(0o666)
    _, said = carried_out(place, "history")
    assert "ann@laptop" not in said
    assert f"others may write to {planted.relative_to(place)} (mode 0666)" in " ".join(said.split())


@pytest.mark.parametrize(
    "write",
    [
        lambda place: archive.make_directory(place / "configs/cluster.yaml"),
        lambda place: making.place_of_archive(place / "configs/cluster.yaml", "some", ""),
        lambda place: atomic_file.write_private(place / "configs/cluster.runs/one", "x", place / "file"),
    ],
)
def test_a_link_in_place_of_a_directory_is_refused_and_the_other_directory_keeps_its_mode(
    place: Path, write: Callable[[Path], object]
) -> None:
    for name in ("backups", "support", "runs"):
        (place / f"configs/cluster.{name}").symlink_to(place / "folder")
    with pytest.raises(InputError, match="is a link"):
        write(place)
    assert untouched(place) == ("precious\n", 0o755, [])


@pytest.mark.parametrize("leads_to", ["nowhere", "file"])
def test_a_link_in_place_of_the_fabfile_stays_and_nothing_is_written(place: Path, leads_to: str) -> None:
    (place / "fabfile.py").symlink_to(place / leads_to)
    assert fabfile.provide(place / "configs/cluster.yaml") == ""
    assert untouched(place) == ("precious\n", 0o755, [])
    assert not (place / "nowhere").exists()


@pytest.mark.parametrize("leads_to", ["nowhere", "file"])
def test_a_link_in_place_of_a_file_with_a_name_of_slurmfabs_is_refused(place: Path, leads_to: str) -> None:
    (place / "link").symlink_to(place / leads_to)
    with pytest.raises(InputError, match="link is a link"):
        atomic_file.write(place / "link", "new")
    assert untouched(place) == ("precious\n", 0o755, [])
    assert not (place / "nowhere").exists()
