"""What the steps of an upgrade change on hosts: resources, which a run applies and a plan names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from slurmfab.base.folding import fold_lines
from slurmfab.base.grouping import grouped
from slurmfab.base.hostlist import fold
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.slurm.platform import wanted as wanted_on
from slurmfab.commands.nodes.batches import batch_size, batches
from slurmfab.commands.upgrade.plan import HostVersions, UpgradeStep
from slurmfab.commands.upgrade.refusals import series as of
from slurmfab.core.engine.actor import stamp
from slurmfab.core.plan.package_managers import kinds
from slurmfab.core.plan.phases import slurm_conf, slurm_source
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.directory import Directory
from slurmfab.on_hosts.agent.files.file import Absent
from slurmfab.on_hosts.agent.nodes.acceptance import NodeAcceptance
from slurmfab.on_hosts.agent.nodes.drain import NodeDrain
from slurmfab.on_hosts.agent.nodes.states import FOR_CHANGE
from slurmfab.on_hosts.agent.services.units import UnitsLoaded
from slurmfab.on_hosts.agent.slurm.package_source import SlurmSource
from slurmfab.on_hosts.agent.slurm.slurmctld_pause import SlurmctldPause
from slurmfab.on_hosts.agent.upgrade.exchanged_packages import ExchangedPackages
from slurmfab.on_hosts.agent.upgrade.proved_dump import ProvedDump
from slurmfab.on_hosts.agent.upgrade.renewed_daemon import PATIENT, RenewedDaemon
from slurmfab.on_hosts.agent.upgrade.state_copy import StateCopy

IMPATIENT: tuple[Resource, ...] = (Absent(PATIENT), UnitsLoaded("slurmdbd", ("slurmdbd",)))
"""systemd's own limits for slurmdbd again, when it has converted its database."""

SUBJECT = "Slurm's upgrade"  # what nodes are drained for


