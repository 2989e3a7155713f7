"""Why a host needs a reboot: a package asks for it, or a newer kernel is installed than the one that runs."""

from __future__ import annotations

import os
import re
from typing import List, Optional, Tuple

from slurmfab.on_hosts.agent.core.reading import names, read_text
from slurmfab.on_hosts.agent.packages import dpkg_status

REQUIRED = "/run/reboot-required"
"""Packages make this file when they need a reboot; `.pkgs` beside it has their names. A boot removes both."""

CONTAINER = ("/run/systemd/container", "/run/.containerenv", "/.dockerenv")
"""Files of a container, which has its machine's kernel and not one of its own packages."""

IMAGE = "vmlinuz-"
SHOWN = 5

_RELEASE = r"(\d[^-]*(?:-\d[^-]*)?)-([a-z].*)"
"""A kernel's release: numbers, and the flavour, as `6.1.0-25` and `amd64`."""

_BUILD = r"Debian (\S+) \("
"""The version of the running kernel's package, which Debian has in the kernel's own version (uname(2))."""


def reasons(root: str, release: str = "", build: str = "") -> List[str]:
    """Why this host needs a reboot; empty if it needs none.

    Args:
        release: of the running kernel; asked for when left out.
        build: its version, as `#1 SMP Debian 6.1.115-1 (2024-11-01)`, likewise.
    """
    top = root.rstrip("/")
    found = []
    if os.path.exists(top + REQUIRED):
        packages = sorted(set(read_text(top + REQUIRED + ".pkgs").split()))
        others = " and %d more" % (len(packages) - SHOWN) if len(packages) > SHOWN else ""
        found.append("%s asks for it" % (", ".join(packages[:SHOWN]) + others if packages else "a package"))
    if not any(os.path.exists(top + path) for path in CONTAINER):
        system = os.uname()
        kernel = newer_kernel(top, release or system.release, build or system.version)
        found += [kernel] if kernel else []
    return found


def newer_kernel(top: str, release: str, build: str) -> Optional[str]:
    """That a newer kernel is installed than the one that runs; `None` if not, or if the kernel is not of this system.

    A host that boots over the network has no image of its kernel in /boot, and what is there says nothing. `top`: as
    `root` of `reasons`, without a slash at its end.
    """
    images = [name[len(IMAGE) :] for name in names(top + "/boot") if name.startswith(IMAGE)]
    running = parsed(release)
    if release not in images or not running:
        return None
    known = ((parsed(image), image) for image in images)
    newest = max((one[0], image) for one, image in known if one and one[1] == running[1])
    if newest[0] > running[0]:
        return "kernel %s runs, %s is installed" % (release, newest[1])
    return rebuilt(top, release, build)


def rebuilt(top: str, release: str, build: str) -> Optional[str]:
    """That the package of the running kernel has another version by now, under the same release."""
    runs = re.search(_BUILD, build)
    package = "linux-image-" + release
    there = dpkg_status.versions(dpkg_status.read(top), [package]).get(package)
    if runs and there and there != runs[1]:
        return "kernel %s of %s runs, %s is installed" % (release, runs[1], there)
    return None


def parsed(release: str) -> Optional[Tuple[Tuple[int, ...], str]]:
    """The numbers and the flavour of a kernel's release; `None` if it has none.

    >>> parsed("6.12.38+deb13-amd64")
    ((6, 12, 38, 13), 'amd64')
    """
    found = re.fullmatch(_RELEASE, release)
    return (tuple(int(number) for number in re.findall(r"\d+", found[1])), found[2]) if found else None
