"""Newer versions that apt has of this host's packages: read, and installed.

Slurm's own packages stay as they are: their upgrade has an order over the whole cluster. No package is removed.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
import re
import time
from typing import (
    Any,
    ClassVar,
    Dict,
    FrozenSet,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from slurmfab.on_hosts.agent.core.listing import listed
from slurmfab.on_hosts.agent.core.reading import names, read_bytes, read_text
from slurmfab.on_hosts.agent.core.reading import names as names_in
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.packages import apt, daemon_policy, dpkg_status, unfinished
from slurmfab.on_hosts.agent.packages.apt import ENVIRONMENT, MINIMAL
from slurmfab.on_hosts.agent.services import replaced_files

REQUIRED = "/run/reboot-required"
"""Packages make this file when they need a reboot; `.pkgs` beside it has their names. Ubuntu's needrestart makes the
first alone when a newer kernel waits. A boot removes both."""

CONTAINER = ("/run/systemd/container", "/run/.containerenv", "/.dockerenv")
"""Files of a container, which has its machine's kernel and not one of its own packages."""

IMAGE = "vmlinuz-"
SHOWN = 5

_RELEASE = r"(\d[^-]*(?:-\d[^-]*)?)-([a-z].*)"
"""A kernel's release: numbers, and the flavour, as `6.1.0-25` and `amd64`."""

_BUILD = r"Debian (\S+) \("
"""The version of the running kernel's package, which Debian has in the kernel's own version (uname(2))."""


def reboot_reasons(root: str, release: str = "", build: str = "") -> List[str]:
    """Why this host needs a reboot; empty if it needs none.

    Args:
        release: of the running kernel; asked for when left out.
        build: its version, as `#1 SMP Debian 6.1.115-1 (2024-11-01)`, likewise.
    """
    top = root.rstrip("/")
    found = []
    if os.path.exists(top + REQUIRED):
        packages = sorted(set(read_text(top + REQUIRED + ".pkgs").split()))
        found.append("%s asks for it" % (listed(packages, SHOWN) or REQUIRED))
    if not any(os.path.exists(top + path) for path in CONTAINER):
        system = os.uname()
        kernel = newer_kernel(top, release or system.release, build or system.version)
        found += [kernel] if kernel else []
    return found


def newer_kernel(top: str, release: str, build: str) -> Optional[str]:
    """That a newer kernel is installed than the one that runs; `None` if not, or if the kernel is not of this system.

    A host that boots over the network has no image of its kernel in /boot, and what is there says nothing. `top`: the
    directory below which the host's files are, without a slash at its end.
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


PREFERENCES = "/etc/apt/preferences"
"""The site's own preferences; those in preferences.d stay in force, as apt reads both."""

FOLDER = "/run"
UPGRADE = (*MINIMAL, "--with-new-pkgs", "upgrade")
"""What `apt upgrade` does: newer versions, and what these need; nothing is removed."""

FULL = ("--no-install-recommends", "dist-upgrade")
SECONDS = 300.0

# Texts, not compiled patterns: re caches those that are used.
_SIMULATED = r"^Inst (\S+)(?: \[([^\]\n]*)\])? \((\S+)([^\n]*?) \[[^\]\n]*\]\)"
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


def simulate_upgrade(context: Context, *arguments: str) -> str:
    """What apt-get prints when it only simulates; ResourceFailed if it refuses, as with unmet dependencies."""
    from slurmfab.on_hosts.agent.packages import apt_errors

    done = context.run(["apt-get", "-q", "--simulate", *arguments], seconds=SECONDS, env=ENVIRONMENT)
    printed = (done.stdout + b"\n" + done.stderr).decode(errors="replace")
    if done.returncode != 0:
        raise ResourceFailed(apt_errors.explain(printed))
    return printed


def simulated_candidates(printed: str) -> List[Candidate]:
    """The packages that a simulation would install or update, sorted."""
    return sorted(
        Candidate(name, installed, candidate, is_security(origins))
        for name, installed, candidate, origins in re.findall(_SIMULATED, printed, re.M)
    )


