"""The wheel: installed into an environment of its own, it deploys and checks without the source tree."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest
from lab_cluster import AS_SLURM, DeployedLab
from lab_user import Person, running_lab, words_of
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from suites import NEWEST

from slurmfab import __version__
from slurmfab.lab import LabSpec

pytestmark = pytest.mark.lab

TOP = Path(__file__).parents[2]
SOURCES = ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "slurmfab", "man", "configs")
SPEC = LabSpec(name="hwheel", suite=NEWEST, nodes=1)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the sources."""
    place = tmp_path_factory.mktemp("wheel")
    sources = place / "sources"
    sources.mkdir()
    for name in SOURCES:
        if (TOP / name).is_dir():
            shutil.copytree(TOP / name, sources / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(TOP / name, sources)
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(place), str(sources))
    shutil.rmtree(sources)
    return next(place.glob("*.whl"))


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Person:
    """Somebody who has installed the wheel into an environment of its own, and has no source tree.

    The environment has the packages that the wheel names, and what these need, and no others.
    """
    place = tmp_path_factory.mktemp("fresh")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place / "venv")], check=True)
    libraries = place / "libraries"
    libraries.mkdir()
    for top in {path for name in needed(wheel) for path in tops_of(name)}:
        (libraries / top.name).symlink_to(top)
    (site_packages,) = (place / "venv/lib").glob("*/site-packages")
    (site_packages / "libraries.pth").write_text(f"{libraries}\n")
    into = ("--python", str(place / "venv/bin/python"))
    pip(*into, "install", "--no-deps", "--no-index", str(wheel))
    pip(*into, "check")
    return replace(Person.at(place), program=(str(place / "venv/bin/slurmfab"),))


def needed(wheel: Path) -> set[str]:
    """The packages that a wheel needs, and those that they need, by their metadata."""
    own = metadata.PathDistribution(zipfile.Path(wheel, f"slurmfab-{__version__}.dist-info/"))  # type: ignore[arg-type]
    found, open_ends = set[str](), wanted_by(own.requires)
    while open_ends:
        name = open_ends.pop()
        if name not in found:
            found.add(name)
            open_ends += wanted_by(metadata.requires(name))
    return found


def wanted_by(requirements: list[str] | None) -> list[str]:
    """The names of packages that are required without any extra."""
    every = map(Requirement, requirements or ())
    return [canonicalize_name(one.name) for one in every if not one.marker or one.marker.evaluate({"extra": ""})]


def tops_of(name: str) -> set[Path]:
    """The files and directories of an installed package beside those of others."""
    package = metadata.distribution(name)
    files = [path for path in package.files or () if path.parts[0] not in ("..", "__pycache__")]
    return {Path(str(package.locate_file(path.parts[0]))) for path in files}


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedLab]:
    with running_lab(SPEC, tmp_path_factory.mktemp("hosts")) as made:
        yield made


def pip(*words: str) -> None:
    """Run pip, which asks no package index here."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", *words], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def in_share(path: str) -> str:
    """Where a wheel has a file that an installation puts into share/."""
    return f"slurmfab-{__version__}.data/data/share/{path}"


def test_the_wheel_when_looked_into_then_holds_all_files_of_the_package_manual_pages_and_examples(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    there = {str(path.relative_to(TOP)) for path in (TOP / "slurmfab").rglob("*") if path.is_file()}
    there |= {in_share(f"man/man{path.suffix[1:]}/{path.name}") for path in (TOP / "man").iterdir()}
    there |= {in_share(f"doc/slurmfab/examples/{path.name}") for path in (TOP / "configs").glob("example-*.yaml")}
    assert sorted(name for name in there - names if "__pycache__" not in name) == []
    assert not any(name.startswith(("tests/", "docs/", "reference/")) for name in names)


def test_an_installed_slurmfab_when_asked_where_it_is_then_knows_no_source_tree(person: Person) -> None:
    told = "import json, sys, slurmfab; print(json.dumps([slurmfab.__file__, *sys.path]))"
    python = Path(person.program[0]).with_name("python")
    command = [str(python), "-c", told]
    answer = subprocess.check_output(command, env=person.environment, cwd=person.directory)
    paths = json.loads(answer)
    assert Path(paths[0]).is_relative_to(python.parents[1])
    assert not any(path.startswith(str(TOP)) for path in paths)


def test_an_installed_slurmfab_when_used_in_an_empty_directory_then_builds_a_cluster_that_passes_its_checks(
    person: Person, hosts: DeployedLab
) -> None:
    lines = "".join(f"{host.name} ansible_host={host.address}\n" for host in hosts.lab.hosts)
    (person.directory / "hosts.ini").write_text(f"[slurm]\n{lines}[slurm:vars]\nansible_user=root\n")
    words = ["--hosts", "@hosts.ini:slurm", "--key", str(hosts.lab.ssh_key), "--accept-new-host-keys"]
    done = person.slurmfab("deploy", *words, "--controller-computes")
    assert done.returncode == 0, words_of(done)
    assert sorted(hosts.on("ctl", AS_SLURM + "srun -N2 hostname").split()) == ["ctl", "n1"]
    checked = person.slurmfab("check-cluster")
    assert checked.returncode == 0, words_of(checked)


def test_an_installed_slurmfab_when_asked_for_help_then_completes_has_manual_pages_and_gives_fab_its_tasks(
    person: Person,
) -> None:
    program = Path(person.program[0])
    offered = person.slurmfab("--complete", "fish", "slurmfab", "check-c").stdout
    assert offered.splitlines()[1].startswith("check-cluster\t")
    assert str(program) in person.slurmfab("completion", "bash").stdout
    assert (program.parents[1] / "share/man/man1/slurmfab-deploy.1").is_file()
    assert person.slurmfab("doctor", "--local").stdout.count("\n") > 5
    (person.directory / "fabfile.py").write_text("from slurmfab.fabfile import namespace\n")
    fab = [str(program.with_name("python")), "-m", "fabric", "--list"]
    listed = subprocess.check_output(fab, env=person.environment, cwd=person.directory, text=True)
    assert "check-cluster" in listed
