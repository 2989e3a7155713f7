"""Packages of the distribution."""

from __future__ import annotations

import os
import re
import time
from typing import ClassVar, Tuple

from slurmfab.agent import bundle_place, daemon_policy
from slurmfab.agent.reading import names, read_bytes
from slurmfab.agent.resource import Context, Resource, ResourceFailed, State

LISTS = "/var/lib/apt/lists"
LISTS_AGE = 86400.0
"""Seconds after which package lists are fetched again."""

LOCK_SECONDS = 120.0
"""How long to wait for others who use apt or dpkg, such as a new machine's own first update."""

INSTALL_SECONDS = 7200.0
"""After how long an installation counts as hanging; short of that it is never killed."""

ENVIRONMENT = {"DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_MODE": "l", "APT_LISTCHANGES_FRONTEND": "none"}

OPTIONS = (
    "-q", "-y", "-o", "DPkg::Lock::Timeout=%d" % LOCK_SECONDS,
    "-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold",
    # No fsync per file: an interrupted installation is repeated anyway.
    "-o", "Dpkg::Options::=--force-unsafe-io",
)  # fmt: skip

SPARING = ("--no-install-recommends", "--no-remove")

BETWEEN = ("half-configured", "unpacked", "triggers-pending", "half-installed")
"""The states of packages whose installation has not come to its end (dpkg(1), PACKAGE STATES)."""


