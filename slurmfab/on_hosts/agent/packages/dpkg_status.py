"""dpkg's status file: the packages that a host has, with version and state (dpkg(1), PACKAGE STATES)."""

from __future__ import annotations

import re
from typing import Dict, Iterable, List

from slurmfab.on_hosts.agent.core.reading import names, read_bytes

STATUS = "/var/lib/dpkg/status"
JOURNAL = "/var/lib/dpkg/updates"  # where dpkg writes changes before it writes them to the status file

UNFINISHED = ("half-configured", "unpacked", "triggers-awaited", "triggers-pending", "half-installed")
"""The states of packages whose installation was not completed."""


def read(root: str) -> bytes:
    """The status file and dpkg's journal, where a package is that is being unpacked; empty where dpkg has none."""
    place = root.rstrip("/") + JOURNAL
    # Read first: what dpkg moves meanwhile is in one of them.
    changed = [read_bytes("%s/%s" % (place, name)) for name in sorted(names(place)) if name.isdecimal()]
    status = read_bytes(root.rstrip("/") + STATUS)
    if not any(changed):
        return status
    found = [b"\n" + one.strip() for one in (*status.split(b"\n\n"), *changed)]
    return (
        b"\n".join({(field(one, "Package"), field(one, "Architecture")): one + b"\n" for one in found}.values())[1:]
        + b"\n"
    )


def entries(status: bytes, packages: Iterable[str]) -> Dict[str, List[bytes]]:
    """The entries of packages, one for each architecture, as `NAME: VALUE` lines that each follow a newline."""
    found: Dict[bytes, List[bytes]] = {b"Package: " + package.encode(): [] for package in packages}
    for entry in re.split(b"\n\n+", status):
        found.get(entry.partition(b"\n")[0], []).append(b"\n%s\n" % entry)
    return {name[9:].decode(): some for name, some in found.items()}


def field(entry: bytes, name: str) -> str:
    """The value of a field in an entry, empty where it is missing."""
    return entry.partition(b"\n%s: " % name.encode())[2].partition(b"\n")[0].decode(errors="replace")


def states(status: bytes, packages: Iterable[str]) -> Dict[str, str]:
    """The states of packages, as `half-configured`, without removed; `installed` counts in any architecture."""
    found: Dict[str, str] = {}
    for package, some in entries(status, packages).items():
        for entry in some:
            state = field(entry, "Status").rpartition(" ")[2]
            if state not in ("", "not-installed", "config-files") and found.get(package) != "installed":
                found[package] = state
    return found


def versions(status: bytes, packages: Iterable[str]) -> Dict[str, str]:
    """The versions of packages that are completely installed, held ones included, by package."""
    return {
        package: field(entry, "Version")
        for package, some in entries(status, packages).items()
        for entry in some
        if field(entry, "Status").endswith(" ok installed")
    }


def architecture(status: bytes) -> str:
    """Debian's name for the host's architecture, such as `amd64`: the architecture of dpkg itself."""
    return next((field(entry, "Architecture") for entry in entries(status, ("dpkg",))["dpkg"]), "")


def is_interrupted(root: str) -> bool:
    """Whether an earlier dpkg below this root was killed: it left a journal, or unfinished packages."""
    if any(name.isdecimal() for name in names(root.rstrip("/") + JOURNAL)):
        return True
    status = read(root)
    return any(b" %s %s\n" % (flag, state.encode()) in status for flag in (b"ok", b"reinstreq") for state in UNFINISHED)


def torn_packages(status: bytes) -> List[str]:
    """The packages that dpkg was unpacking when it was killed (dpkg(1), reinst-required), as `NAME:ARCHITECTURE`."""
    torn = []
    for paragraph in status.split(b"\n\n"):
        found = re.findall(rb"^(Package|Status|Architecture): (.*)$", paragraph, re.M)
        fields = {key: value.decode() for key, value in found}
        if " reinstreq " in fields.get(b"Status", ""):
            package_architecture = fields.get(b"Architecture", "all")
            torn.append(fields[b"Package"] + ("" if package_architecture == "all" else ":" + package_architecture))
    return torn
