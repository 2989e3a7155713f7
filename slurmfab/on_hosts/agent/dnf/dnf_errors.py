"""Why dnf(8) 4.14 to 4.23 failed, from what it printed in the C locale."""

from __future__ import annotations

import re
from typing import Optional

from slurmfab.on_hosts.agent.core.program_name import FAB

NETWORK = re.compile(
    r"Failed to download metadata for repo '([^']+)'|Curl error \(\d+\): ([^\n]*)|Error downloading packages:"
    r"|No more mirrors to try|All mirrors were tried"
)
FULL = re.compile(r"At least \S+ more space needed on the \S+ filesystem|[^\n]*No space left on device")
UNKNOWN = re.compile(r"^(?:Error: )?Unable to find a match: ([^\n]+)$|^No match for argument: (\S+)", re.M)
EXCLUDED = re.compile(r"filtered out by exclude filtering for argument: (\S+)")
LOCKED = re.compile(
    r"Existing lock (\S+): another copy is running as pid (\d+)|Waiting for process with pid (\d+) to finish"
    r"|can't create transaction lock on (\S+)|Failed to obtain the (\w+ ?\w*) lock"
)
UNSIGNED = re.compile(r"Package (\S+) is not signed")
UNTRUSTED = re.compile(
    r"The GPG keys listed for the \"([^\"]*)\" repository are already installed but they are not correct"
    r"|Public key for (\S+) is not (?:installed|trusted)|GPG check FAILED|GPG signature verification error"
    r"|Import of key\(s\) didn't help, wrong key\(s\)\?"
)
PROBLEM = re.compile(r"^ Problem(?: \d+)?: ([^\n]*(?:\n  - [^\n]*)*)", re.M)
CONFLICT = re.compile(
    r"^ *file (\S+) (?:from install of (\S+) )?conflicts (?:with file from package|between .*) (\S+)", re.M
)
SCRIPT = re.compile(r"Error in (\w+) scriptlet in rpm package (\S+)")
NO_REINSTALL = re.compile(r"Installed package (\S+) .*not available")

OWN_ADVICE = "check slurm.source and the route from the hosts to it"
OFFLINE = "Offline hosts get packages from a bundle: %s bundle" % FAB


def is_locked(output: str) -> bool:
    """Whether another program holds a lock of dnf's or rpm's, so that waiting helps."""
    return LOCKED.search(output) is not None


def is_stale(output: str) -> bool:
    """Whether newer metadata could help: a package is unknown, or a source no longer has its file."""
    return bool(UNKNOWN.search(output) or re.search(r"Status code: 404|No more mirrors to try", output))


def explain(output: str) -> str:
    """Why dnf failed, by all that it printed, and what to try."""
    for explanation in (lock, untrusted, network, excluded, unknown, disk, conflict, script, no_reinstall, problem):
        sentence = explanation(output)
        if sentence:
            return sentence
    last = [line for line in output.splitlines() if line.startswith("Error")] or output.strip().splitlines()
    return "dnf failed: %s" % (" | ".join(last[-3:]) or "no message")


def lock(output: str) -> Optional[str]:
    """A lock that another program holds; `None` if that is not the reason, here and below."""
    found = LOCKED.search(output)
    if not found:
        return None
    holder = (
        "process %s" % (found.group(2) or found.group(3)) if found.group(2) or found.group(3) else "another program"
    )
    return "%s holds the lock of dnf or rpm; wait until it has ended and run again" % holder


def untrusted(output: str) -> Optional[str]:
    """Packages that nobody, or somebody else than expected, has signed."""
    unsigned = UNSIGNED.search(output)
    if unsigned:
        return (
            "the package %s is not signed, so nothing was installed; sign it (rpmsign --addsign) and make the "
            "repository's metadata anew" % unsigned.group(1)
        )
    if not UNTRUSTED.search(output):
        return None
    return (
        "packages are signed by another key than the one that their source names (for Slurm's: the file of "
        "slurm.source.key), so nothing was installed; get the key of who made the packages"
    )


def network(output: str) -> Optional[str]:
    """A source that cannot be reached."""
    if not NETWORK.search(output):
        return None
    source = re.search(r"metadata for repo '([^']+)'", output)
    which = "the package source %s" % source.group(1) if source else "a package source"
    curl = re.search(r"Curl error \(\d+\): [^\n]*|Status code: [^\n]*", output)
    why = curl.group(0).strip() if curl else "all of its mirrors were tried"
    return "%s cannot be reached (%s); %s, or dnf's proxy settings. %s" % (which, why, OWN_ADVICE, OFFLINE)


def excluded(output: str) -> Optional[str]:
    """Packages that the host's settings leave out."""
    found = sorted(set(EXCLUDED.findall(output)))
    sentence = "this host's settings of dnf leave out %s (excludepkgs= in /etc/dnf/dnf.conf or a file of yum.repos.d)"
    return sentence % ", ".join(found) if found else None


def unknown(output: str) -> Optional[str]:
    """Packages that no source has."""
    found = sorted({one for first, second in UNKNOWN.findall(output) for one in (first or second).split()})
    if not found:
        return None
    sentence = (
        "this host's package sources have no package %s; check slurm.version, and /etc/yum.repos.d: is the source of "
        "Slurm's packages for this release and architecture, are crb and epel enabled where they are needed?"
    )
    return sentence % ", ".join(found)


def disk(output: str) -> Optional[str]:
    """A full file system."""
    found = FULL.search(output)
    return "the disk is full (%s); free some space and run again" % found.group(0).strip() if found else None


def conflict(output: str) -> Optional[str]:
    """Two packages with the same file."""
    found = CONFLICT.search(output)
    sentence = "%s is of two packages, %s and %s; remove the one that does not belong there: dnf remove"
    return sentence % (found.group(1), found.group(2) or "a new one", found.group(3)) if found else None


def script(output: str) -> Optional[str]:
    """A package whose script failed."""
    found = SCRIPT.search(output)
    if not found:
        return None
    sentence = (
        "the %s script of the package %s failed; see `dnf history info last`, then try `dnf reinstall` of it there"
    )
    return sentence % (found.group(1).lower(), found.group(2))


def no_reinstall(output: str) -> Optional[str]:
    """A package that cannot be installed anew, as no source has its version any more."""
    found = sorted(set(NO_REINSTALL.findall(output)))
    sentence = "no source has the installed version of %s any more; bring it up to date by hand: dnf upgrade %s"
    return sentence % (", ".join(found), " ".join(one.rsplit("-", 2)[0] for one in found)) if found else None


def problem(output: str) -> Optional[str]:
    """Dependencies that cannot be met."""
    found = [" ".join(text.split()) for text in PROBLEM.findall(output)]
    sentence = "dependencies cannot be met: %s; is a package locked or left out, or are crb and epel not enabled?"
    return sentence % " | ".join(found[:3]) if found else None
