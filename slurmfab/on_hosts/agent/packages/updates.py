"""Newer versions that apt has of this host's packages: read, and installed.

Slurm's own packages stay as they are: their upgrade has an order over the whole cluster. No package is removed.
"""

from __future__ import annotations

import fnmatch
import os
import re
import time
from typing import Any, ClassVar, Dict, FrozenSet, List, Mapping, Optional, Sequence, Set, Tuple

from slurmfab.on_hosts.agent.core.reading import names as names_in
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.packages import apt, apt_simulation, daemon_policy, dpkg_status, reboot_need, unfinished
from slurmfab.on_hosts.agent.packages.apt_simulation import Candidate
from slurmfab.on_hosts.agent.services import replaced_files

SLURM, HELD, APT = "slurm", "held", "apt"
"""Why a package is not updated: it is Slurm's own, the site holds it, or it would need the removal of others."""

BY_ITS_SCRIPTS = ("mariadb", "mysql")  # daemons whose own packages stop them before an update and start them after it

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
        "reboot": reboot_need.reasons(context.root),
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
    """The packages that are updated, those that are not and why, and those that a full upgrade would remove.

    `slurm`: names of Slurm's own packages, or patterns. `only_security`: whether other updates are left alone, too.
    Raises ResourceFailed if apt-get refuses.
    """
    own = slurms(status, slurm)
    with apt_simulation.left_alone(context, own) as options:
        due = apt_simulation.candidates(apt_simulation.simulate(context, *options, *apt_simulation.UPGRADE))
        full = apt_simulation.simulate(context, *options, *apt_simulation.FULL)
    others: Set[str] = set()
    if only_security:
        others = {one.name for one in due if one.installed and not one.is_security}
        with apt_simulation.left_alone(context, own | others) as options:
            due = apt_simulation.candidates(apt_simulation.simulate(context, *options, *apt_simulation.UPGRADE))
    everything = apt_simulation.simulate(context, "--ignore-hold", *apt_simulation.FULL)
    held, names = set(unfinished.held(status)), {one.name for one in due} | others
    kept = [
        [one.name, one.installed, one.candidate, SLURM if one.name in own else HELD if one.name in held else APT]
        for one in apt_simulation.candidates(everything)
        if one.installed and one.name not in names and (one.is_security or not only_security or one.name in own)
    ]
    return due, kept, apt_simulation.removed(full)


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
        there = {name: version_of(status, name) for name, _, _ in pairs}
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
            printed = ""
            if dpkg_status.is_interrupted(context.root):
                done = context.run(apt.CONFIGURE, seconds=apt.INSTALL_SECONDS, env=apt.ENVIRONMENT)
                printed = (done.stdout + b"\n" + done.stderr).decode(errors="replace")
            if dpkg_status.is_interrupted(context.root):
                printed = apt.complete(context, ())[1]
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
        with apt_simulation.left_alone(context, own) as options:
            due = apt_simulation.candidates(apt_simulation.simulate(context, *options, *apt_simulation.UPGRADE))
        others = {one.name for one in due if one.installed and one.name not in agreed}
        with apt_simulation.left_alone(context, own | others) as options:
            return apt.apt_get(context, [*options, *apt_simulation.UPGRADE])


def version_of(status: bytes, name: str) -> Optional[str]:
    """The version of a package, named as by apt (with a foreign architecture); `None` if not installed."""
    package, _, architecture = name.partition(":")
    for paragraph in dpkg_status.paragraphs(status, package):
        is_there = dpkg_status.field(paragraph, "Status").endswith(" ok installed")
        if is_there and architecture in ("", dpkg_status.field(paragraph, "Architecture")):
            return dpkg_status.field(paragraph, "Version")
    return None
