"""What apt-get(8) and dpkg(1) say when they fail, in one sentence for an operator.

The texts are those of apt 2.2 to 3.1 and dpkg 1.20 to 1.23 in the C locale.
"""

from __future__ import annotations

import re
from typing import Optional

NETWORK = re.compile(
    r"Temporary failure resolving|Could not resolve|Could not connect|Unable to connect"
    r"|Connection (?:failed|timed out|refused)|Network is unreachable|No route to host|Failed to fetch"
    r"|Some index files failed to download"
)
FULL = re.compile(r"No space left on device|don't have enough free space in \S+|write error.*space", re.I)
UNKNOWN = re.compile(r"Unable to locate package (\S+)|Package '?([^\s']+)'? has no installation candidate")
LOCKED = re.compile(r"Could not get lock (\S+?)\.? ?(?:It is held by process (\d+) \(([^)]*)\)|$|- )", re.M)
UNTRUSTED = re.compile(r"^.*(?:NO_PUBKEY|is not signed|EXPKEYSIG|invalid signature|not valid yet|has expired).*$", re.M)
REMOVALS = re.compile(r"REMOVED:\n((?:  .*\n)+)")
BROKEN = re.compile(r"^dpkg: error processing (?:package|archive) (\S+)[^\n]*\n ?([^\n]*)", re.M)
DEPENDS = re.compile(r"^ +\S+ : (?:Pre-)?(?:Depends|Conflicts|Breaks): .*$", re.M)

OFFLINE = "A host without one gets its packages from a bundle: fab bundle"
"""What to try where no package source can be reached."""


def is_locked(output: str) -> bool:
    """Whether another program holds apt's or dpkg's lock, so that waiting helps."""
    return LOCKED.search(output) is not None


def is_stale(output: str) -> bool:
    """Whether newer package lists could help: a package is unknown, or its file is not on the mirror any more."""
    return bool(UNKNOWN.search(output) or re.search(r"404  ?Not Found|Unable to fetch some archives", output))


def explain(output: str) -> str:
    """Why apt-get failed, and what to try.

    Args:
        output: all that it printed, stdout and stderr.
    """
    for look in (unknown, disk, lock, removals, broken, depends, untrusted, network):
        words = look(output)
        if words:
            return words
    last = [line for line in output.splitlines() if line.startswith(("E:", "dpkg:"))] or output.strip().splitlines()
    return "apt-get failed: %s" % (" | ".join(last[-4:]) or "no message")


def unknown(output: str) -> Optional[str]:
    """A package that no source has."""
    packages = sorted({first or second for first, second in UNKNOWN.findall(output)})
    if not packages:
        return None
    words = (
        "no package %s in this host's package sources; look at /etc/apt/sources.list and sources.list.d: "
        "is the release right, is the section there (Ubuntu keeps Slurm in universe)?" % ", ".join(packages)
    )
    return " ".join(filter(None, (words, network(output))))


def disk(output: str) -> Optional[str]:
    """A full file system."""
    found = FULL.search(output)
    return "the disk is full (%s); free some space and run again" % found.group(0) if found else None


def lock(output: str) -> Optional[str]:
    """A lock that somebody else holds."""
    found = LOCKED.search(output)
    if not found:
        return None
    holder = "process %s (%s)" % (found.group(2), found.group(3)) if found.group(2) else "another program"
    return "%s is held by %s; wait until it has ended and run again" % (found.group(1), holder)


def removals(output: str) -> Optional[str]:
    """Installed packages that would have to go."""
    if "remove is disabled" not in output:
        return None
    found = REMOVALS.search(output)
    packages = " ".join(found.group(1).split()) if found else "others"
    return "installing would remove %s, which slurmfab never does; remove them yourself if they may go" % packages


def broken(output: str) -> Optional[str]:
    """A package whose installation scripts fail."""
    found = BROKEN.findall(output)
    if found:
        return "dpkg could not install %s; try `dpkg --configure -a` on the host" % "; ".join(
            "%s (%s)" % (package.rstrip(":"), words.strip()) for package, words in found[:3]
        )
    if "dpkg was interrupted" in output:
        return "dpkg was interrupted and could not be put right; try `dpkg --configure -a` on the host"
    return None


def depends(output: str) -> Optional[str]:
    """Dependencies that cannot be met."""
    found = [line.strip() for line in DEPENDS.findall(output)]
    words = "dependencies cannot be met: %s; is a package held, or is a source of another release in use?"
    return words % " | ".join(found[:4]) if found else None


def untrusted(output: str) -> Optional[str]:
    """A source that apt does not trust."""
    found = UNTRUSTED.search(output)
    return "a package source is not trusted: %s" % found.group(0).strip() if found else None


def network(output: str) -> Optional[str]:
    """Downloads that failed."""
    found = [line.strip() for line in output.splitlines() if NETWORK.search(line)]
    words = "packages cannot be downloaded: %s; is there a way to the package sources, or an apt proxy to set? %s"
    return words % (found[0], OFFLINE) if found else None
