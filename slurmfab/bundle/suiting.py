"""Which hosts lack packages, and whether a bundle has them: found out from facts, before anything is changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from slurmfab.agent.packages import Packages
from slurmfab.bundle import archive
from slurmfab.bundle.archive import Bundle
from slurmfab.errors import HostFailed, SlurmfabError
from slurmfab.facts import HostFacts
from slurmfab.phases import packages
from slurmfab.slurm.versions import SlurmVersion

if TYPE_CHECKING:
    from slurmfab.run import Run
    from slurmfab.situation import Situation


def leave_unsuited_out(run: Run, situation: Situation) -> None:
    """Go on without the hosts that lack packages which no bundle of the cluster file's has.

    Args:
        run: the run.
        situation: what is wanted and known.

    Raises:
        InputError: a bundle that is needed is missing or damaged; nothing was changed.
    """
    if not situation.cluster.bundle:
        return
    for host in run.well(run.hosts):
        if host in situation.facts and lacking(situation, host):
            reason = refusal(bundles(run), situation.facts[host], lacking(situation, host), situation.slurm_version)
            if reason:
                run.lose(host, HostFailed(host, f"{reason} Nothing was changed there."))


def bundles(run: Run) -> tuple[Bundle, ...]:
    """The bundles that the cluster file names, each of them whole.

    Raises:
        InputError: one is missing or damaged.
    """
    return tuple(archive.verified(path) for path in archive.of_cluster(run.inventory))


def lacking(situation: Situation, host: str) -> tuple[str, ...]:
    """The packages that a host should have and has not, as its facts tell."""
    installed = situation.facts[host].packages
    return tuple(name for one in wanted(situation, host) for name in one.names if name not in installed)


def wanted(situation: Situation, host: str) -> tuple[Packages, ...]:
    """What a host should have of packages."""
    return tuple(one for one in packages.resources(situation, host) if isinstance(one, Packages))


def suited(found: Iterable[Bundle], fact: HostFacts) -> Bundle | None:
    """The newest bundle that is for a host's release and architecture, if there is one."""
    mine = [one for one in found if (one.suite, one.architecture) == (fact.codename, fact.architecture)]
    return max(mine, key=lambda bundle: bundle.made, default=None)


def refusal(found: tuple[Bundle, ...], fact: HostFacts, names: Iterable[str], expected: SlurmVersion) -> str:
    """Why a host cannot get packages from any of these bundles, empty when it can.

    Args:
        found: the bundles.
        fact: what the host said.
        names: the packages that it lacks.
        expected: the cluster's Slurm.
    """
    bundle = suited(found, fact)
    if bundle is None:
        has = ", ".join(f"{one.suite} on {one.architecture}" for one in found)
        return (
            f"it lacks packages, runs {fact.codename} on {fact.architecture}, and the bundles in the cluster file are "
            f"for {has}. Make one for it on a host like it that reaches its mirror: fab bundle --from HOST."
        )
    try:
        series = SlurmVersion.parse(bundle.slurm)
    except SlurmfabError as error:
        return f"{bundle.path}: {error}"
    if series != expected:
        return f"{bundle.path} has Slurm {series}, and the cluster's is {expected}. Make it anew: fab bundle."
    missing = sorted(set(names) - bundle.names)
    if missing:
        return (
            f"{bundle.path} was made without {', '.join(missing)}, which the cluster file asks for there. "
            "Make it anew: fab bundle."
        )
    return ""
