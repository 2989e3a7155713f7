"""All that a plan is made from: what is wanted, what was decided once, and what the hosts said."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from slurmfab.clusterfile.private_tmp import unknown_to
from slurmfab.errors import InputError
from slurmfab.facts import Cgroup, HostFacts, weakest
from slurmfab.lock import HostLock, Lock
from slurmfab.people import numbers
from slurmfab.plans import gpu_changes
from slurmfab.promises.carrying import refusal
from slurmfab.promises.conf import SETTING, Difference, differences
from slurmfab.slurm import cgroups, render
from slurmfab.slurm.conf_text import ConfText, parse
from slurmfab.slurm.gres import KEYS_OF_GRES_CONF
from slurmfab.slurm.node import Node
from slurmfab.slurm.node_programs import NodePrograms
from slurmfab.slurm.versions import SlurmVersion, complaints, distribution_version

if TYPE_CHECKING:
    from slurmfab.cluster import Cluster

SLURM_HOME = "/var/lib/slurm/home"
"""The slurm user's home: local, made by us, and outside of what Debian's packages purge."""


@dataclass(frozen=True)
class Situation:
    """What is known when a plan is made; plain values, so that a plan is a function of it and of nothing else.

    Args:
        cluster: the cluster file.
        lock: what was discovered and decided once, complete for every host that ever answered.
        facts: of the hosts that answered this time; others are left as they are.
        stamp: who is at work, and when, for the reasons of drained nodes.
        move_ids: whether slurm and munge may be moved to other numbers where they have others than the lock's.
        prune: whether what accounting has goes that the cluster file does not name.
        database_password: of a database that is somebody else's; empty for one of ours, whose host knows it alone.
        scripts: names and texts of the scripts that nodes run around jobs, by `prolog` and `epilog`.
    """

    cluster: Cluster
    lock: Lock
    facts: Mapping[str, HostFacts]
    stamp: str = ""
    move_ids: bool = False
    prune: bool = False
    database_password: str = field(default="", repr=False)
    scripts: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict, repr=False)

    @cached_property
    def members(self) -> tuple[str, ...]:
        """The hosts that are known well enough to be written about, whether they answer now or not."""
        return tuple(host for host in self.cluster.hosts if host in self.lock.hosts and self.lock.hosts[host].hostname)

    @cached_property
    def compute_nodes(self) -> tuple[str, ...]:
        """The compute nodes that slurm.conf can name: those whose hardware is known."""
        known = frozenset(self.members)
        return tuple(host for host in self.cluster.compute_nodes if host in known and self.host(host).hardware)

    @cached_property
    def _compute_nodes(self) -> frozenset[str]:
        return frozenset(self.compute_nodes)

    def is_compute_node(self, host: str) -> bool:
        """Whether slurm.conf names the host as a compute node."""
        return host in self._compute_nodes

    def is_on_trial(self, host: str) -> bool:
        """Whether the host is a compute node that has still to show that jobs run there."""
        return self.is_compute_node(host) and self.host(host).on_trial

    @cached_property
    def changes_nodes(self) -> bool:
        """Whether the new slurm.conf names other compute nodes than the controller's present one."""
        return self.conf_before.nodes.keys() != self.conf_wanted.nodes.keys()

    @cached_property
    def conf_before(self) -> ConfText:
        """What the slurm.conf says that the primary controller has now; nothing where there is none."""
        return parse(self.controller_facts.slurm_conf)

    @cached_property
    def conf_wanted(self) -> ConfText:
        """What the slurm.conf says that all hosts are to have."""
        return parse(dict(self.files)["slurm.conf"])

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        """What differs between the files that the primary controller has and those that are wanted, in Slurm's sense.

        None before there is a slurm.conf, since nothing is in force then.
        """
        return differences(self.controller_facts.slurm_files, dict(self.files))

    @cached_property
    def other_settings(self) -> tuple[Difference, ...]:
        """Those of the differences that are about settings, few where those about nodes may be ten thousand."""
        return tuple(difference for difference in self.differences if difference.kind == SETTING)

    @cached_property
    def names_and_addresses(self) -> str:
        """The lines of /etc/hosts for all hosts whose address is a number; a name as address is left to DNS."""
        return "".join(
            f"{self.address(name)} {' '.join(self.names(name))}\n"
            for name in self.members
            if is_numeric(self.address(name))
        )

    @cached_property
    def controller_facts(self) -> HostFacts:
        """What the primary controller said."""
        return self.facts[self.cluster.controller]

    @cached_property
    def slurm_version(self) -> SlurmVersion:
        """The controller's installed Slurm, or before it is installed the one of its distribution."""
        installed = self.controller_facts.slurm_version
        return SlurmVersion.parse(installed) if installed else distribution_version(self.controller_facts.codename)

    def setting_before(self, key: str) -> str:
        """The value of a key in the slurm.conf that the primary controller has now, empty where there is none."""
        return self.conf_before.settings.get(key.lower(), "")

    @property
    def state_before(self) -> str:
        """The directory in which slurmctld has its state now, empty where it never ran."""
        return self.setting_before("StateSaveLocation")

    @property
    def moves_state(self) -> bool:
        """Whether slurmctld's state has to be brought to another directory."""
        return self.state_before not in ("", self.cluster.state_directory)

    @property
    def renames_cluster(self) -> bool:
        """Whether the primary controller has been the controller of a cluster with another name."""
        return self.setting_before("ClusterName") not in ("", self.cluster.name)

    def refuse_other_cluster(self, allowed: Collection[str] = ()) -> None:
        """Refuse another ClusterName than the controller's state was made under, unless that is allowed.

        Most often it is the cluster file that is wrong, or the host: what is deployed next would be a mixture of two
        clusters. slurmctld itself ends with CLUSTER NAME MISMATCH when its state directory is of another cluster.

        Args:
            allowed: names of dangers that are accepted.

        Raises:
            InputError: the names differ; nothing was changed.
        """
        found = self.setting_before("ClusterName")
        if self.renames_cluster and "ClusterName" not in allowed:
            raise InputError(
                f"{self.cluster.controller} is the controller of the cluster {found}, and the cluster file says "
                f"{self.cluster.name}. Slurm's accounts hang on that name. Set `cluster: {found}`; or, if {found} is "
                "really to have another name from now on, with its nodes and jobs: --allow ClusterName."
            )

    def refuse_uneven_files(self, hosts: Collection[str]) -> None:
        """Refuse to give some hosts another slurm.conf than the controller has.

        Args:
            hosts: those that the run is about.

        Raises:
            InputError: the run is about some of the hosts, and slurm.conf changes; nothing was changed.
        """
        before = self.controller_facts.slurm_conf
        if not before or set(self.cluster.hosts) <= set(hosts):
            return
        changes = before != dict(self.files)["slurm.conf"] or (self.cluster.configless and self.differences)
        if changes and (words := refusal(self, hosts)):
            raise InputError(words)

    def refuse_unknown_keys(self) -> None:
        """Refuse settings that the installed Slurm would refuse, before any of it is sent anywhere.

        Raises:
            InputError: with all that is wrong, a line each.
        """
        cluster = self.cluster
        found = complaints(
            self.slurm_version,
            cluster.slurm_conf,
            cluster.cgroup_conf,
            {key for group in cluster.nodes for key in group.settings if key not in KEYS_OF_GRES_CONF},
            {key for partition in cluster.partitions for key in partition.settings},
        )
        found += unknown_to(cluster.private_tmp, self.slurm_version)
        if found:
            raise InputError("\n".join((*found, "Change that in the cluster file; nothing was changed on any host.")))

    def host(self, name: str) -> HostLock:
        """What the lock holds of a host."""
        return self.lock.hosts[name]

    def address(self, name: str) -> str:
        """A host's address in the cluster."""
        return self.cluster.addresses.get(name) or name

    def names(self, name: str) -> tuple[str, ...]:
        """A host's name in the cluster, and the one that it calls itself, where that is another."""
        return tuple(dict.fromkeys((name, self.host(name).hostname)))

    def public_key(self, name: str) -> str:
        """The slurm user's public key of a host, empty while there is none."""
        return self.facts[name].public_key if name in self.facts else self.host(name).public_key

    @cached_property
    def files(self) -> tuple[tuple[str, str], ...]:
        """Slurm's files, the same for all hosts: their names and texts."""
        return tuple(render.render(self.slurm_conf).items())

    @cached_property
    def slurm_conf(self) -> render.SlurmConf:
        """What Slurm's files are rendered from."""
        controllers = [name for name in self.cluster.controllers if name in self.members]
        return render.SlurmConf(
            cluster_name=self.cluster.name,
            controllers=tuple((self.host(name).hostname, self.address(name)) for name in controllers),
            version=str(self.slurm_version),
            nodes=tuple(self.node(name) for name in self.compute_nodes),
            partitions=tuple(
                (partition.name, self.partition_nodes(partition.nodes), partition.settings)
                for partition in self.cluster.partitions
            ),
            slurm_conf=self.cluster.slurm_conf,
            cgroup_conf=self.cluster.cgroup_conf,
            cgroup=weakest(tuple(self.host(name).cgroup or Cgroup("none") for name in self.compute_nodes)),
            memory_margin=self.cluster.memory_margin,
            state_directory=self.cluster.state_directory,
            qos=tuple(qos.settings for qos in self.cluster.qos),
            mail_programs=tuple(self.host(name).mail_program for name in controllers),
            accounting_host=self.address(self.cluster.database.host) if self.cluster.database else "",
            enforces_limits=self.cluster.has_accounts,
            private_tmp=self.cluster.private_tmp,
            configless=self.cluster.configless,
            licenses=self.cluster.licenses,
            programs=NodePrograms.of(self.cluster),
        )

    def node(self, name: str) -> Node:
        """A compute node as slurm.conf has it."""
        pinned = self.host(name)
        assert pinned.hardware is not None, "compute_nodes holds only hosts with known hardware"
        return Node(
            name, self.address(name), pinned.hostname, pinned.hardware, pinned.gpus, self.cluster.settings_of(name)
        )

    def partition_nodes(self, nodes: tuple[str, ...] | str) -> str:
        """A partition's `Nodes=`, without those that nobody has seen yet."""
        from slurmfab.hostlist import fold  # noqa: PLC0415 - ClusterShell is slow to import

        return nodes if isinstance(nodes, str) else fold(node for node in nodes if self.is_compute_node(node))


