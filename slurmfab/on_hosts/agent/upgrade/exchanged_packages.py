"""Slurm's packages in a certain version: exchanged all together, while the daemons that must not notice are stopped."""

from __future__ import annotations

import re
from typing import ClassVar, Dict, List, Optional, Set, Tuple

from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.packages import (
    apt_errors,
    daemon_policy,
    dpkg_status,
    slurm_lists,
    slurm_release,
    unfinished,
)
from slurmfab.on_hosts.agent.packages.installed_packages import is_version
from slurmfab.on_hosts.agent.packages.packages import (
    CONFIGURE,
    ENVIRONMENT,
    INSTALL_SECONDS,
    MINIMAL,
    apt_get,
    complete,
    update,
)
from slurmfab.on_hosts.agent.services import start_guard
from slurmfab.on_hosts.agent.services.service import is_active

STOP_SECONDS = 120.0
"""Time that a daemon gets to end (systemd's TimeoutStopSec= is 90 s)."""

UNKNOWN = re.compile(r"Release '[^']*' for '([^']+)' was not found")
"""apt-get's words for a package that a release does not have."""

MOST_TRIES = 4
"""How often packages that would be removed are named, too, to be exchanged with the others."""


class ExchangedPackages(Resource):
    """Installed packages of Slurm's, all of certain versions; no package is removed, and dpkg starts no daemon.

    The daemons in `stops` are stopped when all files have been downloaded, and started by whoever asks for that later;
    a guard starts them if the run ends before. Others go on with the programs and plugins that they have loaded.
    slurmd is stopped, since one that runs would start the new slurmstepd: without it, steps and jobs that begin wait
    for it (tried with 24.11 and 26.05); those that run have a slurmstepd of their own.

    Args:
        versions: `NAME=VERSION`, or with a `*` behind the beginning of a version.
        suite: name of the suite that has them, if apt would not take the libraries that they need from there by itself.
        stops: units of daemons that are stopped meanwhile.
    """

    kind: ClassVar[str] = "packages-exchanged"
    deadline: ClassVar[float] = 7200.0
    versions: Tuple[str, ...]
    suite: str = ""
    stops: Tuple[str, ...] = ()

    @property
    def names(self) -> Tuple[str, ...]:
        """The packages' names."""
        return tuple(self.wanted_versions)

    @property
    def wanted_versions(self) -> Dict[str, str]:
        """The wanted version of each package."""
        return dict(text.split("=", 1) for text in self.versions)

    def name(self) -> str:
        """The package names, with commas."""
        return ",".join(self.names)

    def units(self) -> Tuple[str, ...]:
        """The daemons that are stopped."""
        return self.stops

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Each package in its version, none half installed, and nothing left by an interrupted run."""
        return {**self.wanted_versions, "unfinished": None, "policy-rc.d": None}

    def actual(self, context: Context) -> State:
        """The version of each package; the wanted one where that is only the beginning, and it fits."""
        status = dpkg_status.read(context.root)
        wanted, there = self.wanted_versions, dpkg_status.versions(status, self.names)
        states: Dict[str, Optional[str]] = {
            name: wanted[name] if is_version(version, wanted[name]) else version for name, version in there.items()
        }
        left = unfinished.unfinished(context.root, status) or None
        return {**states, "unfinished": left, "policy-rc.d": daemon_policy.leftover(context)}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Find out how apt exchanges the packages without a removal, download them, stop daemons, and exchange them.

        Raises:
            ResourceFailed: apt cannot exchange them, or would remove packages; before that, nothing is stopped.
        """
        with daemon_policy.daemons_wait(context):
            if dpkg_status.is_interrupted(context.root):
                context.run(CONFIGURE, seconds=INSTALL_SECONDS, env=ENVIRONMENT)
            if dpkg_status.is_interrupted(context.root):
                complete(context, ())
            self.refresh(context)
            options = [*MINIMAL, "--allow-change-held-packages"]
            wanted = self.solved(context, options)
            must_apt(context, [*options, "--download-only", "install", "--", *wanted])
            for unit in self.stops:
                stop(context, unit)
            held = set(unfinished.held(dpkg_status.read(context.root))).intersection(self.names)
            must_apt(context, [*options, "install", "--", *wanted])
            if held:
                context.must(["apt-mark", "hold", *sorted(held)])

    def solved(self, context: Context, options: List[str]) -> List[str]:
        """The words for apt-get with which it exchanges the packages and removes none.

        Libraries that depend on each other in one version, such as libhwloc15 and libhwloc-plugins, would partly be
        removed; named as well, they are exchanged.

        Raises:
            ResourceFailed: there are none.
        """
        trouble, release = "", self.release(context)
        for words in self.ways(release):
            wanted = list(words)
            unknown: Set[str] = set()
            for _ in range(MOST_TRIES):
                code, output = apt_get(context, [*options, "--simulate", "install", "--", *wanted])
                if code == 0:
                    return wanted
                trouble = trouble or apt_errors.explain(output, unfinished.held(dpkg_status.read(context.root)))
                unknown.update(UNKNOWN.findall(output))
                gone = apt_errors.REMOVALS.search(output)
                names = [name.partition(":")[0] for name in gone.group(1).split()] if gone else []
                more = ["%s/%s" % (name, release) if release else name for name in names]
                again = [one for one in [*wanted, *more] if one.partition("/")[0] not in unknown]
                if again == wanted:
                    break
                wanted = again
        raise ResourceFailed(trouble)

    def ways(self, release: str) -> List[List[str]]:
        """The packages as words for apt-get: by their release, whose libraries then come along; then by their versions.

        Args:
            release: of Slurm's source; empty for none.
        """
        exact = [
            name if version.endswith("*") else "%s=%s" % (name, version)
            for name, version in self.wanted_versions.items()
        ]
        return [*([["%s/%s" % (name, release) for name in self.names]] if release else []), exact]

    def release(self, context: Context) -> str:
        """The release of Slurm's source, by its own name if that is known; empty for the host's own sources."""
        return slurm_release.release_name(context) or self.suite

    def refresh(self, context: Context) -> None:
        """Fetch the lists: of Slurm's source alone if there is one, and otherwise of all."""
        if slurm_release.releases(context) is None:
            update(context)
        else:
            slurm_lists.refresh(context)


def must_apt(context: Context, arguments: List[str]) -> None:
    """Run apt-get, which has to succeed.

    Raises:
        ResourceFailed: it failed, with the reason.
    """
    code, output = apt_get(context, arguments)
    if code != 0:
        raise ResourceFailed(apt_errors.explain(output, unfinished.held(dpkg_status.read(context.root))))


def stop(context: Context, unit: str) -> None:
    """Stop a daemon that runs; it is started when the run ends, if not before.

    Raises:
        ResourceFailed: it does not stop.
    """
    if is_active(context, unit):
        start_guard.arm(context, unit)
        context.must(["systemctl", "stop", unit], seconds=STOP_SECONDS)
