"""The systemd-nspawn of another suite, run on this machine with that suite's libraries: what a newer deployer has."""

from __future__ import annotations

import shlex
import stat
from pathlib import Path

import pytest

from slurmfab.lab import base

PROGRAM = "usr/bin/systemd-nspawn"


def use(suite: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have labs of this test started by the systemd-nspawn of a suite.

    Args:
        suite: one with Debian; its base tree has the package downloaded.
        directory: where a program of that name is written.
        monkeypatch: puts the directory in front of PATH.
    """
    tree = base.ensure(suite, print)
    layer = base.with_packages((tree,), ("systemd-container",), print)
    private = [directory for root in (layer, tree) for directory in root.glob("usr/lib/*-linux-gnu*/systemd")]
    libraries = [folder for root in (layer, tree) for folder in root.glob("usr/lib/*-linux-gnu*")]
    loader = next(tree.glob("usr/lib*/ld-linux-*.so.*"))
    words = [str(loader), "--library-path", ":".join(map(str, (*private, *libraries))), str(layer / PROGRAM)]
    directory.mkdir(exist_ok=True)
    program = directory / Path(PROGRAM).name
    program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(directory), prepend=":")


def running(name: str) -> dict[int, str]:
    """PID and command line of each systemd-nspawn of a lab."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        shells = ("sh", "unshare")
        if Path(words[0]).name not in shells and any(word.startswith(f"--machine=slurmfab-{name}-") for word in words):
            found[int(place.name)] = " ".join(words)
    return found
