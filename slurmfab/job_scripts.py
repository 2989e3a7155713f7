"""The scripts that compute nodes run around jobs: directories beside the cluster file, read and judged first."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from slurmfab.cluster import Cluster
from slurmfab.errors import InputError

Scripts = Mapping[str, tuple[tuple[str, str], ...]]
"""Names and texts of scripts, by `prolog` and `epilog`."""

MOST = 64
"""How many scripts one directory may have."""

LARGEST = 64 * 1024
"""Bytes of the largest script: all of them travel to every node with every deployment."""

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_LEFT_OUT = re.compile(r"README(\..*)?|.*(~|\.bak|\.orig|\.rej|\.swp|\.md|\.txt|\.dpkg-[a-z]+)")
_SHEBANG = re.compile(r"#!\s*(?:/usr/bin/env\s+(?:-S\s+)?)?(?P<program>/?[A-Za-z0-9_./+-]+)(\s.*)?")
_SHELLS = ("sh", "bash", "dash")
_PARSE_SECONDS = 10


def read(cluster: Cluster, beside: Path) -> Scripts:
    """The scripts of the directories that a cluster file names.

    Left out are hidden files, those that editors and packages leave behind, and texts for people (README, *.md).

    Args:
        cluster: the cluster file.
        beside: the directory of the cluster file, which relative paths start from.

    Raises:
        InputError: a directory is missing, or scripts in it cannot be run; with all that is wrong, a line each.
    """
    wanted = {"prolog": cluster.prolog, "epilog": cluster.epilog}
    found: dict[str, tuple[tuple[str, str], ...]] = {}
    complaints: list[str] = []
    for key, said in wanted.items():
        if said is not None:
            scripts, wrong = scripts_in(key, beside / Path(said).expanduser())
            found[key] = scripts
            complaints += wrong
    if complaints:
        raise InputError("\n".join((*complaints, "Nothing was changed on any host.")))
    return found


def scripts_in(key: str, directory: Path) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """The scripts in a directory by name, and what is wrong with them."""
    try:
        paths = sorted(path for path in directory.iterdir() if is_meant(path.name))
    except OSError as error:
        hint = " Make it, or take the key out of the cluster file." if isinstance(error, FileNotFoundError) else ""
        return (), (f"{key}: the directory {directory} cannot be read: {error.strerror}.{hint}",)
    if len(paths) > MOST:
        return (), (f"{key}: {directory} has {len(paths)} files; that is more than {MOST} scripts.",)
    scripts, complaints = [], []
    for path in paths:
        try:
            scripts.append((path.name, judged(path)))
        except InputError as error:
            complaints.append(f"{key}: {path}: {error}")
    return tuple(scripts), tuple(complaints)


def is_meant(name: str) -> bool:
    """Whether a file is meant to be run, by its name."""
    return not name.startswith(".") and not _LEFT_OUT.fullmatch(name)


def judged(path: Path) -> str:
    """The text of a script that can be run.

    Raises:
        InputError: it cannot; the text says why.
    """
    if not _PLAIN.fullmatch(path.name):
        raise InputError("its name has more in it than letters, digits, dots, - and _.")
    if not path.is_file():
        raise InputError("this is no file." if path.exists() else "this link leads nowhere.")
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise InputError(f"it cannot be read: {error.strerror}.") from None
    if len(content) > LARGEST:
        raise InputError(f"it has more than {LARGEST // 1024} KiB; put what is large onto the nodes and call it there.")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise InputError("it is no UTF-8 text; a program that was compiled is called by a script.") from None
    if "\0" in text:
        raise InputError("it is no text; a program that was compiled is called by a script.")
    for complaint in mistakes(text):
        raise InputError(complaint)
    return text


def mistakes(text: str) -> Iterator[str]:
    """Why a script cannot be run: the kernel does not start it, or its shell does not understand it."""
    first = text.partition("\n")[0]
    if not first.startswith("#!"):
        yield "its first line names no interpreter, as #!/bin/sh does; slurmd could not start it."
        return
    if first.endswith("\r"):
        yield "its lines end as on Windows, so no interpreter is found; convert it, as with: sed -i 's/\\r$//'."
        return
    found = _SHEBANG.fullmatch(first)
    if not found or ("env" not in first and not found["program"].startswith("/")):
        yield f"its first line, {first!r}, names no interpreter by an absolute path."
        return
    shell = found["program"].rpartition("/")[2]
    if shell in _SHELLS and (program := shutil.which(shell)):
        yield from complaint_of(program, text)


def complaint_of(shell: str, text: str) -> Iterator[str]:
    """What a shell on this machine says of a script that it only parses (sh(1), -n)."""
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
        words = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
        yield f"its shell does not understand it: {words[0]}."
