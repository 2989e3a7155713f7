"""Running the programs that labs need on this machine, and the Debian packages that contain them."""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from slurmfab.base.errors import LabError

PACKAGES = {
    "ip": "iproute2",
    "mmdebstrap": "mmdebstrap",
    "nft": "nftables",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "ssh-keygen": "openssh-client",
    "systemd-nspawn": "systemd-container",
}
"""Debian and Ubuntu package of each program."""

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
"""Keys that Debian's package archive is signed with; Ubuntu does not install them by default."""


MOST_OUTPUT = 256 << 20  # bytes that a program on a host may write, on standard output and on standard error

TIED = ("setpriv", "--pdeathsig", "KILL")
"""Command prefix: the kernel kills the program when this process ends, so that a killed `up` leaves none running."""

CONTAINED = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
"""Command prefix: the program's mounts and child processes disappear when the program ends."""


def missing_packages() -> tuple[str, ...]:
    """Names of the Debian packages that labs need and this machine lacks."""
    lacking = {package for program, package in PACKAGES.items() if shutil.which(program) is None}
    if not os.path.exists(KEYRING):  # noqa: PTH110 - a constant that is never joined
        lacking.add("debian-archive-keyring")
    return tuple(sorted(lacking))


def obstacle() -> str:
    """Why this machine cannot run a lab, and how to fix that; empty if it can."""
    if os.geteuid() != 0:
        return "A lab makes network namespaces and mounts, so it needs root: run the command with sudo."
    packages = missing_packages()
    return f"Programs for the lab are missing. Try: apt-get install {' '.join(packages)}" if packages else ""


def require_machine() -> None:
    """Check that this machine can run a lab; LabError, with the apt-get command, without root or packages."""
    reason = obstacle()
    if reason:
        raise LabError(reason)


def call(argv: Sequence[str], text: str = "") -> str:
    """Run a program here and return its output; LabError, with command and last lines, if it failed."""
    done = subprocess.run([*TIED, *argv], input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        message = " ".join(_telling((done.stderr or done.stdout).strip().splitlines()))
        raise LabError(f"`{' '.join(argv)[:300]}` failed on this machine with exit code {done.returncode}: {message}")
    return done.stdout


def _telling(lines: list[str]) -> list[str]:
    """Up to three lines of output that explain a failure: apt's error lines if there are any, else the last lines."""
    marked = [line for line in lines if line.startswith(("E: ", "Err:"))]
    return (marked or lines)[-3:]


def succeeds(argv: Sequence[str]) -> bool:
    """Run a program on this machine and return whether its exit code is 0."""
    return subprocess.run([*TIED, *argv], capture_output=True, stdin=subprocess.DEVNULL, check=False).returncode == 0


def remove_tree(directory: Path) -> None:
    """Remove a directory, if it is there, however deep hosts have made it; nothing that is mounted in it."""
    call(["rm", "-rf", "--one-file-system", "--", str(directory)])


def run_bounded(argv: Sequence[str], text: str, seconds: float) -> subprocess.CompletedProcess[str]:
    """Run a program that may write without end: it is killed after so many seconds, or `MOST_OUTPUT` bytes.

    `text`: its input. Raises subprocess.TimeoutExpired if it did not end in time.
    """
    output, errors = bytearray(), bytearray()
    with tempfile.NamedTemporaryFile() as given:
        Path(given.name).write_text(text)
        with Path(given.name).open("rb") as read:  # the program may not write to it
            process = subprocess.Popen(argv, stdin=read, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline, ends = time.monotonic() + seconds, selectors.DefaultSelector()
    with contextlib.ExitStack() as left:
        for stream, into in ((process.stdout, output), (process.stderr, errors)):
            assert stream
            ends.register(left.enter_context(stream), selectors.EVENT_READ, into)
        left.callback(ends.close)
        left.callback(process.wait)
        left.callback(process.kill)
        while ends.get_map() and max(len(output), len(errors)) <= MOST_OUTPUT:
            ready = ends.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise subprocess.TimeoutExpired(list(argv), seconds)
            for end, _ in ready:
                piece = os.read(end.fd, 1 << 16)
                end.data.extend(piece)
                if not piece:
                    ends.unregister(end.fileobj)
        if not ends.get_map():
            process.wait(max(0.0, deadline - time.monotonic()))
    said = (bytes(one).decode(errors="replace") for one in (output, errors))
    return subprocess.CompletedProcess([*argv], process.returncode, *said)