class Packages(Resource):
    """Installed packages, whatever their version; their daemons are not started by the installation.

    Args:
        names: of the packages.
        bundle: digest of the bundle whose packages were brought here for that; empty for the host's own sources.
    """

    kind: ClassVar[str] = "packages"
    names: Tuple[str, ...]
    bundle: str = ""

    def name(self) -> str:
        """The packages' names with commas."""
        return ",".join(self.names)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Every package installed, and no leftover of a killed run."""
        return {**dict.fromkeys(self.names, "installed"), "policy-rc.d": None, "bundle": None}

    def actual(self, context: Context) -> State:
        """dpkg's word for the state of each package that it knows."""
        status = read_bytes(context.path("/var/lib/dpkg/status"))
        left = {"policy-rc.d": daemon_policy.leftover(context)}
        # What was brought for this very installation is no leftover; converging removes it.
        left["bundle"] = None if self.bundle else bundle_place.leftover(context)
        return {**package_states(self.names, status), **left}

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Install what is missing."""
        missing = [package for package in self.names if package in differing]
        if not missing:
            daemon_policy.restore(context)
            bundle_place.remove(context)
            return
        from slurmfab.agent import apt_words  # noqa: PLC0415 - its patterns are dear, and most runs install nothing

        with daemon_policy.daemons_wait(context):
            if is_interrupted(context):
                context.run(["dpkg", "--force-confdef", "--force-confold", "--configure", "-a"],
                            seconds=INSTALL_SECONDS, env=ENVIRONMENT)  # fmt: skip
            source = bundle_place.options(context, self.bundle) if self.bundle else ()
            is_fresh = bool(source) or lists_are_fresh(context, time.time())
            troubles = "" if is_fresh else update(context)
            code, output = install(context, missing, source)
            if code != 0 and is_fresh and not source and apt_words.is_stale(output):
                troubles = update(context)
                code, output = install(context, missing)
            if code != 0:
                raise ResourceFailed(apt_words.explain(output + troubles))
        bundle_place.remove(context)


def package_states(packages: Tuple[str, ...], status: bytes) -> dict[str, str]:
    """dpkg's word for the state of packages, such as `installed` or `half-configured`.

    Args:
        packages: their names.
        status: the content of dpkg's status file; one package can be there for several architectures.
    """
    status = b"\n\n" + status
    states: dict[str, str] = {}
    for package in packages:
        start = -1
        while True:
            start = status.find(b"\n\nPackage: %s\n" % package.encode(), start + 1)
            if start < 0:
                break
            words = status[start : start + 2000].partition(b"\nStatus: ")[2].partition(b"\n")[0].decode().split()
            if words and words[-1] not in ("not-installed", "config-files") and states.get(package) != "installed":
                states[package] = words[-1]
    return states


def is_interrupted(context: Context) -> bool:
    """Whether an earlier dpkg was killed: it leaves its journal, or packages between two states."""
    if any(name.isdigit() for name in names(context.path("/var/lib/dpkg/updates"))):
        return True
    status = read_bytes(context.path("/var/lib/dpkg/status"))
    return any(b" %s %s\n" % (flag, state.encode()) in status for flag in (b"ok", b"reinstreq") for state in BETWEEN)


def torn_packages(status: bytes) -> list[str]:
    """The packages that dpkg was unpacking when it was killed (dpkg(1), reinst-required), as apt-get calls them.

    Args:
        status: the content of dpkg's status file.
    """
    torn = []
    for paragraph in status.split(b"\n\n"):
        found = re.findall(rb"^(Package|Status|Architecture): (.*)$", paragraph, re.M)
        fields = {key: value.decode() for key, value in found}
        if " reinstreq " in fields.get(b"Status", ""):
            architecture = fields.get(b"Architecture", "all")
            torn.append(fields[b"Package"] + ("" if architecture == "all" else ":" + architecture))
    return torn


def lists_are_fresh(context: Context, now: float) -> bool:
    """Whether package lists are there and were fetched within a day.

    The lists carry the time that the source gave them; apt's own directories tell when it last looked.
    """
    folder = context.path(LISTS)
    if not any("_Packages" in name for name in names(folder)):
        return False
    looked = max(os.stat(path).st_mtime for path in (folder, folder + "/partial") if os.path.isdir(path))
    return now - looked < LISTS_AGE


def update(context: Context) -> str:
    """Fetch the package lists, and return what apt-get had to complain about.

    A failure is no end: one broken source of many does not matter when the packages are found.
    """
    code, output = apt_get(context, ["update"])
    return "" if code == 0 and "\nErr:" not in output else "\n" + output


def install(context: Context, packages: list[str], source: Tuple[str, ...] = ()) -> tuple[int, str]:
    """Install packages and nothing that they merely recommend; nothing installed is removed for them.

    What an interrupted run left is completed first, since apt-get refuses all else.

    Args:
        context: knows how to run programs.
        packages: their names.
        source: options for apt-get that name another source than the host's own.
    """
    if is_interrupted(context):
        code, output = complete(context, source)
        if code != 0:
            return code, output
    return apt_get(context, [*source, *SPARING, "install", "--", *packages])


def complete(context: Context, source: Tuple[str, ...]) -> tuple[int, str]:
    """Complete what an interrupted run left half unpacked, or without its dependencies.

    What was being unpacked is unpacked anew, which neither dpkg nor apt-get does by itself. Where that fails for a
    package of somebody else's, nothing is lost by going on.
    """
    torn = torn_packages(read_bytes(context.path("/var/lib/dpkg/status")))
    said = apt_get(context, [*source, *SPARING, *reinstalling(torn)])[1] if torn else ""
    code, output = apt_get(context, [*source, *SPARING, "--fix-broken", "install"])
    return code, said + output


def reinstalling(torn: list[str]) -> list[str]:
    """The words for apt-get that have packages unpacked and set up anew."""
    return ["--fix-broken", "--reinstall", "install", "--", *torn]


def apt_get(context: Context, words: list[str]) -> tuple[int, str]:
    """Run apt-get, again while others hold a lock, and return its exit code and all that it printed."""
    from slurmfab.agent import apt_words  # noqa: PLC0415 - see above

    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        done = context.run(["apt-get", *OPTIONS, *words], seconds=INSTALL_SECONDS, env=ENVIRONMENT)
        output = (done.stdout + b"\n" + done.stderr).decode(errors="replace")
        # DPkg::Lock::Timeout covers dpkg's lock alone, not those of the lists and the archives.
        if done.returncode == 0 or not apt_words.is_locked(output) or time.monotonic() > deadline:
            return done.returncode, output
        time.sleep(2)
