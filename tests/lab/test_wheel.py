"""The wheel: installed into an environment of its own, it deploys and checks without the source tree."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from lab_cluster import DeployedLab
from lab_user import Person, running_lab, words_of

from slurmfab.lab import LabSpec

pytestmark = pytest.mark.lab

TOP = Path(__file__).parents[2]
SOURCES = ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "slurmfab", "templates")
SPEC = LabSpec(name="hwheel", suite="trixie", nodes=1)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with an environment that has the pinned packages and no slurmfab."""
    place = tmp_path_factory.mktemp("fresh")
    subprocess.run([sys.executable, "-m", "venv", str(place / "venv")], check=True)
    pip(place, "install", "--require-hashes", "-r", str(TOP / "constraints.txt"))
    return place


@pytest.fixture(scope="module")
def wheel(place: Path) -> Path:
    """The wheel, built from a copy of the sources."""
    sources = place / "sources"
    sources.mkdir()
    for name in SOURCES:
        if (TOP / name).is_dir():
            shutil.copytree(TOP / name, sources / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(TOP / name, sources)
    pip(place, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(place), str(sources))
    shutil.rmtree(sources)
    return next(place.glob("*.whl"))


@pytest.fixture(scope="module")
def person(place: Path, wheel: Path) -> Person:
    """Somebody who has installed the wheel as the quickstart says, and has no source tree."""
    pip(place, "install", "--no-deps", "--no-index", str(wheel))
    pip(place, "check")
    return replace(Person.at(place), program=(str(place / "venv/bin/slurmfab"),))


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedLab]:
    with running_lab(SPEC, tmp_path_factory.mktemp("hosts")) as made:
        yield made


def pip(place: Path, *words: str) -> None:
    """Run pip in the environment, with whatever this machine has told it of package indexes."""
    python = str(place / "venv/bin/python")
    done = subprocess.run(
        [python, "-m", "pip", "--quiet", *words], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_wheel_when_looked_into_then_holds_templates_agent_sources_and_checks(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder, packed, pattern in (
        ("templates", "slurmfab/templates", "*.j2"),
        ("templates/report", "slurmfab/templates/report", "*.*"),
        ("templates/guide", "slurmfab/templates/guide", "*.*"),
        ("slurmfab/agent", "slurmfab/agent", "*.py"),
        ("slurmfab/checks", "slurmfab/checks", "*.py"),
    ):
        there = {f"{packed}/{path.name}" for path in (TOP / folder).glob(pattern)}
        assert there
        assert there <= names
    assert not any(name.startswith(("tests/", "docs/")) for name in names)


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
    assert sorted(hosts.on("ctl", "cd /tmp && srun -N2 hostname").split()) == ["ctl", "n1"]
    checked = person.slurmfab("check-cluster")
    assert checked.returncode == 0, words_of(checked)
