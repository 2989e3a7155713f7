"""Debian packages, installed by apt-get(8)."""

from __future__ import annotations

import os
import time
from typing import ClassVar, Container, Dict, Iterable, List, Optional, Tuple

from slurmfab.on_hosts.agent.core.reading import names
from slurmfab.on_hosts.agent.core.resource import Context, LeftAsItWas, ResourceFailed
from slurmfab.on_hosts.agent.packages import (
    added_packages,
    bundle_place,
    daemon_policy,
    dpkg_status,
    package_files,
    unfinished,
)
from slurmfab.on_hosts.agent.packages.installed_packages import InstalledPackages

LISTS = "/var/lib/apt/lists"
SOURCES = ("/etc/apt/sources.list", "/etc/apt/sources.list.d", "/etc/apt/keyrings")
"""apt's sources and their keys; a directory's time is that of its last new or removed file.

Not /etc/apt, where a new version of apt leaves a new time.
"""

LISTS_AGE = 86400.0
"""Seconds after which package lists are fetched again."""

LOCK_SECONDS = 120.0
"""How long to wait for the locks of apt and dpkg, which a new machine's first update may hold."""

INSTALL_SECONDS = 7200.0
"""Time limit of an installation; it is never killed before, because a killed dpkg leaves half-installed packages."""

ENVIRONMENT = {"DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_MODE": "l", "APT_LISTCHANGES_FRONTEND": "none"}

OPTIONS = (
    "-q", "-y", "-o", "DPkg::Lock::Timeout=%d" % LOCK_SECONDS,
    "-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold",
    # No fsync per file: an interrupted installation is repeated anyway.
    "-o", "Dpkg::Options::=--force-unsafe-io",
)  # fmt: skip

MINIMAL = ("--no-install-recommends", "--no-remove")
"""Options of apt-get: install no recommended packages, and remove none."""

CONFIGURE = ("dpkg", "--force-confdef", "--force-confold", "--configure", "-a")

FIX_BROKEN = ("--fix-broken", "install")
"""Arguments of apt-get that complete unfinished packages and install their missing dependencies."""


DAEMONS = ("munge", "slurmdbd", "slurmctld", "slurmd")
"""Units of daemons; the names of their packages end so."""

MISSING_FILES = "missing files"
"""The name in a state for files of Slurm's and MUNGE's packages that somebody has removed."""


