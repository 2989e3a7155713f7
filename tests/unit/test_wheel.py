"""The wheel of `make wheel`: everything is in it, and it is a whole slurmfab without the source tree."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import built_wheel
import pytest
from built_wheel import TOP, Installed

from slurmfab import __version__

SHARE = f"slurmfab-{__version__}.data/data/share"
"""Where a wheel has the files that an installation puts into share/."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel.build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Installed:
    return built_wheel.install(wheel, tmp_path_factory.mktemp("fresh"))


def test_a_wheel_when_looked_into_then_holds_all_files_of_the_package_pages_and_examples(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if "/__pycache__/" not in name}
    places = {TOP / "slurmfab": "slurmfab", TOP / "templates": "slurmfab/templates"}
    places |= {TOP / "docs": f"{SHARE}/doc/slurmfab/docs"}
    pages = set((TOP / "docs").rglob("*.md"))
    files = {path for folder in ("slurmfab", "templates") for path in (TOP / folder).rglob("*") if path.is_file()}
    there = {
        f"{inside}/{path.relative_to(place)}"
        for place, inside in places.items()
        for path in files | pages
        if path.is_relative_to(place) and "__pycache__" not in path.parts
    }
    there |= {f"{SHARE}/man/man{path.suffix[1:]}/{path.name}" for path in (TOP / "man").iterdir()}
    there |= {f"{SHARE}/doc/slurmfab/examples/{path.name}" for path in (TOP / "configs").glob("example-*.yaml")}
    rest = {name for name in names - there if not name.startswith(f"slurmfab-{__version__}.dist-info/")}
    assert (sorted(there - names), sorted(rest)) == ([], [])


def test_a_release_when_made_then_has_the_pins_beside_the_wheel(wheel: Path) -> None:
    assert wheel.name == f"slurmfab-{__version__}-py3-none-any.whl"
    assert (wheel.parent / "constraints.txt").read_bytes() == (TOP / "constraints.txt").read_bytes()


def test_an_installed_slurmfab_when_asked_where_it_is_then_knows_no_source_tree(installed: Installed) -> None:
    told = "import json, sys, slurmfab; print(json.dumps([slurmfab.__file__, *sys.path]))"
    paths = json.loads(installed.run(str(installed.program.with_name("python")), "-c", told))
    assert Path(paths[0]).is_relative_to(installed.program.parents[1])
    assert not any(path.startswith(str(TOP)) for path in paths)


def test_an_installed_slurmfab_when_it_starts_a_process_of_its_own_then_that_has_the_libraries_beside_it(
    installed: Installed,
) -> None:
    child = "import sys; print(sys.path)"
    started = f"import subprocess, slurmfab.base.surroundings as own; subprocess.run(own.python({child!r}), check=True)"
    told = installed.run(str(installed.program.with_name("python")), "-c", started)
    beside = installed.run(
        str(installed.program.with_name("python")), "-c", "import slurmfab; print(slurmfab.__file__)"
    )
    assert repr(str(Path(beside.strip()).parents[1])) in told


def test_an_installed_slurmfab_when_first_used_then_tells_its_version_and_writes_a_cluster_file(
    installed: Installed,
) -> None:
    assert __version__ in installed.slurmfab("--version")
    installed.slurmfab("init", "--name", "lab", "--controller", "ctl", "--nodes", "n[1-2]", "--yes")
    written = {str(path.relative_to(installed.directory)) for path in installed.directory.rglob("*") if path.is_file()}
    assert written >= {"configs/cluster.yaml", "configs/cluster.schema.json", "fabfile.py"}


def test_an_installed_slurmfab_when_asked_for_help_then_completes_has_manual_pages_and_gives_fab_its_tasks(
    installed: Installed,
) -> None:
    program = installed.program
    assert "check-cluster" in installed.slurmfab("--complete", "--", "slurmfab check-c").split()
    assert str(program) in installed.slurmfab("completion", "bash")
    assert (program.parents[1] / "share/man/man1/slurmfab-deploy.1").is_file()
    installed.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{installed.home}/.ssh/id_ed25519")
    assert f" at {program.parents[1]}" in installed.slurmfab("doctor", "--local")
    (installed.directory / "fabfile.py").write_text("from slurmfab.fabfile import namespace\n")
    assert "check-cluster" in installed.run(str(program.with_name("python")), "-m", "fabric", "--list")
