"""Why apt-get(8) 2.2 to 3.1 or dpkg(1) 1.20 to 1.23 failed, from what they printed in the C locale."""

from __future__ import annotations

import re
from typing import Optional, Sequence

from slurmfab.on_hosts.agent.core.program_name import FAB

NETWORK = re.compile(
    r"Temporary failure resolving|Could not resolve|Could not connect|Unable to connect"
    r"|Connection (?:failed|timed out|refused)|Network is unreachable|No route to host|Failed to fetch"
    r"|Some index files failed to download"
)
FULL = re.compile(r"No space left on device|don't have enough free space in \S+|write error.*space", re.I)
UNKNOWN = re.compile(r"Unable to locate package (\S+)|Package '?([^\s']+)'? has no installation candidate")
LOCKED = re.compile(r"Could not get lock (\S+?)\.? ?(?:It is held by process (\d+) \(([^)]*)\)|$|- )", re.M)
MISSING_KEY = re.compile(r"(?:Missing key|NO_PUBKEY) ([0-9A-F]{16,40})")
WRONG_SIGNATURE = re.compile(r"BADSIG|[Bb]ad [Ss]ignature|invalid signature|(?:Message|Manifest) has been manipulated")
NO_RELEASE = re.compile(
    r"(?:repository|Failed to fetch) '?(\S+) (\S+) Release' (?:does not have|no longer has) a Release file"
)
UNTRUSTED = re.compile(r"^.*(?:NO_PUBKEY|is not signed|EXPKEYSIG|invalid signature|not valid yet|has expired).*$", re.M)
HELD = re.compile(r"held packages will be changed:\n((?:  .*\n)+)")
REMOVALS = re.compile(r"REMOVED:\n((?:  .*\n)+)")
BROKEN = re.compile(r"^dpkg: error processing (?:package|archive) (\S+)[^\n]*\n ?([^\n]*)", re.M)
DEPENDS = re.compile(r"^ +\S+ : (?:Pre-)?(?:Depends|Conflicts|Breaks): .*$", re.M)

OFFLINE = "Offline hosts get packages from a bundle: %s bundle" % FAB  # advice for hosts that reach no package source


def is_locked(output: str) -> bool:
    """Whether another program holds apt's or dpkg's lock, so that waiting helps."""
    return LOCKED.search(output) is not None


def is_stale(output: str) -> bool:
    """Whether newer package lists could help: a package is unknown, or the mirror no longer has its file."""
    return bool(UNKNOWN.search(output) or re.search(r"404  ?Not Found|Unable to fetch some archives", output))


def explain(output: str, held: Sequence[str] = ()) -> str:
    """Why apt-get failed, by all that it printed and the host's held packages, and what to try."""
    in_the_way = kept(output, held)
    if in_the_way:
        return in_the_way
    for explanation in (unknown, disk, lock, removals, broken, depends, untrusted, network):
        sentence = explanation(output)
        if sentence:
            return sentence
    last = [line for line in output.splitlines() if line.startswith(("E:", "dpkg:"))] or output.strip().splitlines()
    return "apt-get failed: %s" % (" | ".join(last[-4:]) or "no message")


def explain_source(output: str) -> str:
    """Why the lists of the source of Slurm's packages cannot be fetched, by apt-get's output, and what to try."""
    key, suite = MISSING_KEY.search(output), NO_RELEASE.search(output)
    if key:
        return (
            "it is signed by the key %s, which is not the one in the file of slurm.source.key; get the key of who made "
            "the repository" % key.group(1)
        )
    if WRONG_SIGNATURE.search(output):
        return "its signature is wrong: it was changed after it was signed; nothing is taken from there"
    if suite:
        return "there is no suite %s at %s, or nobody has signed it; check slurm.source" % (
            suite.group(2),
            suite.group(1),
        )
    return explain(output)


def kept(output: str, held: Sequence[str]) -> Optional[str]:
    """Held packages that would have to change; `None` if that is not the reason, here and in the functions below."""
    changing = HELD.search(output)
    packages = changing.group(1).split() if changing and "Held packages were changed" in output else []
    if "held broken packages" in output:
        needed = set(re.findall(r"[a-z0-9][a-z0-9+.-]+", " ".join(DEPENDS.findall(output))))
        packages += [package for package in held if package in needed]
    if not packages:
        return None
    names = " ".join(dict.fromkeys(packages))
    sentence = "%s %s held (apt-mark showhold) and would have to be installed or upgraded; let that: apt-mark unhold %s"
    return sentence % (names.replace(" ", ", "), "is" if len(packages) == 1 else "are", names)


def unknown(output: str) -> Optional[str]:
    """Packages that no source has."""
    packages = sorted({first or second for first, second in UNKNOWN.findall(output)})
    if not packages:
        return None
    sentence = (
        "this host's package sources have no package %s; check /etc/apt/sources.list and sources.list.d: "
        "is the release right, is the section enabled (Ubuntu has Slurm in universe)?" % ", ".join(packages)
    )
    return " ".join(filter(None, (sentence, network(output))))


def disk(output: str) -> Optional[str]:
    """A full file system."""
    found = FULL.search(output)
    return "the disk is full (%s); free some space and run again" % found.group(0) if found else None


def lock(output: str) -> Optional[str]:
    """A lock that another program holds."""
    found = LOCKED.search(output)
    if not found:
        return None
    holder = "process %s (%s)" % (found.group(2), found.group(3)) if found.group(2) else "another program"
    return "%s is held by %s; wait until it has ended and run again" % (found.group(1), holder)


def removals(output: str) -> Optional[str]:
    """Installed packages that would be removed."""
    if "remove is disabled" not in output:
        return None
    found = REMOVALS.search(output)
    packages = " ".join(found.group(1).split()) if found else "others"
    return "the installation would remove %s, which slurmfab never does; if you agree, remove them yourself" % packages


def broken(output: str) -> Optional[str]:
    """A package whose installation scripts failed."""
    found = BROKEN.findall(output)
    if found:
        return "dpkg could not install %s; try `dpkg --configure -a` on the host" % "; ".join(
            "%s (%s)" % (package.rstrip(":"), message.strip()) for package, message in found[:3]
        )
    if "dpkg was interrupted" in output:
        return "dpkg was interrupted and could not be repaired; try `dpkg --configure -a` on the host"
    return None


def depends(output: str) -> Optional[str]:
    """Dependencies that cannot be met."""
    found = [line.strip() for line in DEPENDS.findall(output)]
    sentence = "dependencies cannot be met: %s; is a package held, or is a source of another release in use?"
    return sentence % " | ".join(found[:4]) if found else None


def untrusted(output: str) -> Optional[str]:
    """A package source that apt does not trust."""
    found = UNTRUSTED.search(output)
    return "a package source is not trusted: %s" % found.group(0).strip() if found else None


def network(output: str) -> Optional[str]:
    """Downloads that failed."""
    found = [line.strip() for line in output.splitlines() if NETWORK.search(line)]
    sentence = "packages cannot be downloaded: %s; check the route to the package sources, or apt's proxy settings. %s"
    return sentence % (found[0], OFFLINE) if found else None