def is_security(origins: str) -> bool:
    """Whether one of the archives that have a version is for security.

    >>> is_security(" Debian:12.15/oldstable, Debian-Security:12/oldstable-security")
    True
    """
    return any(re.match(_SECURITY, origin.strip()) for origin in origins.split(","))


def simulated_removals(printed: str) -> List[str]:
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


SLURM, HELD, APT = "slurm", "held", "apt"
"""Why a package is not updated: it is Slurm's own, the site holds it, or it would need the removal of others."""

# Daemons whose own packages stop them before an update and start them after it, or may.
BY_ITS_SCRIPTS = ("mariadb", "mysql", *daemon_policy.NEW_DAEMONS)

_INSTALLED = rb"^Package: (\S+)\nStatus: \S+ ok installed$"


def read(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:
    """What an update would do here.

    Args:
        request: `slurm`: names of Slurm's own packages, or patterns; `security`: whether only packages count whose
            newer version comes from a security archive; `fetch`: whether to fetch the package lists first.

    Returns:
        `packages`: name, version, newer version (empty and the version for new ones), whether it is for security.
        `kept`: name, version, newer version, why. `removed`: what a full upgrade would remove. `reboot`: why the host
        needs one. `stale`: units with a replaced program or library, and the files. `age`: seconds since the lists
        were fetched. `unfinished`: packages that dpkg has not completed. `trouble`: why apt did not fetch all lists.

    Raises:
        ResourceFailed: apt-get refuses or is missing, so there is nothing to tell.
    """
    trouble = fetched(context) if request.get("fetch") else ""
    status = dpkg_status.read(context.root)
    left = unfinished.unfinished(context.root, status)
    due, kept, gone = [], [], []  # type: ignore[var-annotated]
    try:
        due, kept, gone = candidates(context, status, request["slurm"], only_security=bool(request.get("security")))
    except ResourceFailed:
        if not left:
            raise
    return {
        "packages": [list(one) for one in due],
        "kept": kept,
        "removed": gone,
        "reboot": reboot_reasons(context.root),
        "stale": replaced_files.users(context),
        "age": lists_age(context, time.time()),
        "unfinished": left,
        "trouble": trouble,
    }


def fetched(context: Context) -> str:
    """Fetch the package lists; returns in one sentence what apt complained about, empty for nothing."""
    from slurmfab.on_hosts.agent.packages import apt_errors

    output = apt.update(context)
    return apt_errors.explain(output) if output else ""


def candidates(
    context: Context, status: bytes, slurm: Sequence[str], *, only_security: bool
) -> Tuple[List[Candidate], List[List[str]], List[str]]:
    """Packages updated, left with reasons, and removed by a full upgrade; ResourceFailed if apt-get refuses."""
    own = slurms(status, slurm)
    with left_alone(context, own) as options:
        due = simulated_candidates(simulate_upgrade(context, *options, *UPGRADE))
        full = simulate_upgrade(context, *options, *FULL)
    others: Set[str] = set()
    if only_security:
        others = {one.name for one in due if one.installed and not one.is_security}
        with left_alone(context, own | others) as options:
            due = simulated_candidates(simulate_upgrade(context, *options, *UPGRADE))
    everything = simulate_upgrade(context, "--ignore-hold", *FULL)
    held, names = set(unfinished.held(status)), {one.name for one in due} | others
    kept = [
        [one.name, one.installed, one.candidate, SLURM if one.name in own else HELD if one.name in held else APT]
        for one in simulated_candidates(everything)
        if one.installed and one.name not in names and (one.is_security or not only_security or one.name in own)
    ]
    return due, kept, simulated_removals(full)


def slurms(status: bytes, slurm: Sequence[str]) -> Set[str]:
    """The installed packages that are Slurm's own. `slurm`: names of Slurm's own packages, or patterns."""
    there = [name.decode() for name in re.findall(_INSTALLED, status, re.M)]
    return {name for name in there if any(fnmatch.fnmatchcase(name, one) for one in slurm)}


def lists_age(context: Context, now: float) -> float:
    """Seconds since the package lists were fetched; -1 if there are none."""
    folder = context.path(apt.LISTS)
    if not any("_Packages" in name for name in names_in(folder)):
        return -1.0
    times = [os.stat(path).st_mtime for path in (folder, folder + "/partial") if os.path.isdir(path)]
    return max(0.0, now - max(times))


class Updates(Resource):
    """Packages in newer versions, and no others; nothing is removed, and files of configuration stay."""

    kind: ClassVar[str] = "updates"
    deadline: ClassVar[float] = 7200.0
    versions: Tuple[str, ...]  # `NAME=VERSION` of all that are updated, and of new packages that these need
    slurm: Tuple[str, ...]  # names of Slurm's own packages, or patterns, which stay as they are

    def name(self) -> str:
        """How many they are."""
        if not self.versions:
            return "unfinished packages"
        return "%d package%s" % (len(self.versions), "" if len(self.versions) == 1 else "s")

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Every package in its newer version, and nothing left by an interrupted run."""
        pairs = (text.partition("=") for text in self.versions)
        return {**{name: version for name, _, version in pairs}, "unfinished": None, "policy-rc.d": None}

    def actual(self, context: Context) -> State:
        """The packages' versions, packages that dpkg has not finished, and what an interrupted run left."""
        status = dpkg_status.read(context.root)
        pairs = [text.partition("=") for text in self.versions]
        entries = dpkg_status.entries(status, [name.partition(":")[0] for name, _, _ in pairs])
        there = {name: version_of(entries, name) for name, _, _ in pairs}
        found = {name: self.found(context, there[name], version) for name, _, version in pairs}
        left = unfinished.unfinished(context.root, status) or None
        return {**found, "unfinished": left, "policy-rc.d": daemon_policy.leftover(context)}

    def found(self, context: Context, there: Optional[str], wanted: str) -> Optional[str]:
        """The present version (`None`: not installed) to compare with the wanted one; a newer one is as good."""
        if there in (None, wanted):
            return there
        is_newer = context.run(["dpkg", "--compare-versions", str(there), "ge", wanted]).returncode == 0
        return wanted if is_newer else there

    def converge(self, context: Context, differing: FrozenSet[str]) -> None:  # noqa: ARG002
        """Complete what an interrupted run left, and update. Raises ResourceFailed if apt-get failed."""
        from slurmfab.on_hosts.agent.packages import apt_errors

        with daemon_policy.daemons_wait(context, BY_ITS_SCRIPTS):
            printed = apt.finish(context)
            left = unfinished.unfinished(context.root, dpkg_status.read(context.root))
            if left:
                raise ResourceFailed("dpkg cannot finish %s: %s" % (left, apt_errors.explain(printed)))
            code, output = self.upgrade(context)
            if code != 0 and apt_errors.is_stale(output):
                output += apt.update(context)
                code, output = self.upgrade(context)
        if code != 0:
            raise ResourceFailed(apt_errors.explain(output, unfinished.held(dpkg_status.read(context.root))))

    def upgrade(self, context: Context) -> Tuple[int, str]:
        """Run the update; returns the exit code of apt-get, and all that it printed."""
        status = dpkg_status.read(context.root)
        own = slurms(status, self.slurm)
        agreed = {text.partition("=")[0] for text in self.versions}
        with left_alone(context, own) as options:
            due = simulated_candidates(simulate_upgrade(context, *options, *UPGRADE))
        others = {one.name for one in due if one.installed and one.name not in agreed}
        with left_alone(context, own | others) as options:
            return apt.apt_get(context, [*options, *UPGRADE])


def version_of(entries: Mapping[str, Sequence[bytes]], name: str) -> Optional[str]:
    """The version of a package, named as by apt (with a foreign architecture); `None` if not installed.

    `entries`: of dpkg's status file, by package.
    """
    package, _, architecture = name.partition(":")
    for entry in entries[package]:
        is_there = dpkg_status.field(entry, "Status").endswith(" ok installed")
        if is_there and architecture in ("", dpkg_status.field(entry, "Architecture")):
            return dpkg_status.field(entry, "Version")
    return None
