"""Debian packages, installed by apt-get(8): which are there, and which lack files."""

from __future__ import annotations

import os
import re
import time
from typing import ClassVar, Container, Dict, Iterable, List, NamedTuple, Optional, Tuple

from slurmfab.on_hosts.agent.core.listing import listed
from slurmfab.on_hosts.agent.core.reading import names, read_text
from slurmfab.on_hosts.agent.core.resource import Context, LeftAsItWas, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.packages import added_packages, bundle_place, daemon_policy, dpkg_status, unfinished
from slurmfab.on_hosts.agent.packages.apt import (
    MINIMAL,
    WAY,
    apt_get,
    complete,
    configure,
    install,
    lists_are_fresh,
    update,
)

INFO = "/var/lib/dpkg/info"  # where dpkg lists the files of each package, as `NAME.list` or `NAME:ARCHITECTURE.list`

OURS = re.compile(r"((?:lib)?(?:slurm|munge)[a-z0-9.+-]*)(?::[a-z0-9]+)?\.list")
PLACES = re.compile(r"(?:/usr)?/(?:s?bin|lib(?:64)?)/", re.ASCII)
"""Programs, libraries, plugins and units; a site may leave out documentation (dpkg(1), --path-exclude)."""

ALTERNATIVES = ("/var/lib/dpkg/alternatives", "/etc/alternatives")
"""Where update-alternatives(1) has its records, and the links to which its links lead: names of programs that several
packages have, such as slurmd and slurmstepd."""

MOST = 3  # how many missing files are named


def missing_files(root: str) -> Tuple[Tuple[str, str], ...]:
    """Package and path of each file that is missing, sorted."""
    folder, found, unlinked = root.rstrip("/") + INFO, [], missing_links(root)
    for name in names(folder):
        package = OURS.fullmatch(name)
        if package:
            paths = [one for one in read_text("%s/%s" % (folder, name)).splitlines() if PLACES.match(one)]
            gone = [one for one in paths if not os.path.lexists(root.rstrip("/") + one)]
            gone += [unlinked[one].link for one in paths if one in unlinked]
            found += [(package[1], one) for one in gone]
    return tuple(sorted(found))


class Link(NamedTuple):
    """A link by which a program is found."""

    record: str  # name of the record that has it
    link: str  # its path


def missing_links(root: str) -> Dict[str, Link]:
    """The links by which programs of Slurm's packages are found and that are missing, by the program's own path."""
    records, targets = (root.rstrip("/") + one for one in ALTERNATIVES)
    found = {}
    for record in names(records):
        if record.startswith("slurm"):
            # Way of choosing, link, then name and link of each that goes with it; then the same of the first program.
            head, _, programs = read_text("%s/%s" % (records, record)).partition("\n\n")
            links = [record, *head.split("\n")[1:]]
            own = [one for number, one in enumerate(programs.split("\n")) if number != 1]
            for name, link, program in zip(links[::2], links[1::2], own):  # noqa: B905 - as Python 3.9 has it
                if PLACES.match(link) and not (os.path.lexists(root.rstrip("/") + link) and name in names(targets)):
                    found[program] = Link(record, link)
    return found


def missing_files_text(found: Tuple[Tuple[str, str], ...]) -> Optional[str]:
    """The missing files as a value of a state, such as `/usr/sbin/slurmstepd of slurmd`; `None` for none."""
    return listed(("%s of %s" % (path, package) for package, path in found), MOST) or None


INSTALLED = "installed"


