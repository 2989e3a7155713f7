"""The scripts that compute nodes run before and after jobs, read from directories beside the cluster file."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from slurmfab.base.bounded_file import opened
from slurmfab.base.errors import InputError, refuse
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.health import DirectoriesOfScripts, directories_of
from slurmfab.cluster.inventory.named_path import named


class Script(NamedTuple):
    """A script that compute nodes run before or after jobs."""

    name: str
    text: str


Scripts = Mapping[str, tuple[Script, ...]]  # the scripts, sorted by name, by the key from `key_of`
MOST_SCRIPTS = 64  # the most scripts in one directory
LARGEST_SCRIPT = 64 * 1024  # the most bytes of a script: all scripts are sent to every node in every deployment

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_LEFT_OUT = re.compile(r"README(\..*)?|.*(~|\.bak|\.orig|\.rej|\.swp|\.md|\.txt|\.dpkg-[a-z]+)")
_SHEBANG = re.compile(r"#!\s*(?:/usr/bin/env\s+(?:-S\s+)?)?(?P<program>/?[A-Za-z0-9_./+-]+)(\s.*)?")
_SHELLS = ("sh", "bash", "dash")
_PARSE_SECONDS = 10


def read(cluster: Cluster, beside: Path) -> Scripts:
    """Read the scripts in the directories that a cluster file names.

    Ignored are hidden files, files that editors and packages leave behind, and documentation (README, *.md, *.txt).
    Raises InputError if a directory is missing, or scripts in it cannot be run; one line for each mistake.
    """
    wanted = {"prolog": cluster.prolog, "epilog": cluster.epilog}
    found: dict[str, tuple[Script, ...]] = {}
    complaints: list[str] = []
    for key, value in wanted.items():
        for directory in directories_of(value):
            scripts, wrong = scripts_in(key, named(beside, directory), beside)
            found[key_of(key, value, directory)] = scripts
            complaints += wrong
    refuse(complaints)
    return found


def key_of(kind: str, value: DirectoriesOfScripts, directory: str | None) -> str:
    """The key of a directory's scripts, `prolog` or `epilog`, with the directory where groups have their own."""
    return kind if isinstance(value, str) else f"{kind} {directory or ''}"


def scripts_in(key: str, directory: Path, beside: Path) -> tuple[tuple[Script, ...], tuple[str, ...]]:
    """The valid scripts in a directory, sorted by name, and complaints about `key` (prolog, epilog) for the others."""
    try:
        paths = sorted(
            path for path in directory.iterdir() if not path.name.startswith(".") and not _LEFT_OUT.fullmatch(path.name)
        )
    except OSError as error:
        hint = " Create it, or remove the key from the cluster file." if isinstance(error, FileNotFoundError) else ""
        return (), (f"{key}: the directory {directory} cannot be read: {error.strerror}.{hint}",)
    if len(paths) > MOST_SCRIPTS:
        return (), (f"{key}: {directory} has {len(paths)} files; at most {MOST_SCRIPTS} scripts are allowed.",)
    scripts, complaints = [], []
    for path in paths:
        try:
            scripts.append(Script(path.name, checked_text(named(beside, path.absolute()))))
        except InputError as error:
            complaints.append(f"{key}: {path}: {error}")
    return tuple(scripts), tuple(complaints)


def checked_text(path: Path) -> str:
    """Read a script and check that it can be run. Raises InputError if it cannot be run, and why."""
    if not _PLAIN.fullmatch(path.name):
        raise InputError("its name may contain only letters, digits, dots, - and _.")
    if not path.is_file():
        raise InputError("it is not a regular file." if path.exists() else "it is a broken link.")
    try:
        with opened(path) as file:
            content = file.read(LARGEST_SCRIPT + 1)
    except OSError as error:
        raise InputError(f"it cannot be read: {error.strerror}.") from None
    if len(content) > LARGEST_SCRIPT:
        raise InputError(
            f"it is larger than {LARGEST_SCRIPT // 1024} KiB; install large files on the nodes and call them."
        )
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise InputError("it is not UTF-8 text; call a compiled program from a script.") from None
    if "\0" in text:
        raise InputError("it is not text; call a compiled program from a script.")
    for complaint in mistakes(text):
        raise InputError(complaint)
    return text


def mistakes(text: str) -> Iterator[str]:
    """Yield why a script cannot be run: it names no interpreter, or has a syntax error."""
    first = text.partition("\n")[0]
    if not first.startswith("#!"):
        yield "its first line names no interpreter, as #!/bin/sh does; slurmd could not start it."
        return
    if first.endswith("\r"):
        yield "its lines have Windows line ends, so the kernel finds no interpreter; convert it: sed -i 's/\\r$//'."
        return
    found = _SHEBANG.fullmatch(first)
    if not found or ("env" not in first and not found["program"].startswith("/")):
        yield f"its first line, {first!r}, names no interpreter by an absolute path."
        return
    shell = found["program"].rpartition("/")[2]
    if shell in _SHELLS and (program := shutil.which(shell)):
        yield from syntax_errors(program, text)


def syntax_errors(shell: str, text: str) -> Iterator[str]:
    """Yield the first error of a shell on this machine that only parses a script (sh(1), -n)."""
    try:
        done = subprocess.run(
            [shell, "-n"],
            input=text.encode(),
            capture_output=True,
            timeout=_PARSE_SECONDS,
            check=False,
            env={"LC_ALL": "C.UTF-8"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
        yield f"its shell reports a syntax error: {lines[0]}."
