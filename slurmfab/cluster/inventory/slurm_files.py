"""Files of the site's own in Slurm's directory (key `slurm_files`), read from beside the cluster file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, Field

from slurmfab.base import bounded_file
from slurmfab.base.errors import BrokenFile, InputError, refuse
from slurmfab.cluster.inventory.named_path import named

EXECUTABLE, PLAIN = 0o755, 0o644  # the modes that files get on hosts: of one that is executable here, and of another
MOST_FILES = 64  # the most files
LARGEST_FILE = 256 * 1024  # the most bytes of a file

LARGEST_SUM = 1024 * 1024
"""The most bytes of all files together: they are compared with those of every host in every deployment."""

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}(/[A-Za-z0-9_][A-Za-z0-9_.-]{0,99})?")
"""Names of files in Slurm's directory."""


class SiteFile(NamedTuple):
    """A file of the site's own in Slurm's directory."""

    name: str  # its path below that directory, such as `topology.conf` or `plugstack.conf.d/x11.conf`
    text: str  # its content; bytes that are not UTF-8 are surrogates
    mode: int = PLAIN


def _check_names(files: dict[str, str]) -> dict[str, str]:
    if len(files) > MOST_FILES:
        raise ValueError(f"there are {len(files)} files; at most {MOST_FILES} are allowed")
    for name in files:
        if not NAME.fullmatch(name):
            raise ValueError(
                f'"{name}" is not a name in Slurm\'s directory: write FILE or DIRECTORY/FILE, of letters, digits, _ . '
                "and -, not hidden"
            )
    return files


SlurmFiles = Annotated[
    dict[str, Annotated[str, Field(min_length=1)]],
    AfterValidator(_check_names),
    Field(description="Further files of Slurm's directory, by name: each one's path, relative to the cluster file."),
]


def read(files: Mapping[str, str], beside: Path) -> tuple[SiteFile, ...]:
    """Read the files that a cluster file names, sorted by name; InputError has a line for each mistake."""
    found: list[SiteFile] = []
    complaints: list[str] = []
    for name, value in sorted(files.items()):
        try:
            found.append(_read(name, named(beside, value)))
        except InputError as error:
            complaints.append(f"slurm_files.{name}: {error}")
    complaints += _too_much(found)
    refuse(complaints)
    return tuple(found)


def _read(name: str, path: Path) -> SiteFile:
    """Read one file. Raises InputError if it cannot be read, and why."""
    try:
        content = bounded_file.read(path, LARGEST_FILE)
        is_executable = path.stat().st_mode & 0o100
    except BrokenFile:
        raise InputError(f"{path} is not a regular file of at most {LARGEST_FILE >> 10} KiB.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    return SiteFile(name, content.decode("utf-8", "surrogateescape"), EXECUTABLE if is_executable else PLAIN)


def _too_much(files: list[SiteFile]) -> Iterator[str]:
    """Yield a complaint if the files together are too large."""
    size = sum(len(one.text) for one in files)
    if size > LARGEST_SUM:
        yield f"slurm_files: they have {size >> 10} KiB together; at most {LARGEST_SUM >> 10} KiB are allowed."
