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


def missing_packages() -> tuple[str, ...]:
    """The Debian packages that this machine lacks for a lab."""
    lacking = {package for program, package in PACKAGES.items() if shutil.which(program) is None}
    if not os.path.exists(KEYRING):  # noqa: PTH110 - a constant that is never joined
        lacking.add("debian-archive-keyring")
    return tuple(sorted(lacking))


def require_machine() -> None:
    """Make sure that this machine can have a lab.

    Raises:
        LabError: not root, or packages are missing; the text names the apt-get line.
    """
    if os.geteuid() != 0:
        raise LabError("A lab makes network namespaces and mounts, so it needs root: run the command with sudo.")
    packages = missing_packages()
    if packages:
        raise LabError(f"Programs for the lab are missing. Try: apt-get install {' '.join(packages)}")


def call(argv: Sequence[str], text: str = "") -> str:
    """Run a program of this machine and return what it printed.

    Args:
        argv: program and arguments.
        text: what the program reads from standard input.

    Raises:
        LabError: it failed; the text has the command and its last words.
    """
    done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False)
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
    return subprocess.run(argv, capture_output=True, stdin=subprocess.DEVNULL, check=False).returncode == 0
