"""What the hosts of a cluster say when an upgrade is planned: what each has, and what apt would give it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.slurm_packages import SlurmPackages
from slurmfab.commands.upgrade.plan import SlurmUser


@dataclass(frozen=True)
class SpankPlugin:
    """A plugin that plugstack.conf loads."""

    path: str
    is_required: bool  # whether no job step starts without it
    is_slurms: bool  # whether a package of Slurm's has it, so that the upgrade renews it


@dataclass(frozen=True)
class Offer:
    """What apt would install on a host."""

    # the new version of each of Slurm's packages that would change, by name
    versions: Mapping[str, str] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)  # likewise, of the packages that would come along
    removed: tuple[str, ...] = ()  # packages that would go
    offered: tuple[str, ...] = ()  # all versions that the source has, newest first
    # names of the plugins in the new packages; none where another host with equal packages was asked
    plugins: tuple[str, ...] = ()
    trouble: str = ""  # why apt would install nothing; empty if it would


@dataclass(frozen=True)
class HostState:
    """What one host has of Slurm."""

    release: str  # its release and architecture, such as `trixie amd64`
    packages: Mapping[str, str] = field(default_factory=dict)  # versions of Slurm's packages by name
    held: tuple[str, ...] = ()  # those that apt may not change
    programs: Mapping[str, str] = field(default_factory=dict)  # versions of the daemons' programs, by daemon
    running: Mapping[str, str] = field(default_factory=dict)  # versions of the daemons that run, by daemon
    plugins: tuple[str, ...] = ()  # names of its plugins
    foreign: tuple[str, ...] = ()  # those that no package of Slurm's has
    spank: tuple[SpankPlugin, ...] = ()
    state: str = ""  # the series that wrote slurmctld's state; empty if it has none or that is not known
    free: Mapping[str, int] = field(default_factory=dict)  # free bytes by directory; -1 where that is not known
    rows: Mapping[str, int] = field(default_factory=dict)  # rows of the database's big tables, by table
    bytes: int = 0
    place: str = ""  # the database server's directory; empty if it is elsewhere
    trouble: str = ""  # why the database could not be asked; empty if it could
    # id, user, state, `1` for a batch job, and nodes of each job; `None` if slurmctld was not asked
    jobs: tuple[tuple[str, str, str, str, str], ...] | None = None
    no_jobs: str = ""  # why slurmctld could not be asked; empty if it could
    users: tuple[SlurmUser, ...] = ()  # further processes that use Slurm's files
    digest: str = ""  # of all packages; equal on hosts of which one tells the plugins


@dataclass(frozen=True)
class Asked:
    """All that an upgrade is planned from."""

    cluster: Cluster
    target: SlurmPackages  # the key `slurm` as the upgrade would leave it
    version: str  # the version that hosts were asked for; empty for any of the suite
    suite: str  # the suite that was named; empty for none
    hosts: Mapping[str, HostState]  # what each host that answered has, by name, in the cluster file's order
    offers: Mapping[str, Offer]  # what apt would install, by host; none without Slurm's packages
    slurm_conf: str = ""  # the controller's slurm.conf with all that it includes; `cgroup_conf` likewise
    cgroup_conf: str = ""
    is_hand_made: bool = False  # whether somebody else than slurmfab wrote that slurm.conf
    silent: Mapping[str, str] = field(default_factory=dict)  # why a host did not answer, by host
    facts: Mapping[str, HostFacts] = field(default_factory=dict)  # of the hosts that answered
    is_under_way: bool = False  # whether an upgrade has begun and is not done
    # state and reason of each node on which Slurm starts no jobs; empty where slurmctld could not be asked
    out_of_service: Mapping[str, str] = field(default_factory=dict)

    def offer(self, host: str) -> Offer:
        """What apt would install on a host."""
        return self.offers.get(host, Offer())


def host_state(release: str, answer: Mapping[str, Any]) -> HostState:
    """What a host has, from its answer, which its model has accepted (`slurmfab.on_hosts.agent.upgrade.reading`)."""
    found: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in answer.items()}
    found |= {"spank": tuple(SpankPlugin(*one) for one in answer["spank"])}
    found |= {"users": tuple(SlurmUser(*one) for one in answer["users"])}
    found |= {"jobs": tuple(map(tuple, answer["jobs"]))} if "jobs" in answer else {}
    return HostState(release, **found)


def offer(answer: Mapping[str, Any]) -> Offer:
    """What apt would install, from a host's answer. `answer`: of `slurmfab.on_hosts.agent.upgrade.offer`."""
    lists = {name: tuple(answer[name]) for name in ("removed", "offered", "plugins")}
    return Offer(answer["versions"], answer["others"], **lists, trouble=answer["trouble"])
