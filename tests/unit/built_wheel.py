"""The wheel of `make wheel`, installed into an environment outside the checkout, without a package index."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from slurmfab import __version__

TOP = Path(__file__).parents[2]


def build(place: Path) -> Path:
    """The wheel that `make wheel` writes in a copy of the sources, which is removed; constraints.txt is beside it."""
    sources = place / "sources"
    tracked = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard"], cwd=TOP, text=True)
    for name in filter(lambda one: os.path.lexists(TOP / one), tracked.splitlines()):
        (sources / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(TOP / name, sources / name, follow_symlinks=False)
    stale = sources / "build/lib/slurmfab/gone.py"
    stale.parent.mkdir(parents=True)
    stale.touch()
    # make takes setup as done: BIN is an environment that has what the build needs.
    run("make", "--old-file=setup", "wheel", f"BIN={Path(sys.executable).parent}", cwd=sources)
    (sources / "dist").rename(place / "dist")
    shutil.rmtree(sources)
    (wheel,) = (place / "dist").glob("*.whl")
    return wheel


@dataclass(frozen=True)
class Installed:
    """A wheel in an environment of its own.

    Args:
        program: the `slurmfab` there.
        home: an empty home directory.
        directory: an empty working directory.
    """

    program: Path
    home: Path
    directory: Path

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of somebody who has no source tree."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURMFAB", "PYTHON"))}
        return {**kept, "HOME": str(self.home)}

    def run(self, *command: str) -> str:
        """What a command prints in the working directory; it has to succeed."""
        return run(*command, cwd=self.directory, env=self.environment)

    def slurmfab(self, *words: str) -> str:
        """What slurmfab prints there; it has to succeed."""
        return self.run(str(self.program), *words)


def install(wheel: Path, place: Path) -> Installed:
    """Install a wheel into a new environment with the packages that it names, and what these need, and no others."""
    run(sys.executable, "-m", "venv", "--without-pip", str(place / "venv"))
    libraries, home, directory = place / "libraries", place / "home", place / "work"
    for folder in (libraries, home / ".ssh", directory):
        folder.mkdir(parents=True, mode=0o700)
    for top in {path for name in needed(wheel) for path in tops_of(name)}:
        (libraries / top.name).symlink_to(top)
    (site_packages,) = (place / "venv/lib").glob("*/site-packages")
    (site_packages / "libraries.pth").write_text(f"{libraries}\n")
    pip = (sys.executable, "-m", "pip", "--python", str(place / "venv/bin/python"))
    run(*pip, "install", "--no-deps", "--no-index", str(wheel))
    run(*pip, "check")
    return Installed(place / "venv/bin/slurmfab", home, directory)


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


def run(*command: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """What a command prints; it has to succeed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=cwd, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
