"""Slurm's packages in a certain version: exchanged all together, while the daemons that must not notice are stopped."""

from __future__ import annotations

from typing import ClassVar, Dict, List, Tuple

from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.packages import apt_errors, daemon_policy, dpkg_status, slurm_release, unfinished
from slurmfab.on_hosts.agent.packages.apt import DOWNGRADES, MINIMAL, apt_get, finish, update
from slurmfab.on_hosts.agent.services import start_guard
from slurmfab.on_hosts.agent.services.service import is_active

STOP_SECONDS = 120.0  # time that a daemon gets to end (systemd's TimeoutStopSec= is 90 s)


class ExchangedPackages(Resource):
    """Installed packages of Slurm's, all of certain versions; apt changes no other ones than planned, and removes none.

    The daemons in `stops` are stopped when all files have been downloaded, and started by whoever asks for that later;
    a guard starts them if the run ends before. dpkg starts none. Others go on with the programs and plugins that they
    have loaded. slurmd is stopped, since one that runs would start the new slurmstepd: without it, steps and jobs that
    begin wait for it (tried with 24.11 and 26.05); those that run have a slurmstepd of their own.
    """

    kind: ClassVar[str] = "packages-exchanged"
    named_by: ClassVar[str] = "names"
    deadline: ClassVar[float] = 7200.0
    versions: Tuple[str, ...]  # `NAME=VERSION` of each
    others: Tuple[str, ...] = ()  # the same of what comes along, such as libraries
    stops: Tuple[str, ...] = ()  # units of daemons that are stopped meanwhile

    @property
    def names(self) -> Tuple[str, ...]:
        """The packages' names."""
        return tuple(self.wanted_versions)

    @property
    def wanted_versions(self) -> Dict[str, str]:
        """The wanted version of each package."""
        return dict(text.split("=", 1) for text in self.versions)

    def units(self) -> Tuple[str, ...]:
        """The daemons that are stopped."""
        return self.stops

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Each package in its version, none half installed, and nothing left by an interrupted run."""
        return {**self.wanted_versions, "unfinished": None, "policy-rc.d": None}

    def actual(self, context: Context) -> State:
        """The version of each package."""
        status = dpkg_status.read(context.root)
        left = unfinished.unfinished(context.root, status) or None
        there = dpkg_status.versions(status, self.names)
        return {**there, "unfinished": left, "policy-rc.d": daemon_policy.leftover(context)}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Check what apt would do, download, stop daemons, exchange; ResourceFailed before anything stops."""
        with daemon_policy.daemons_wait(context):
            finish(context)
            self.refresh(context)
            allowed = (*MINIMAL, *DOWNGRADES, "--allow-change-held-packages")
            arguments = [*allowed, "install", "--", *self.versions, *self.others]
            self.refuse_more(must_apt(context, ["--simulate", *arguments]))
            must_apt(context, ["--download-only", *arguments])
            for unit in self.stops:
                stop(context, unit)
            held = set(unfinished.held(dpkg_status.read(context.root))).intersection(self.names)
            must_apt(context, arguments)
            if held:
                context.must(["apt-mark", "hold", *sorted(held)])

    def refuse_more(self, simulated: str) -> None:
        """Refuse, by ResourceFailed, packages in apt-get's simulation that the plan has not shown."""
        planned = {text.partition("=")[0] for text in (*self.versions, *self.others)}
        more = sorted(slurm_release.changes_in(simulated).keys() - planned)
        if more:
            raise ResourceFailed(
                "apt would now change %s as well, which the plan did not show, so nothing was changed here; run the "
                "same command again, which plans anew" % ", ".join(more)
            )

    def refresh(self, context: Context) -> None:
        """Fetch the lists: of Slurm's source alone if there is one, and otherwise of all."""
        if slurm_release.releases(context) is None:
            update(context)
        else:
            slurm_release.refresh_lists(context)


def must_apt(context: Context, arguments: List[str]) -> str:
    """Run apt-get, which has to succeed, and return what it printed; ResourceFailed if it failed, with the reason."""
    code, output = apt_get(context, arguments)
    if code != 0:
        raise ResourceFailed(apt_errors.explain(output, unfinished.held(dpkg_status.read(context.root))))
    return output


def stop(context: Context, unit: str) -> None:
    """Stop a daemon, which starts again by the run's end at the latest; ResourceFailed if it does not stop."""
    if is_active(context, unit):
        start_guard.arm(context, unit)
        context.must(["systemctl", "stop", unit], seconds=STOP_SECONDS)
