"""Debian packages, installed by apt-get(8)."""

from __future__ import annotations

import time
from typing import ClassVar, Container, Dict, Iterable, List, Optional, Tuple

from slurmfab.on_hosts.agent.core.resource import Context, LeftAsItWas, ResourceFailed, State
from slurmfab.on_hosts.agent.packages import (
    added_packages,
    bundle_place,
    daemon_policy,
    dpkg_status,
    package_files,
    unfinished,
)
from slurmfab.on_hosts.agent.packages.apt import (
    CONFIGURE,
    DOWNGRADES,
    ENVIRONMENT,
    INSTALL_SECONDS,
    MINIMAL,
    apt_get,
    complete,
    install,
    lists_are_fresh,
    update,
)
from slurmfab.on_hosts.agent.packages.installed_packages import InstalledPackages

DAEMONS = ("munge", "slurmdbd", "slurmctld", "slurmd")  # units of daemons; the names of their packages end so

NO_SOURCE_HAS = "this host's package sources do not have "
"""What stands before the packages of the site's, `NAME` or `NAME=VERSION`, that are in no source."""

MISSING_FILES = "missing files"
"""The name in a state for files of Slurm's and MUNGE's packages that somebody has removed."""


class Packages(InstalledPackages):
    """Installed packages of Debian, of any version where none is wanted; dpkg does not start their daemons."""

    kind: ClassVar[str] = "packages"
    LEFT: ClassVar[Tuple[str, ...]] = ("unfinished", "policy-rc.d", "bundle", MISSING_FILES)
    sites: Tuple[str, ...] = ()  # those that the cluster file names and that the host's own sources have to have

    def actual(self, context: Context) -> State:
        """The state of packages, and what a run left; ResourceFailed in a dry run without a source for a site's."""
        state = super().actual(context)
        missing = self.texts([name for name in self.sites if state.get(name) != self.wanted(context)[name]])
        if missing and context.dry_run:
            from slurmfab.on_hosts.agent.packages.unknown_packages import unknown

            unknowns = unknown(context, missing)
            if unknowns:
                raise ResourceFailed(NO_SOURCE_HAS + ", ".join(unknowns))
        return state

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

                exact = slurm_release.chosen(context, missing, self.slurm, self.slurm_version)
                missing = exact if exact == missing else slurm_release.solved(context, exact, flags=DOWNGRADES)[0]
            code, output = install(context, missing, source)
            if code != 0 and is_fresh and not source and apt_errors.is_stale(output):
                complaints = update(context)
                code, output = install(context, missing)
            if code != 0:
                held = unfinished.held(dpkg_status.read(context.root))
                raise ResourceFailed(apt_errors.explain(output + complaints, held))
        bundle_place.remove(context)

    def mend(self, context: Context, differing: frozenset[str]) -> None:
        """Finish packages, and bring files back; ResourceFailed if any is missing, LeftAsItWas for inessential ones."""
        if MISSING_FILES in differing:
            self.bring_back(context)
        if "unfinished" in differing:
            self.finish(context)

    def bring_back(self, context: Context) -> None:
        """Unpack packages with missing files again, in their versions; ResourceFailed if apt-get has none."""
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
        """Complete packages that Slurm can do without: failures are remarks, unfinished ones LeftAsItWas."""
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