def is_numeric(address: str) -> bool:
    """Whether an address is an IP address, which alone /etc/hosts can hold."""
    return ":" in address or address.replace(".", "").isdigit()


def pin(
    cluster: Cluster, lock: Lock, facts: Mapping[str, HostFacts], *, move_ids: bool = False, may_lose: bool = False
) -> Lock:
    """The lock with what these facts add to it; what it holds already is kept.

    Args:
        cluster: the cluster file.
        lock: the lock as it was.
        facts: of the hosts that answered.
        move_ids: whether slurm and munge may be moved to other numbers.
        may_lose: whether control groups are taken up that can do less than the lock's.

    Raises:
        IdConflict: no UIDs and GIDs for slurm, munge and the people suit all hosts.
    """
    hosts = dict(lock.hosts)
    for name, fact in facts.items():
        old = hosts.get(name, HostLock())
        hosts[name] = replace(
            old,
            hostname=old.hostname or fact.hostname,
            host_keys=fact.ssh_host_keys if len(old.host_keys) <= 1 and fact.ssh_host_keys else old.host_keys,
            hardware=old.hardware or fact.hardware,
            gpus=gpu_changes.pinned(cluster, name, old, fact),
            cgroup=cgroups.kept(old.cgroup, fact.cgroup, may_lose=may_lose),
            public_key=fact.public_key or old.public_key,
            mail_program=fact.mail_program if name in cluster.controllers else "",
        )
    installed = facts[cluster.controller].slurm_version if cluster.controller in facts else ""
    ids = numbers.decide(cluster, lock.ids, facts, controller=cluster.controller, moving=move_ids)
    leaving = numbers.still_leaving(cluster, lock, facts)
    return replace(lock, hosts=hosts, ids=ids, leaving=leaving, slurm=installed or lock.slurm)
