"""The pins of the packages that slurmfab installs: complete, with hashes, and within the ranges of setup.cfg."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from test_packaging import TOP, setup_cfg

FILES = ("constraints.txt", "constraints-dev.txt")
PYTHONS = ("3.10.13", "3.11.9", "3.12.7", "3.13.5", "3.14.0")
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class Pin:
    """One version of one package, with its text in the file."""

    requirement: Requirement
    text: str

    @property
    def version(self) -> str:
        return next(iter(self.requirement.specifier)).version


def pins(file: str) -> dict[str, list[Pin]]:
    """The pins of a file by package; several where the version depends on Python's."""
    found: dict[str, list[Pin]] = {}
    for text in re.findall(r"^[a-z0-9][^\\\n]*(?:\\\n[^\\\n]*)*", (TOP / file).read_text(), re.M):
        requirement = Requirement(text.partition("\\")[0])
        found.setdefault(canonicalize_name(requirement.name), []).append(Pin(requirement, text))
    return found


def ranges(*, dev: bool) -> list[Requirement]:
    """What setup.cfg and pyproject.toml ask for."""
    listed = setup_cfg()["options"]["install_requires"].split()
    listed += setup_cfg()["options.extras_require"]["dev"].split() if dev else []
    built = re.search(r'^requires = \["(.*)"\]$', (TOP / "pyproject.toml").read_text(), re.M)
    assert built
    return [Requirement(text) for text in (*listed, built.group(1))]


def with_dependencies(wanted: Iterable[Requirement]) -> Iterator[Requirement]:
    """Requirements, and those of the installed packages that they lead to, for this Python."""
    todo, seen = list(wanted), set()
    while todo:
        requirement = todo.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        yield requirement
        name = canonicalize_name(requirement.name)
        if name not in seen:
            seen.add(name)
            todo += [Requirement(text) for text in metadata.requires(name) or ()]


@pytest.mark.parametrize("file", FILES)
def test_each_pin_names_one_version_with_hashes_and_no_place_to_fetch_it_from(file: str) -> None:
    for name, there in pins(file).items():
        for pin in there:
            assert [one.operator for one in pin.requirement.specifier] == ["=="], name
            assert HASH.search(pin.text), name
            assert pin.requirement.url is None, name
    assert not re.search(r"://|^ *--(?!hash=)", (TOP / file).read_text(), re.M)


@pytest.mark.parametrize("file", FILES)
def test_everything_that_is_installed_is_pinned_within_the_ranges_that_lead_to_it(file: str) -> None:
    pinned = pins(file)
    for requirement in with_dependencies(ranges(dev=file == "constraints-dev.txt")):
        here = [
            pin
            for pin in pinned.get(canonicalize_name(requirement.name), ())
            if pin.requirement.marker is None or pin.requirement.marker.evaluate()
        ]
        assert len(here) == 1, requirement
        assert requirement.specifier.contains(here[0].version), requirement


def test_what_setup_cfg_asks_for_is_pinned_within_its_range_for_every_python() -> None:
    for requirement in ranges(dev=True):
        for pin in pins("constraints-dev.txt")[canonicalize_name(requirement.name)]:
            assert requirement.specifier.contains(pin.version), requirement


def test_the_tools_of_developers_are_installed_beside_the_same_versions_that_users_get() -> None:
    everything = pins("constraints-dev.txt")
    for name, there in pins("constraints.txt").items():
        assert {pin.version for pin in there} <= {pin.version for pin in everything[name]}, name


@pytest.mark.parametrize("python", PYTHONS)
def test_each_pinned_version_that_is_installed_here_runs_on_every_python_it_is_pinned_for(python: str) -> None:
    environment = {"python_version": python.rpartition(".")[0], "python_full_version": python}
    assert SpecifierSet(setup_cfg()["options"]["python_requires"]).contains(python)
    compared = 0
    for name, there in pins("constraints-dev.txt").items():
        for pin in there:
            applies = pin.requirement.marker is None or pin.requirement.marker.evaluate(environment)
            if applies and installed(name) == pin.version:
                assert SpecifierSet(metadata.metadata(name)["Requires-Python"] or "").contains(python), name
                compared += 1
    assert compared > len(ranges(dev=True)) / 2


def installed(name: str) -> str:
    """The version of a package in this environment; empty where it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def test_another_package_under_a_pinned_name_and_version_is_refused(tmp_path: Path) -> None:
    (pin,) = pins("constraints.txt")["iniconfig"]
    (tmp_path / "pins.txt").write_text(pin.text)
    with zipfile.ZipFile(tmp_path / f"iniconfig-{pin.version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("iniconfig.py", "raise SystemExit('not what was pinned')")
        folder = f"iniconfig-{pin.version}.dist-info"
        wheel.writestr(f"{folder}/METADATA", f"Metadata-Version: 2.1\nName: iniconfig\nVersion: {pin.version}\n")
        wheel.writestr(f"{folder}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{folder}/RECORD", "")
    options = ["--isolated", "install", "--dry-run", "--ignore-installed", "--no-deps", "--no-index"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", *options, "--find-links", str(tmp_path), "--require-hashes", "-r", "pins.txt"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr


def test_what_make_setup_and_the_documentation_install_is_checked_against_the_hashes() -> None:
    makefile = (TOP / "Makefile").read_text()
    assert "--require-hashes --requirement constraints-dev.txt" in makefile
    text = (TOP / "docs/quickstart.md").read_text()
    assert "pip install --require-hashes -r constraints.txt" in text
    assert "pip install --no-deps slurmfab-*.whl" in text