class InstalledPackages(Resource):
    """Installed packages, of any version where none is wanted; the installation does not start their daemons.

    The class of a package manager has a `kind`, tells what is there by `states`, `versions_of` and `left`, and installs
    in `converge` what differs. Before, it notes with `added_packages` which packages were not there.
    """

    named_by: ClassVar[str] = "names"

    deadline: ClassVar[float] = 7200.0
    LEFT: ClassVar[Tuple[str, ...]] = ("unfinished",)
    """What an interrupted installation may leave, by the keys of `left`; `unfinished` are packages."""

    names: Tuple[str, ...]
    bundle: str = ""  # digest of the bundle that the packages come from; empty for the host's own package sources
    # `NAME=VERSION` of those that need a certain version, or with a `*` behind the beginning of one.
    versions: Tuple[str, ...] = ()
    files: Tuple[Tuple[str, str, str], ...] = ()  # name, file and SHA-256 of packages that were sent here in files
    # The names of all packages of Slurm's own, if these have a source or a version in the cluster file.
    slurm: Tuple[str, ...] = ()
    slurm_version: str = ""  # the version that these get on a host without Slurm; empty for any
    sites: Tuple[str, ...] = ()  # those that the cluster file names and that the host's own sources have to have

    @property
    def asked_of_bundle(self) -> Tuple[str, ...]:
        """The packages as a host is told what it installs from a bundle."""
        return self.names

    def states(self, context: Context) -> Dict[str, str]:
        """The state of each of the packages that is there, `installed` for one that is whole, by name."""
        raise NotImplementedError

    def versions_of(self, context: Context, names: Iterable[str]) -> Dict[str, str]:
        """The versions of installed packages, by name."""
        raise NotImplementedError

    def left(self, context: Context, *, is_whole: bool) -> Dict[str, Optional[str]]:
        """What an interrupted installation left, by `LEFT`, or `None`; `is_whole`: all packages are installed."""
        raise NotImplementedError

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Every package installed, no package of the host half installed, and nothing left by an interrupted run."""
        versions = dict(text.split("=") for text in self.versions)
        return {**dict.fromkeys(self.names, INSTALLED), **versions, **dict.fromkeys(self.LEFT)}

    def actual(self, context: Context) -> State:
        """The state of each package, or its version where another one is wanted, and what an interrupted run left."""
        states = self.states(context)
        is_whole = all(states.get(name) == INSTALLED for name in self.names)
        return {**states, **self.found_versions(context, states), **self.left(context, is_whole=is_whole)}

    def found_versions(self, context: Context, states: Dict[str, str]) -> Dict[str, str]:
        """The wanted version, or the other one that is there, of installed packages that need a certain one."""
        wanted = dict(text.split("=") for text in self.versions)
        there = self.versions_of(context, [name for name in wanted if states.get(name) == INSTALLED])
        return {name: wanted[name] if is_version(one, wanted[name]) else one for name, one in there.items()}


def is_version(version: str, wanted: str) -> bool:
    """Whether a version is the wanted one, or begins like it where that ends in `*`.

    >>> is_version("3.2.2-2", "3.2*"), is_version("3.2.2-2", "3.2")
    (True, False)
    """
    return version.startswith(wanted[:-1]) if wanted.endswith("*") else version == wanted


DAEMONS = ("munge", "slurmdbd", "slurmctld", "slurmd")  # units; parts of the names of their packages

NO_SOURCE_HAS = "this host's package sources do not have "
"""What stands before the packages of the site's, `NAME` or `NAME=VERSION`, that are in no source."""

MISSING_FILES = "missing files"
"""The name in a state for files of Slurm's and MUNGE's packages that somebody has removed."""


def restart_daemons(context: Context, packages: Iterable[str]) -> None:
    """Restart the daemons that run programs of packages which were replaced just now; jobs go on."""
    there = tuple(packages)
    for unit in DAEMONS:
        if any(unit in name.split("-") for name in there):
            context.run(["systemctl", "try-restart", unit])


