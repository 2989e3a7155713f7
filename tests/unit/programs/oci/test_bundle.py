"""sbundle, with stand-ins for skopeo and umoci."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from slurmfab.on_hosts.programs.oci.bundle import main, name_of, source_of

SKOPEO = """#!/bin/sh
echo "skopeo $*" >>"$LOG"
echo "runtime $XDG_RUNTIME_DIR" >>"$LOG"
[ -z "$FAIL" ] || exit 1
echo copying
"""
UMOCI = """#!/bin/sh
echo "umoci $*" >>"$LOG"
for last; do :; done
mkdir -p "$last/rootfs/closed" && echo '{"annotations": null}' >"$last/config.json"
touch "$last/rootfs/closed/file" && chmod 500 "$last/rootfs/closed"
[ -z "$FAIL_LATER" ] || exit 1
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of a user whose PATH has the stand-ins."""
    home, programs = tmp_path / "home", tmp_path / "bin"
    home.mkdir()
    programs.mkdir()
    for name, text in {"skopeo": SKOPEO, "umoci": UMOCI}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/of-another-host")
    monkeypatch.chdir(home)
    return home


def log(home: Path) -> list[str]:
    return (home.parent / "log").read_text().splitlines()


def test_sbundle_when_an_image_is_in_a_registry_then_the_bundle_is_below_home(
    home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main("debian:12") == 0
    said = capfd.readouterr()
    assert said.out == f"{home}/bundles/debian-12\n"
    assert f"srun --container={home}/bundles/debian-12 COMMAND" in said.err
    assert [path.name for path in (home / "bundles").iterdir()] == ["debian-12"]
    work = str(home / "bundles/.debian-12.")
    assert log(home)[0].startswith(f"skopeo copy --remove-signatures docker://debian:12 oci:{work}")
    assert log(home)[1].startswith(f"runtime {work}"), "a directory of the user's, not that of another host"
    assert log(home)[2].startswith(f"umoci unpack --rootless --image {work}")


HANGING = """#!/bin/sh
for last; do :; done
mkdir -p "$last" && touch "$LOG" && sleep 60
"""
ANOTHER = "import sys; from slurmfab.on_hosts.programs.oci.bundle import main; sys.exit(main('debian:12', 'mine'))"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_sbundle_when_it_is_cut_off_then_nothing_is_left_or_the_next_one_removes_it(
    home: Path, number: signal.Signals
) -> None:
    umoci = home.parent / "bin/umoci"
    umoci.write_text(HANGING)
    (home.parent / "log").unlink(missing_ok=True)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])}
    with subprocess.Popen([sys.executable, "-c", ANOTHER], env=environment, start_new_session=True) as cut_off:
        while not list(home.glob(".mine.*/bundle")):
            assert cut_off.poll() is None
        if number == signal.SIGKILL:
            umoci.write_text(UMOCI)
            assert main("debian:12", "other") == 0
            assert list(home.glob(".mine.*")), "what another one works with stays"
        os.killpg(cut_off.pid, number)
    assert bool(list(home.glob(".mine.*"))) == (number == signal.SIGKILL)
    umoci.write_text(UMOCI)
    assert main("debian:12", "mine") == 0
    assert not list(home.glob(".*"))


def test_sbundle_when_a_bundle_is_there_then_only_force_replaces_it(
    home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main("debian:12", "mine") == 0
    (home / "mine/old").touch()
    assert main("debian:12", "mine") == 1
    assert "mine is there already; --force replaces it" in capfd.readouterr().err
    assert (home / "mine/old").exists()
    assert main("--force", "debian:12", "mine") == 0
    assert not (home / "mine/old").exists()
    assert [path.name for path in home.iterdir()] == ["mine"]


def test_sbundle_when_the_directory_is_something_else_then_force_does_not_remove_it(
    home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (home / "work").mkdir()
    assert main("--force", "debian:12", "work") == 1
    assert "it is no bundle" in capfd.readouterr().err
    assert (home / "work").is_dir()


@pytest.mark.parametrize(("which", "words"), [("FAIL", "skopeo copy failed"), ("FAIL_LATER", "umoci unpack failed")])
def test_sbundle_when_a_step_fails_then_nothing_is_left(
    home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], which: str, words: str
) -> None:
    monkeypatch.setenv(which, "1")
    assert main("debian:12", "mine") == 1
    assert words in capfd.readouterr().err
    assert list(home.iterdir()) == []


def test_sbundle_when_home_is_not_wanted_then_the_bundle_says_so(home: Path) -> None:
    assert main("--no-home", "debian:12", "mine") == 0
    assert json.loads((home / "mine/config.json").read_text()) == {"annotations": {"slurmfab.home": "no"}}


def test_sbundle_when_a_program_is_missing_then_it_says_which(
    home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(home))
    assert main("debian:12") == 1
    assert "skopeo is not installed on this host" in capfd.readouterr().err


def test_sbundle_when_a_path_has_a_colon_then_it_is_refused(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main("debian:12", f"{home}/a:b/c") == 1
    assert "cannot use a path with a colon" in capfd.readouterr().err


def test_sbundle_when_a_directory_is_closed_then_it_says_where(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (home / "file").touch()
    assert main("debian:12", "file/mine") == 1
    assert "file" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("image", "source", "name"),
    [
        ("debian", "docker://debian", "debian"),
        ("registry:5000/sim:3", "docker://registry:5000/sim:3", "sim-3"),
        ("docker://x.org/a/b@sha256:00ff", "docker://x.org/a/b@sha256:00ff", "b-00ff"),
        ("docker-archive:/data/sim.tar", "docker-archive:/data/sim.tar", "sim.tar"),
        ("oci:images:sim", "oci:images:sim", "images-sim"),
        ("containers-storage:localhost/sim:1", "containers-storage:localhost/sim:1", "sim-1"),
    ],
)
def test_names_when_an_image_is_somewhere_then_skopeos_and_the_bundles_follow(
    image: str, source: str, name: str
) -> None:
    assert (source_of(image), name_of(image)) == (source, name)


@pytest.mark.parametrize("image", ["docker://", "oci:..", "/", "..."])
def test_sbundle_when_an_image_has_no_name_then_it_is_refused(
    home: Path, capfd: pytest.CaptureFixture[str], image: str
) -> None:
    assert main(image) == 1
    assert "names no image" in capfd.readouterr().err
    assert list(home.iterdir()) == []
