"""Programs of this machine that the lab runs, and the Debian packages that they come from."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

from slurmfab.errors import LabError

PACKAGES = {
    "ip": "iproute2",
    "mmdebstrap": "mmdebstrap",
    "nft": "nftables",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "ssh-keygen": "openssh-client",
    "systemd-nspawn": "systemd-container",
}
"""Program to the Debian and Ubuntu package that has it."""

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
"""With what apt tells a Debian mirror from an impostor; Ubuntu does not have it by itself."""


TIED = ("setpriv", "--pdeathsig", "KILL")
"""Prefix for a program that shall end with this process, however that ends: a killed `up` leaves nothing running."""

CONTAINED = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
"""Prefix for a program whose mounts and children, whatever they do, shall end with it."""


def missing_packages() -> tuple[str, ...]:
    """The Debian packages that this machine lacks for a lab."""
    lacking = {package for program, package in PACKAGES.items() if shutil.which(program) is None}
    if not os.path.exists(KEYRING):  # noqa: PTH110 - a constant that is never joined
        lacking.add("debian-archive-keyring")
    return tuple(sorted(lacking))


def obstacle() -> str:
    """Why this machine cannot have a lab at present, with what to try; empty when it can."""
    if os.geteuid() != 0:
        return "A lab makes network namespaces and mounts, so it needs root: run the command with sudo."
    packages = missing_packages()
    return f"Programs for the lab are missing. Try: apt-get install {' '.join(packages)}" if packages else ""


def require_machine() -> None:
    """Make sure that this machine can have a lab.

    Raises:
        LabError: not root, or packages are missing; the text names the apt-get line.
    """
    reason = obstacle()
    if reason:
        raise LabError(reason)


def call(argv: Sequence[str], text: str = "") -> str:
    """Run a program of this machine and return what it printed.

    Args:
        argv: program and arguments.
        text: what the program reads from standard input.

    Raises:
        LabError: it failed; the text has the command and its last words.
    """
    done = subprocess.run([*TIED, *argv], input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        words = " ".join(_telling((done.stderr or done.stdout).strip().splitlines()))
        raise LabError(f"`{' '.join(argv)[:300]}` failed on this machine with exit code {done.returncode}: {words}")
    return done.stdout


def _telling(lines: list[str]) -> list[str]:
    """The few lines that say why a program failed: those that apt marks as errors, or else the last ones."""
    marked = [line for line in lines if line.startswith(("E: ", "Err:"))]
    return (marked or lines)[-3:]


def succeeds(argv: Sequence[str]) -> bool:
    """Run a program of this machine whose failure is an answer too."""
    return subprocess.run([*TIED, *argv], capture_output=True, stdin=subprocess.DEVNULL, check=False).returncode == 0
