"""Files that a submit script names for its output and input: are their directories there, and may the user write?"""

from __future__ import annotations

import os
import re
from typing import Iterator

from slurmfab.on_hosts.programs.user_tools.findings import Finding, error, warning
from slurmfab.on_hosts.programs.user_tools.wanted import Wanted, directive

LOCAL = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/local", "/scratch", "/dev")  # noqa: S108 - names, not files of ours
"""Directories that each node has for itself; what is there on this host says nothing about nodes."""

LETTERS = "%AabJjNnstuxW"  # what may follow a percent sign in names of files (sbatch(1), filename pattern)

_PATTERN = re.compile(r"%(\d*)(.?)")


def check(wanted: Wanted, here: str, user: str) -> Iterator[Finding]:
    """Yield files that a job wants and could not open, if submitted from the directory `here`."""
    start = os.path.join(here, wanted.value("chdir"))
    if "chdir" in wanted.given and not is_local(start) and not os.path.isdir(start):
        text = "the directory %s does not exist, and the job would run in /tmp" % start
        yield error(wanted.line("chdir"), "path", text, "an existing directory, or mkdir -p " + start)
    for name in ("output", "error"):
        if name in wanted.given:
            yield from patterns(wanted, name)
            yield from written(wanted, name, os.path.join(start, wanted.value(name)), user)
    source = os.path.join(start, wanted.value("input"))
    if "input" in wanted.given and "%" not in source and not is_local(source) and not os.path.exists(source):
        yield error(wanted.line("input"), "path", "the file %s does not exist" % source)
    if "container" in wanted.given:
        yield from bundle(wanted.line("container"), os.path.join(start, wanted.value("container")))


def bundle(line: int, path: str) -> Iterator[Finding]:
    """Yield why a directory is no OCI bundle, which has a file `config.json` (OCI runtime specification, bundle.md)."""
    if not is_local(path) and not os.path.isfile(os.path.join(path, "config.json")):
        reason = "has no config.json, so it is no OCI bundle" if os.path.isdir(path) else "does not exist"
        yield error(line, "path", "the container bundle %s %s" % (path, reason), "sbundle IMAGE, to make one")


def is_local(path: str) -> bool:
    """Whether a path is on each node's own disk, as far as its name says."""
    return any((os.path.normpath(path) + "/").startswith(one + "/") for one in LOCAL)


def patterns(wanted: Wanted, name: str) -> Iterator[Finding]:
    """Yield percent signs that stand for nothing."""
    value = wanted.value(name)
    for found in _PATTERN.finditer(value.replace("%%", "")) if "\\" not in value else ():
        if not found[2] or found[2] not in LETTERS:
            shown = directive(name, "%x-%j.out" if name == "output" else "%x-%j.err")
            yield warning(wanted.line(name), "pattern", "%s stands for nothing in names of files" % found[0], shown)


def written(wanted: Wanted, name: str, path: str, user: str) -> Iterator[Finding]:
    """Yield why a file cannot be written. `wanted`: by the job. `path`: of the file, with patterns."""
    folder = os.path.dirname(path.replace("%u", user))
    line = wanted.line(name)
    if is_local(path):
        return
    if not path.endswith("/") and "%" not in path and os.path.isdir(path):
        yield error(
            line, "path", "%s is a directory, not a file" % path, directive(name, wanted.value(name) + "/%x-%j.out")
        )
        return
    if path.endswith("/"):
        yield error(line, "path", "%s names no file" % path, directive(name, wanted.value(name) + "%x-%j.out"))
        return
    known = folder.partition("%")[0].rpartition("/")[0] if "%" in folder else folder
    if not os.path.isdir(known or "/"):
        text = "the directory %s does not exist: the job would fail at once, without any output" % known
        yield error(line, "path", text, "mkdir -p %s, or a directory that exists" % known)
    elif "%" not in folder and not os.access(known, os.W_OK | os.X_OK):
        text = "you may not write in %s: the job would fail at once, without any output" % known
        yield error(line, "path", text, directive(name, "%x-%j.out"))
    elif "%" not in path and os.path.exists(path) and not os.access(path, os.W_OK):
        yield error(line, "path", "you may not write to %s" % path, directive(name, "%x-%j.out"))
