"""Slurm's packages in a certain version, exchanged all together by dnf(8)."""

from __future__ import annotations

from typing import ClassVar, List, Mapping, Optional

from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed, State
from slurmfab.on_hosts.agent.dnf import dnf, dnf_errors
from slurmfab.on_hosts.agent.dnf.dnf_offer import Sources
from slurmfab.on_hosts.agent.dnf.slurm_versions import versions
from slurmfab.on_hosts.agent.upgrade.exchanged_packages import ExchangedPackages, stop


class DnfExchangedPackages(ExchangedPackages):
    """The same on Enterprise Linux."""

    kind: ClassVar[str] = "dnf-packages-exchanged"

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Each package in its version, and none left by a dnf that was killed."""
        return {**self.wanted_versions, "unfinished": None}

    def actual(self, context: Context) -> State:
        """The version of each package."""
        left = ", ".join(dnf.killed(context).packages) or None
        there = versions(context, self.names)
        return {**{name: there[name] for name in self.names if name in there}, "unfinished": left}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Complete what was killed, check what dnf would do, download, stop daemons, exchange; ResourceFailed."""
        self.complete(context)
        there = versions(context, self.names)
        if all(there.get(name) == version for name, version in self.wanted_versions.items()):
            return
        texts = [text.replace("=", "-", 1) for text in (*self.versions, *self.others)]
        with Sources(context, {}) as sources:
            told = sources.ask(sorted(self.names), texts)
        planned = {text.partition("=")[0] for text in (*self.versions, *self.others)}
        more = sorted({*told["new"], *told["removed"]} - planned)
        if more:
            raise ResourceFailed(
                "dnf would now change %s as well, which the plan did not show, so nothing was changed here; run the "
                "same command again, which plans anew" % ", ".join(more)
            )
        must_dnf(context, [*dnf.FRESH, "--downloadonly", "install", *texts])
        for unit in self.stops:
            stop(context, unit)
        try:
            must_dnf(context, ["install", *texts], dnf.QUIET)
        finally:
            context.run(["systemctl", "daemon-reload"])

    def complete(self, context: Context) -> None:
        """Install anew what a killed dnf has left, while the daemons are stopped; ResourceFailed of dnf."""
        left = dnf.killed(context)
        for unit in self.stops if left.packages else ():
            stop(context, unit)
        code, output = dnf.complete(context, left, left.packages, dnf.QUIET) if left.packages else (0, "")
        if code != 0:
            raise ResourceFailed(dnf_errors.explain(output))


def must_dnf(context: Context, arguments: List[str], env: Optional[Mapping[str, str]] = None) -> None:
    """Run dnf, which has to succeed; ResourceFailed with the reason otherwise."""
    code, output = dnf.dnf(context, arguments, env)
    if code != 0:
        raise ResourceFailed(dnf_errors.explain(output))
