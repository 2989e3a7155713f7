"""What apt-get(8) would do, from its own simulation, and packages that it leaves alone for the time of one call."""

from __future__ import annotations

import contextlib
import os
import re
from typing import Iterable, Iterator, List, NamedTuple, Tuple

from slurmfab.on_hosts.agent.core.reading import read_bytes
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.packages.apt import ENVIRONMENT, MINIMAL

PREFERENCES = "/etc/apt/preferences"
"""The site's own preferences; those in preferences.d stay in force, as apt reads both."""

FOLDER = "/run"
UPGRADE = (*MINIMAL, "--with-new-pkgs", "upgrade")
"""What `apt upgrade` does: newer versions, and what these need; nothing is removed."""

FULL = ("--no-install-recommends", "dist-upgrade")
SECONDS = 300.0

# Texts, not compiled patterns: re caches those that are used.
_INSTALLED = r"^Inst (\S+)(?: \[([^\]\n]*)\])? \((\S+)([^\n]*?) \[[^\]\n]*\]\)"
"""A line of the simulation: `Inst NAME [OLD] (NEW ORIGIN:RELEASE/ARCHIVE, ... [ARCHITECTURE])`; `[OLD]` may be missing,
and a source without a Release file has no origin."""

_REMOVED = r"^Remv (\S+)"
_SECURITY = r"^(?:Debian-Security:\S*|\S+-security)$"
"""An origin of a security archive, such as `Debian-Security:12/oldstable-security` or `Ubuntu:24.04/noble-security`."""


class Candidate(NamedTuple):
    """A package that apt would install or update."""

    name: str  # as apt writes it, with the architecture where it is not the host's own
    installed: str  # its version now; empty for a new package
    candidate: str  # the version that it would have
    is_security: bool  # whether a security archive has that version


def simulate(context: Context, *arguments: str) -> str:
    """What apt-get prints when it only simulates; ResourceFailed if it refuses, as with unmet dependencies."""
    from slurmfab.on_hosts.agent.packages import apt_errors

    done = context.run(["apt-get", "-q", "--simulate", *arguments], seconds=SECONDS, env=ENVIRONMENT)
    printed = (done.stdout + b"\n" + done.stderr).decode(errors="replace")
    if done.returncode != 0:
        raise ResourceFailed(apt_errors.explain(printed))
    return printed


def candidates(printed: str) -> List[Candidate]:
    """The packages that a simulation would install or update, sorted."""
    return sorted(
        Candidate(name, installed, candidate, is_security(origins))
        for name, installed, candidate, origins in re.findall(_INSTALLED, printed, re.M)
    )


def is_security(origins: str) -> bool:
    """Whether one of the archives that have a version is for security.

    >>> is_security(" Debian:12.15/oldstable, Debian-Security:12/oldstable-security")
    True
    """
    return any(re.match(_SECURITY, origin.strip()) for origin in origins.split(","))


def removed(printed: str) -> List[str]:
    """The packages that a simulation would remove, sorted."""
    return sorted(set(re.findall(_REMOVED, printed, re.M)))


@contextlib.contextmanager
def left_alone(context: Context, packages: Iterable[str]) -> Iterator[Tuple[str, ...]]:
    """Options of apt-get with which it keeps packages in the versions that they have.

    They have a priority that forbids every version of an archive (apt_preferences(5)), in a file of this call alone: a
    killed run leaves no package held, and holds of the site stay as they are. `packages`: their names; without any
    there are no options.
    """
    names = " ".join(sorted(packages))
    if not names:
        yield ()
        return
    import tempfile  # slow to import

    # The first entry for a package counts.
    text = b"Package: %s\nPin: release *\nPin-Priority: -1\n\n" % names.encode()
    descriptor, path = tempfile.mkstemp(prefix="slurmfab-apt-", dir=context.path(FOLDER))
    try:
        with open(descriptor, "wb") as file:
            file.write(text + read_bytes(context.path(PREFERENCES)))
        yield ("-o", "Dir::Etc::Preferences=" + path)
    finally:
        os.unlink(path)