class Packages(InstalledPackages):
    """Installed packages of Debian, of any version where none is wanted; dpkg does not start their daemons."""

    kind: ClassVar[str] = "packages"
    LEFT: ClassVar[Tuple[str, ...]] = ("unfinished", "policy-rc.d", "bundle", MISSING_FILES)

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
        left["bundle"] = None if self.bundle or self.files or WAY else bundle_place.leftover(context)
        # Where a package is to be installed, the others are finished along with it.
        status = dpkg_status.read(context.root) if is_whole else b""
        left["unfinished"] = unfinished.unfinished(context.root, status) or None if is_whole else None
        left[MISSING_FILES] = missing_files_text(missing_files(context.root)) if is_whole else None
        return left

    @property
    def asked_of_bundle(self) -> Tuple[str, ...]:
        """Those that need a certain version with it."""
        return tuple(self.texts(self.names))

    def texts(self, some: Container[str]) -> List[str]:
        """The packages of these names for apt-get: `NAME`, or `NAME=VERSION`."""
        versions = {text.partition("=")[0]: text for text in self.versions}
        return [versions.get(name, name) for name in self.names if name in some]

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Install, finish, and remove what was left; ResourceFailed of apt-get, LeftAsItWas for inessential ones."""
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
        with daemon_policy.daemons_wait(context, daemon_policy.of_site(self.sites)):
            if dpkg_status.is_interrupted(context.root):
                configure(context)
            source = bundle_place.options(context, self.bundle) if self.bundle else ()
            missing = bundle_place.as_files(context, self.files, missing)
            is_fresh = bool(source) or (not WAY and lists_are_fresh(context, time.time()))
            complaints = "" if is_fresh else update(context)
            if self.slurm and not source:
                from slurmfab.on_hosts.agent.packages import slurm_release

                missing = slurm_release.exactly(context, missing, self.slurm, self.slurm_version)
            code, output = install(context, missing, source)
            if code != 0 and is_fresh and not source and apt_errors.is_stale(output):
                complaints = update(context)
                code, output = install(context, missing)
            if code != 0:
                held = unfinished.held(dpkg_status.read(context.root))
                raise ResourceFailed(apt_errors.explain(output + complaints, held))
        bundle_place.remove(context)
        WAY.clear()

    def mend(self, context: Context, differing: frozenset[str]) -> None:
        """Finish packages, and bring files back; ResourceFailed if any is missing, LeftAsItWas for inessential ones."""
        if MISSING_FILES in differing:
            self.bring_back(context)
        if "unfinished" in differing:
            self.finish(context)

    def bring_back(self, context: Context) -> None:
        """Unpack packages with missing files again, in their versions; ResourceFailed if apt-get has none."""
        from slurmfab.on_hosts.agent.packages import apt_errors

        for record in sorted({one.record for one in missing_links(context.root).values()}):
            # Without a program that is newer than its daemon, as a package that is unpacked again would leave it.
            context.run(["update-alternatives", "--auto", record])
        found = missing_files(context.root)
        if not found:
            return
        lacking = sorted({package for package, _ in found})
        versions = self.versions_of(context, lacking)
        words = ["%s=%s" % (name, versions[name]) for name in lacking if name in versions]
        with daemon_policy.daemons_wait(context):
            complaints = "" if self.bundle or lists_are_fresh(context, time.time()) else update(context)
            source = bundle_place.options(context, self.bundle) if self.bundle else ()
            code, output = apt_get(context, [*source, *MINIMAL, "--reinstall", "install", "--", *words])
        if code != 0 or missing_files(context.root):
            why = apt_errors.explain(output + complaints)
            advice = "%s missing. Install these anew: apt-get install --reinstall %s"
            raise ResourceFailed("%s; %s" % (advice % (missing_files_text(found), " ".join(words)), why))
        restart_daemons(context, lacking)

    def finish(self, context: Context) -> None:
        """Complete packages that Slurm can do without: failures are remarks, unfinished ones LeftAsItWas."""
        from slurmfab.on_hosts.agent.packages import apt_errors

        with daemon_policy.daemons_wait(context, daemon_policy.of_site(self.sites)):
            printed = configure(context)
            if dpkg_status.is_interrupted(context.root):
                printed += complete(context, ())[1]
        left = unfinished.unfinished(context.root, dpkg_status.read(context.root))
        if left:
            why = apt_errors.explain(printed)
            raise LeftAsItWas("dpkg cannot finish %s, which keeps no job from running: %s" % (left, why))