@dataclass(frozen=True)
class Changes:
    """What the steps of one upgrade change."""

    cluster: Cluster  # as the upgrade leaves it
    hosts: Mapping[str, HostVersions]
    series: str  # the new one
    state_directory: str  # StateSaveLocation, as slurmctld has it now
    # OpenPGP keys of repositories, by their paths in the cluster file
    slurm_keys: Mapping[str, str] = field(default_factory=dict)
    at_once: str = "10%"  # how many nodes at a time: a number, or a percentage
    drain: bool = False  # whether nodes are empty of jobs before

    def computes(self, host: str) -> bool:
        """Whether slurmd runs jobs on a host."""
        return "compute" in self.cluster.roles(host)

    def packages(self, step: UpgradeStep, host: str) -> tuple[Resource, ...]:
        """The new packages of a host, and where they come from; nothing if it has them."""
        wanted = step.packages.get(host, {})
        if not wanted:
            return ()
        exchanged = kinds(wanted_on(self.cluster, host)).exchanged
        source = slurm_source.of_upgrade(self.cluster.slurm_of(host), self.slurm_keys)
        others = tuple(f"{name}={version}" for name, version in sorted(self.hosts[host].others.items()))
        versions = tuple(f"{name}={version}" for name, version in sorted(wanted.items()))
        return (*((source,) if source else ()), exchanged(versions, others, self.stops(step, host)))

    def stops(self, step: UpgradeStep, host: str) -> tuple[str, ...]:
        """The units of a host that must not run while its packages are exchanged."""
        own = {"slurmdbd": ("slurmdbd",), "controllers": ("slurmctld",)}.get(step.what, ())
        return (*own, *(("slurmd",) if self.computes(host) else ()))

    def state_copy(self) -> StateCopy:
        """The copy of slurmctld's state, from before the new slurmctld."""
        return StateCopy(self.state_directory, self.series)

    def pauses(self, step: UpgradeStep) -> tuple[str, ...]:
        """The controllers whose slurmctld a step stops, the primary last."""
        if step.what == "controllers":
            wanted = [host for host in step.hosts if "slurmctld" in step.daemons.get(host, ())]
        else:
            # Without slurmd on slurmdbd's host, slurmctld would take the node for lost while the database is converted.
            stops = any(self.computes(host) for host in step.packages) and step.what == "slurmdbd"
            wanted = [*self.cluster.controllers] if stops else []
        return tuple(sorted(wanted, key=lambda host: host == self.cluster.controller))

    def batches(self, hosts: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        """Yield the nodes that are upgraded together."""
        return batches(hosts, batch_size(self.at_once, len(self.cluster.compute_nodes)))

    def drained(self, some: tuple[str, ...]) -> NodeDrain:
        """The drain of a batch, before it is upgraded."""
        return NodeDrain(some, f"{FOR_CHANGE}{SUBJECT}", stamp(), for_change=True)

    def given_back(self, some: tuple[str, ...]) -> NodeAcceptance:
        """The return of a batch that was drained, after a job has run on each node in a reservation."""
        return NodeAcceptance(some, stamp())

    def proved_dump(self) -> ProvedDump:
        """The proof of the backup's dump, with the packages that convert it on trial; without its place and rows."""
        database = self.cluster.database
        if database is None:
            return ProvedDump("", "", "")
        there = self.hosts.get(database.host, HostVersions())
        series = [(of(old), of(there.offered[name])) for name, old in there.installed.items() if name in there.offered]
        packages = {**there.offered, **there.others} if any(old != new for old, new in series) else {}
        return ProvedDump(database.name, "", "", packages=tuple(f"{name}={one}" for name, one in packages.items()))

    def of_step(self, step: UpgradeStep) -> Iterator[tuple[str, Resource]]:
        """Yield each host with a resource that the step may change there."""
        database = self.cluster.database
        if step.what == "backup" and database and not database.external:
            yield database.host, self.proved_dump()
        for host in self.pauses(step):
            yield host, SlurmctldPause()
        if self.pauses(step):
            yield self.cluster.controller, self.state_copy()
        for some in self.batches(step.hosts) if step.what == "nodes" and self.drain else ():
            yield self.cluster.controller, self.drained(some)
            yield self.cluster.controller, self.given_back(some)
        for host in step.hosts:
            yield from ((host, one) for one in self.packages(step, host))
            yield from ((host, RenewedDaemon(unit)) for unit in step.daemons.get(host, ()))
            if step.what == "slurmdbd":
                yield from ((host, one) for one in IMPATIENT)

    def told(self, step: UpgradeStep) -> UpgradeStep:
        """A step with all that it changes."""
        ids: dict[str, list[str]] = {}
        lines: list[tuple[str, str]] = []
        for host, resource in self.of_step(step):
            ids.setdefault(host, []).append(resource.id)
            lines += [(host, text) for text in change_texts(resource)]
        if step.what == "nodes" and not self.drain:
            for host in step.hosts:
                ids.setdefault(host, []).append(f"job:{host}")
                lines.append((host, "a job of the slurm user runs there"))
        order = {host: number for number, host in enumerate(self.cluster.hosts)}
        lines.sort(key=lambda line: order[line[0]])
        return replace(step, changes={host: tuple(some) for host, some in ids.items()}, lines=tuple(fold_lines(lines)))


def directories(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """Slurm's directories on a host, whose owner the scripts of Slurm's packages change whenever they are installed."""
    return tuple(one for one in slurm_conf.directories(plan_input, host) if isinstance(one, Directory))


def with_directories(step: UpgradeStep, plan_input: PlanInput) -> UpgradeStep:
    """A step that gives hosts packages, with the directories that are put right after that."""
    found = {host: directories(plan_input, host) for host in step.packages if host in plan_input.facts}
    ids = {host: (*some, *(one.id for one in found.get(host, ()))) for host, some in step.changes.items()}
    told = [
        (
            host,
            f"owner and mode of {', '.join(one.name() for one in some)} are put back, where the packages change them",
        )
        for host, some in found.items()
        if some
    ]
    return replace(step, changes=ids, lines=(*step.lines, *fold_lines(told)))


def change_texts(resource: Resource) -> Iterator[str]:
    """Yield what a resource changes, in words; nothing for a file that the step itself has written."""
    if isinstance(resource, ExchangedPackages):
        yield from package_words("", resource.versions)
        yield from package_words("comes along: ", resource.others)
    elif isinstance(resource, RenewedDaemon):
        yield f"{resource.unit} starts with the new files"
    elif isinstance(resource, NodeDrain):
        yield f"{fold(resource.nodes)} is drained, and waited for until its last job has ended"
    elif isinstance(resource, ProvedDump):
        tried = ", the new slurmdbd converts it there" if resource.packages else ""
        yield f"the dump of the database is loaded into one of its own{tried}, and that is removed"
    elif isinstance(resource, NodeAcceptance):
        yield f"{fold(resource.nodes)} is given back after a job of the slurm user has run there"
    elif text := WORDS.get(type(resource)):
        yield text.format(name=resource.name())


WORDS: Mapping[type[Resource], str] = {
    SlurmSource: "the source of Slurm's packages is {name}",
    SlurmctldPause: "slurmctld stops",
    StateCopy: "slurmctld's state is copied to {name}",
}


def package_words(begin: str, texts: Iterable[str]) -> Iterator[str]:
    """Yield the packages (`NAME=VERSION`) of each version, on lines that begin so."""
    by_version = grouped((version, name) for name, _, version in (text.partition("=") for text in texts))
    for version, names in by_version.items():
        yield f"{begin}{', '.join(names)} {version}"