class Packages(InstalledPackages):
    """Installed packages of Debian, of any version where none is wanted; dpkg does not start their daemons."""

    kind: ClassVar[str] = "packages"
    LEFT: ClassVar[Tuple[str, ...]] = ("unfinished", "policy-rc.d", "bundle", MISSING_FILES)

    def states(self, context: Context) -> Dict[str, str]:
        """dpkg's state of each package."""
        return dpkg_status.states(dpkg_status.read(context.root), self.names)

    def versions_of(self, context: Context, names: Iterable[str]) -> Dict[str, str]:
        """The versions of packages that dpkg has installed."""
        asked = tuple(names)
        return dpkg_status.versions(dpkg_status.read(context.root), asked) if asked else {}

    def left(self, context: Context, *, is_whole: bool) -> Dict[str, Optional[str]]:
        """Packages that dpkg has not finished, and what an interrupted run left."""
        left: Dict[str, Optional[str]] = {"policy-rc.d": daemon_policy.leftover(context)}
        # These packages were just copied here for this installation; converging removes them.
        left["bundle"] = None if self.bundle or self.files else bundle_place.leftover(context)
        # Where a package is to be installed, the others are finished along with it.
        status = dpkg_status.read(context.root) if is_whole else b""
        left["unfinished"] = unfinished.unfinished(context.root, status) or None if is_whole else None
        left[MISSING_FILES] = package_files.text(package_files.missing(context.root)) if is_whole else None
        return left

    def texts(self, some: Container[str]) -> List[str]:
        """The packages of these names for apt-get: `NAME`, or `NAME=VERSION`."""
        versions = {text.partition("=")[0]: text for text in self.versions}
        return [versions.get(name, name) for name in self.names if name in some]

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Install the missing packages, finish others, and remove what an interrupted run left.

        Raises:
            ResourceFailed: apt-get failed.
            LeftAsItWas: a package that Slurm does not need cannot be finished.
        """
        missing = self.texts(differing)
        if not missing:
            daemon_policy.restore(context)
            bundle_place.remove(context)
            self.mend(context, differing)
            return
        from slurmfab.on_hosts.agent.packages import apt_errors  # slow to compile, and most runs install nothing

        # Noted before, so that an interrupted run forgets none; what is half installed was somebody's before.
        wanted = [text.partition("=")[0] for text in missing]
        there = dpkg_status.states(dpkg_status.read(context.root), wanted)
        added_packages.note(context, (name for name in wanted if name not in there))
        with daemon_policy.daemons_wait(context):
            if dpkg_status.is_interrupted(context.root):
                context.run(CONFIGURE, seconds=INSTALL_SECONDS, env=ENVIRONMENT)
            source = bundle_place.options(context, self.bundle) if self.bundle else ()
            missing = bundle_place.as_files(context, self.files, missing)
            is_fresh = bool(source) or lists_are_fresh(context, time.time())
            complaints = "" if is_fresh else update(context)
            if self.slurm and not source:
                from slurmfab.on_hosts.agent.packages import slurm_release

                missing = slurm_release.chosen(context, missing, self.slurm, self.slurm_version)
            code, output = install(context, missing, source)
            if code != 0 and is_fresh and not source and apt_errors.is_stale(output):
                complaints = update(context)
                code, output = install(context, missing)
            if code != 0:
                held = unfinished.held(dpkg_status.read(context.root))
                raise ResourceFailed(apt_errors.explain(output + complaints, held))
        bundle_place.remove(context)

    def mend(self, context: Context, differing: frozenset[str]) -> None:
        """Finish packages, and bring back missing files, as far as either differs.

        Raises:
            ResourceFailed: files stay missing.
            LeftAsItWas: a package that Slurm does not need cannot be finished.
        """
        if MISSING_FILES in differing:
            self.bring_back(context)
        if "unfinished" in differing:
            self.finish(context)

    def bring_back(self, context: Context) -> None:
        """Unpack again the packages of which files are missing, in the versions that are installed.

        Raises:
            ResourceFailed: apt-get has no package of that version, or failed.
        """
        from slurmfab.on_hosts.agent.packages import apt_errors

        for record in sorted({one.record for one in package_files.missing_links(context.root).values()}):
            # Without a program that is newer than its daemon, as a package that is unpacked again would leave it.
            context.run(["update-alternatives", "--auto", record])
        found = package_files.missing(context.root)
        if not found:
            return
        lacking = sorted({package for package, _ in found})
        versions = self.versions_of(context, lacking)
        words = ["%s=%s" % (name, versions[name]) for name in lacking if name in versions]
        with daemon_policy.daemons_wait(context):
            complaints = "" if self.bundle or lists_are_fresh(context, time.time()) else update(context)
            source = bundle_place.options(context, self.bundle) if self.bundle else ()
            code, output = apt_get(context, [*source, *MINIMAL, "--reinstall", "install", "--", *words])
        if code != 0 or package_files.missing(context.root):
            why = apt_errors.explain(output + complaints)
            advice = "%s missing. Install these anew: apt-get install --reinstall %s"
            raise ResourceFailed("%s; %s" % (advice % (package_files.text(found), " ".join(words)), why))
        for unit in DAEMONS:
            if any(name.endswith(unit) for name in lacking):
                # It runs the program that was replaced just now; jobs go on.
                context.run(["systemctl", "try-restart", unit])

    def finish(self, context: Context) -> None:
        """Complete packages that Slurm does not need; what fails is a remark, because jobs run without them.

        Raises:
            LeftAsItWas: a package is still unfinished.
        """
        from slurmfab.on_hosts.agent.packages import apt_errors

        with daemon_policy.daemons_wait(context):
            done = context.run(CONFIGURE, seconds=INSTALL_SECONDS, env=ENVIRONMENT)
            printed = (done.stdout + b"\n" + done.stderr).decode(errors="replace")
            if dpkg_status.is_interrupted(context.root):
                printed += complete(context, ())[1]
        left = unfinished.unfinished(context.root, dpkg_status.read(context.root))
        if left:
            why = apt_errors.explain(printed)
            raise LeftAsItWas("dpkg cannot finish %s, which keeps no job from running: %s" % (left, why))


def lists_are_fresh(context: Context, now: float) -> bool:
    """Whether the package lists exist and were fetched within a day, and since the last change of apt's sources.

    The list files carry the mirror's time stamps; the time stamps of apt's directories show when apt fetched last.
    """
    folder = context.path(LISTS)
    if not any("_Packages" in name for name in names(folder)):
        return False
    fetched = max(os.stat(path).st_mtime for path in (folder, folder + "/partial") if os.path.isdir(path))
    sources = [context.path(path) for path in SOURCES]
    changed = max((os.stat(path).st_mtime for path in sources if os.path.exists(path)), default=0.0)
    return now - fetched < LISTS_AGE and changed < fetched


def update(context: Context) -> str:
    """Fetch the package lists; failures are returned and not raised.

    One broken package source does not matter when the others have the packages.

    Returns:
        The output of apt-get if it complained, otherwise empty.
    """
    code, output = apt_get(context, ["update"])
    return "" if code == 0 and "\nErr:" not in output else "\n" + output


def install(context: Context, packages: list[str], source: Tuple[str, ...] = ()) -> tuple[int, str]:
    """Install packages without recommended ones and without removing others.

    What an interrupted run left is completed first, because apt-get refuses all other work until then.

    Args:
        packages: package names, `NAME=VERSION`, or paths of files.
        source: options of apt-get that select another package source; empty for the host's own.

    Returns:
        The exit code of apt-get and all that it printed.
    """
    if dpkg_status.is_interrupted(context.root):
        code, output = complete(context, source)
        if code != 0:
            return code, output
    # A version in the cluster file may be an older one than the host's.
    has_files = any(package.startswith("/") for package in packages)
    older = ["--allow-downgrades"] if has_files or any("=" in package for package in packages) else []
    # The user _apt cannot read files in a directory of root's.
    own = ["-o", "APT::Sandbox::User=root"] if has_files else []
    return apt_get(context, [*source, *own, *MINIMAL, *older, "install", "--", *packages])


def complete(context: Context, source: Tuple[str, ...]) -> tuple[int, str]:
    """Complete what an interrupted run left half unpacked, or without dependencies.

    Packages that were being unpacked are unpacked again, which neither dpkg nor apt-get does by itself. A failure of
    that is ignored: the package may have no source here, and `apt-get --fix-broken install` decides.

    Args:
        source: as for `install`.

    Returns:
        The exit code of `apt-get --fix-broken install`, and all that was printed.
    """
    again = reinstall_torn(context)
    printed = apt_get(context, [*source, *MINIMAL, *again])[1] if again else ""
    code, output = apt_get(context, [*source, *MINIMAL, *FIX_BROKEN])
    return code, printed + output


def reinstall_torn(context: Context) -> list[str]:
    """The arguments of apt-get that unpack again what dpkg was unpacking when it was killed; empty for nothing."""
    torn = dpkg_status.torn_packages(dpkg_status.read(context.root))
    return ["--fix-broken", "--reinstall", "install", "--", *torn] if torn else []


def apt_get(context: Context, arguments: list[str]) -> tuple[int, str]:
    """Run apt-get, and repeat it for up to two minutes while another program holds a lock.

    Returns:
        Its exit code and all that it printed.
    """
    from slurmfab.on_hosts.agent.packages import apt_errors

    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        done = context.run(["apt-get", *OPTIONS, *arguments], seconds=INSTALL_SECONDS, env=ENVIRONMENT)
        output = (done.stdout + b"\n" + done.stderr).decode(errors="replace")
        # DPkg::Lock::Timeout covers dpkg's lock only, not the locks of the lists and the archives.
        if done.returncode == 0 or not apt_errors.is_locked(output) or time.monotonic() > deadline:
            return done.returncode, output
        time.sleep(2)
