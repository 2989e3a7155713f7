"""What this machine runs slurmfab with: Python, its packages, ssh, the terminal, the disk, the clock."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import TextIO

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from slurmfab import __version__
from slurmfab.base.archive import format_size
from slurmfab.base.program_name import FAB
from slurmfab.commands.doctor.finding import Finding, failure, ok, warning

SECONDS = 10
PROGRAMS = {
    "ssh": f"{FAB} ssh, jump hosts by ProxyCommand, and rsync need it (Debian: openssh-client)",
    "ssh-keygen": "signatures, new SSH keys and files of revoked host keys need it (Debian: openssh-client)",
}
LITTLE, NONE = 1 << 30, 64 << 20
"""Bytes free: fewer are too few for a backup or a bundle; fewer than that for records and the lock."""

SYNCHRONIZED = ("timedatectl", "show", "--property", "NTPSynchronized", "--value")


def python_and_packages() -> Iterator[Finding]:
    """Yield whether Python and the packages are of the versions that slurmfab was made for."""
    try:
        own = metadata.distribution("slurmfab")
    except metadata.PackageNotFoundError:
        yield warning("slurmfab", f"{__version__} runs from its sources without an installation.", "pip install .")
        return
    yield ok("slurmfab", f"{__version__} at {Path(__file__).parents[2]}")
    yield from judged_python(str(own.metadata["Requires-Python"] or ""), sys.version_info[:3])
    needed = [one for one in map(Requirement, own.requires or ()) if not one.marker or one.marker.evaluate()]
    yield from judged_packages({str(one.name): str(one.specifier) for one in needed})


def judged_python(bounds: str, version: tuple[int, ...]) -> Iterator[Finding]:
    """Yield whether Python's version is within bounds. `bounds`: such as `>=3.10`. `version`: the version that runs."""
    text = ".".join(map(str, version))
    if SpecifierSet(bounds).contains(text, prereleases=True):
        yield ok("Python", f"{text} ({sys.executable})")
    else:
        yield failure("Python", f"{text} runs, but slurmfab needs {bounds}.", "Make an environment with one.")


def judged_packages(needed: Mapping[str, str]) -> Iterator[Finding]:
    """Yield whether packages are installed in versions within their bounds, such as `>=5.0.1,<6`, by name."""
    wrong, right = list[str](), list[str]()
    for name, bounds in sorted(needed.items()):
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            version = ""
        is_right = version and SpecifierSet(bounds).contains(version, prereleases=True)
        (right if is_right else wrong).append(f"{name} {version or 'missing'}")
    if not wrong:
        yield ok("packages", ", ".join(right))
        return
    wanted = " ".join(f"'{name.split()[0]}{needed[name.split()[0]]}'" for name in wrong)
    yield failure("packages", f"{', '.join(wrong)}: not as needed.", f"{sys.executable} -m pip install {wanted}")


def programs() -> Iterator[Finding]:
    """Yield which programs of this machine are missing."""
    missing = [f"there is no {name}; {why}" for name, why in PROGRAMS.items() if not shutil.which(name)]
    if missing:
        yield warning("ssh programs", ". ".join(missing) + ".")
        return
    said = subprocess.run(["ssh", "-V"], capture_output=True, text=True, timeout=SECONDS, check=False)
    yield ok("ssh programs", said.stderr.strip() or "there")


def terminal(out: TextIO, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Yield whether texts look as they should. `out`: where texts go. `environment`: this process's."""
    encoding = str(getattr(out, "encoding", "") or "")
    name = next((environment[key] for key in ("LC_ALL", "LC_CTYPE", "LANG") if environment.get(key)), "not set")
    if re.sub(r"[-_]", "", encoding).lower() == "utf8":
        yield ok("language", f"{encoding}, LANG {name}")
    else:
        text = f"texts are written as {encoding or 'an unknown encoding'} (LANG {name}), which lacks characters."
        yield warning("language", text, "Set a UTF-8 locale: export LANG=C.UTF-8")


def disk(directory: Path) -> Iterator[Finding]:
    """Yield whether there is room for records, backups and bundles in the directory, or the nearest one above it."""
    there = next(place for place in (directory, *directory.absolute().parents) if place.is_dir())
    free = shutil.disk_usage(there).free
    text = f"{format_size(free)} free at {there}"
    if free < NONE:
        yield failure("disk", f"{text}: records and the lock may not be written.", "Free some space.")
    elif free < LITTLE:
        yield warning("disk", f"{text}: too little for backups and bundles.", "Free some space.")
    else:
        yield ok("disk", text)


UNKNOWN_CLOCK = "this machine does not say whether a time service keeps it right (timedatectl)."


def clock() -> Iterator[Finding]:
    """Yield whether a time service keeps this machine's clock right."""
    repair = "Run a time service, for example: apt install chrony"
    try:
        said = subprocess.run(SYNCHRONIZED, capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.SubprocessError):
        yield warning("clock", UNKNOWN_CLOCK, repair)
        return
    answer = said.stdout.strip()
    if answer == "no":
        yield warning("clock", "no time service keeps this machine's clock right.", repair)
    elif answer == "yes":
        yield ok("clock", "kept right by a time service")
    else:
        yield warning("clock", UNKNOWN_CLOCK, repair)
