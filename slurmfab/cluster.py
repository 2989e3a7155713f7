"""The models of a cluster: what a cluster file says, once it is known to be sound.

Models hold expanded host names; `slurmfab.inventory` reads them from a file, `slurmfab.clusterfile.rules` says what
must hold between their fields. docs/cluster-file.md documents each field for the people who write the file.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cached_property
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from slurmfab import hostlist
from slurmfab.clusterfile import rules
from slurmfab.clusterfile.accounting import Account, Database, Qos, User, database_of
from slurmfab.clusterfile.backups import Backup
from slurmfab.clusterfile.bundles import Bundles
from slurmfab.clusterfile.gpu_checks import GpuChecksOrNot
from slurmfab.clusterfile.health import HealthOrNot, ScriptsAfter, ScriptsBefore
from slurmfab.clusterfile.licenses import Licenses
from slurmfab.clusterfile.model import Model
from slurmfab.clusterfile.private_tmp import PrivateTmpOrNot
from slurmfab.clusterfile.slurm_settings import CgroupConf, NodeSettings, PartitionSettings, SlurmConf, mistakes
from slurmfab.clusterfile.values import amount, directory
from slurmfab.errors import HostlistError

_CLUSTER_NAME = re.compile(r"[a-z0-9_-]{1,40}")
_PARTITION_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\\@+-]*")


def _host_names(value: Any) -> tuple[str, ...]:
    """The hosts of a hostlist, or of a list of hostlists."""
    parts = [value] if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise ValueError("it must be a hostlist such as cn[01-16], or a list of such")
    try:
        return hostlist.expand(",".join(parts)) if parts else ()
    except HostlistError as error:
        raise ValueError(str(error)) from None


def _nodes_of_partition(value: Any) -> tuple[str, ...] | Literal["ALL"]:
    """`ALL`, in whatever case, or the nodes of a hostlist."""
    return "ALL" if isinstance(value, str) and value.upper() == "ALL" else _host_names(value)


def _check_cluster_name(name: str) -> str:
    if not _CLUSTER_NAME.fullmatch(name):
        raise ValueError(f'"{name}" is no name for a cluster: lower-case letters, digits, - and _, at most 40 of them')
    return name


def _check_partition_name(name: str) -> str:
    if not _PARTITION_NAME.fullmatch(name) or name.upper() == "DEFAULT":
        raise ValueError(f'"{name}" is no name for a partition: letters, digits, - and _, and not DEFAULT')
    return name


def _check_user(user: str | None) -> str | None:
    if user is not None and not _USER.fullmatch(user):
        raise ValueError(f'"{user}" is no login name')
    return user


def _check_gateway(gateway: str | None) -> str | None:
    """Jump hosts with commas between them, as in ProxyJump (ssh_config(5))."""
    for place in gateway.split(",") if gateway is not None else ():
        _check_endpoint(place.strip())
    return gateway


def _check_endpoint(text: str) -> str:
    """One place for SSH, such as `admin@bastion:2222`."""
    try:
        count = len(hostlist.expand_endpoints(text))
    except HostlistError as error:
        raise ValueError(str(error)) from None
    if count != 1:
        raise ValueError(f'"{text}" is {count} places; it must be one, such as admin@bastion:2222')
    return text


_Entries = TypeVar("_Entries", bound=tuple[Any, ...] | str)


def _check_not_empty(entries: _Entries) -> _Entries:
    if not entries:
        raise ValueError("it is empty; there must be at least one")
    return entries


_HOSTS_IN_FILE = str | list[str]
_NOT_EMPTY = AfterValidator(_check_not_empty)
Hosts = Annotated[tuple[str, ...], BeforeValidator(_host_names, json_schema_input_type=_HOSTS_IN_FILE)]
SomeHosts = Annotated[Hosts, _NOT_EMPTY]
PlaceForSsh = Annotated[str, AfterValidator(_check_endpoint)]


class Ssh(Model):
    """How SSH reaches the hosts; what is not said here, the user's ~/.ssh/config says."""

    user: Annotated[str | None, AfterValidator(_check_user), Field(description="Login name.")] = None
    key: Annotated[str | None, Field(min_length=1, description="Private key file; ~ is the user's home.")] = None
    port: Annotated[int | None, Field(ge=1, le=hostlist.HIGHEST_PORT, description="Port of the hosts' sshd.")] = None
    become: Annotated[Literal["sudo"] | None, Field(description="How the user becomes root.")] = None
    gateway: Annotated[
        str | None, AfterValidator(_check_gateway), Field(description="Jump host, as in user@host:port, or some.")
    ] = None
    endpoints: Annotated[
        dict[str, PlaceForSsh],
        Field(description="By host, where SSH goes if not to the host's own address: user@address:port."),
    ] = {}


class NodeGroup(Model):
    """Compute nodes that share what is said of them.

    Args:
        hosts: their names, in the file's order.
        settings: keys of a NodeName line (slurm.conf(5)) in the file's order, such as `Gres` and `Weight`.
    """

    hosts: Annotated[SomeHosts, Field(description="Hostlist of compute nodes, such as cn[01-16].")]
    settings: NodeSettings = {}


class Partition(Model):
    """A partition.

    Args:
        name: its PartitionName.
        nodes: the names of its nodes, or `ALL`; none for a partition that waits for its first.
        settings: the other keys of its PartitionName line (slurm.conf(5)) in the file's order.
    """

    name: Annotated[
        str,
        AfterValidator(_check_partition_name),
        Field(validation_alias="PartitionName", description="Name of the partition."),
    ]
    nodes: Annotated[
        tuple[str, ...] | Literal["ALL"],
        BeforeValidator(_nodes_of_partition, json_schema_input_type=_HOSTS_IN_FILE),
        Field(validation_alias="Nodes", description="Hostlist of its nodes, or ALL."),
    ]
    settings: PartitionSettings = {}


class Cluster(Model):
    """A whole cluster, as its file describes it.

    Args:
        name: its ClusterName; `cluster` in the file.
        ssh: how to reach the hosts.
        addresses: IP address or DNS name by host, for the hosts whose names do not resolve by themselves.
        controllers: hosts of slurmctld, the primary first.
        login: hosts with Slurm's commands and no daemon.
        nodes: the compute nodes in groups.
        partitions: at least one; a file without any means one `main` of all nodes.
        slurm_conf: keys of slurm.conf; `None` leaves out the line that slurmfab would write.
        cgroup_conf: the same for cgroup.conf.
        ids: UID of `slurm` and `munge`, which is their GID as well; slurmfab chooses what is not said.
        memory_margin: what a node's RealMemory leaves to the system, as `3%` or `2048M`.
        hosts_file: whether slurmfab keeps a block of /etc/hosts.
        state_directory: where slurmctld keeps its state; two controllers need one that both see.
        database: where slurmdbd runs, and its database; `None` for a cluster without accounting.
        qos: qualities of service that slurmdbd knows.
        accounts: the tree of accounts, each with its limits.
        users: people: on the hosts, and in the accounts.
        unix_users: whether slurmfab makes the users on the hosts; not where LDAP or SSSD does.
        licenses: how many jobs may use some software at a time, by its name.
        backup: backups that controller and database host make by themselves; `None` for none.
        private_tmp: directories that each job has for itself, such as /tmp; `None` for none.
        gpu_checks: measurements of all GPUs that the controller makes by itself; `None` for none.
        prolog: directory of the scripts that compute nodes run before each job; `None` for none.
        epilog: the same, after each job.
        health: what every compute node looks at again and again; `None` for nothing.
        configless: whether compute nodes fetch Slurm's files from slurmctld, and have none of their own.
        bundle: files with packages for hosts that reach no mirror.
    """

    name: Annotated[
        str, AfterValidator(_check_cluster_name), Field(validation_alias="cluster", description="ClusterName.")
    ]
    ssh: Annotated[Ssh, Field(description="How SSH reaches the hosts.")] = Ssh()
    addresses: Annotated[dict[str, str], Field(description="Address by host; hostlists on both sides are zipped.")] = {}
    controllers: Annotated[SomeHosts, Field(description="Hosts of slurmctld, the primary first.")]
    login: Annotated[Hosts, Field(description="Hosts with Slurm's commands and no daemon.")] = ()
    nodes: Annotated[tuple[NodeGroup, ...], _NOT_EMPTY, Field(description="Compute nodes, in groups.")]
    partitions: Annotated[
        tuple[Partition, ...],
        _NOT_EMPTY,
        Field(description="Partitions; without any, one main of all nodes."),
    ] = (Partition(name="main", nodes="ALL", settings={"Default": "YES"}),)
    slurm_conf: Annotated[SlurmConf, Field(description="Further keys of slurm.conf; null drops slurmfab's own.")] = {}
    cgroup_conf: Annotated[CgroupConf, Field(description="Further keys of cgroup.conf; null drops slurmfab's.")] = {}
    ids: Annotated[dict[str, int], Field(description="UID, and GID, of slurm and munge.")] = {}
    memory_margin: Annotated[
        str, AfterValidator(amount("2048M")), Field(description="Memory left to the system: 3% or 2048M.")
    ] = "3%"
    hosts_file: Annotated[bool, Field(description="Whether slurmfab keeps a block of /etc/hosts.")] = True
    state_directory: Annotated[
        str,
        AfterValidator(directory("/shared/slurm/state")),
        Field(description="Where slurmctld keeps its state (StateSaveLocation)."),
    ] = "/var/lib/slurm/slurmctld"
    database: Annotated[
        Database | None,
        BeforeValidator(database_of, json_schema_input_type=str | Database),
        Field(description="Host of slurmdbd and its database, or a mapping; leave it out for no accounting."),
    ] = None
    qos: Annotated[tuple[Qos, ...], Field(description="Qualities of service, with limits and priorities.")] = ()
    accounts: Annotated[tuple[Account, ...], Field(description="Accounts, with limits and shares.")] = ()
    users: Annotated[tuple[User, ...], Field(description="People: on the hosts, and in the accounts.")] = ()
    unix_users: Annotated[
        bool, Field(description="Whether slurmfab makes the users on the hosts; false where LDAP or SSSD does.")
    ] = True
    licenses: Annotated[Licenses, Field(description="How many licences of some software there are, by name.")] = {}
    backup: Annotated[
        Backup | None, Field(description="Backups that controller and database host make by themselves.")
    ] = None
    private_tmp: PrivateTmpOrNot = None
    gpu_checks: GpuChecksOrNot = None
    prolog: ScriptsBefore = None
    epilog: ScriptsAfter = None
    health: HealthOrNot = None
    configless: Annotated[bool, Field(description="Whether compute nodes fetch Slurm's files from slurmctld.")] = False
    bundle: Annotated[Bundles, Field(description="Packages for hosts without a mirror: a file of fab bundle's.")] = ()

    @model_validator(mode="after")
    def _check_rules(self) -> Cluster:
        """All that must hold between the fields."""
        mistakes("Cluster", rules.broken(self))
        return self

    @property
    def controller(self) -> str:
        """The primary controller."""
        return self.controllers[0]

    @cached_property
    def compute_nodes(self) -> tuple[str, ...]:
        """All compute nodes, in the file's order."""
        return tuple(host for group in self.nodes for host in group.hosts)

    @property
    def database_hosts(self) -> tuple[str, ...]:
        """The host of slurmdbd, if there is one."""
        return (self.database.host,) if self.database else ()

    @property
    def backup_hosts(self) -> tuple[str, ...]:
        """The hosts that make backups by themselves: those that have something to save."""
        return tuple(dict.fromkeys((self.controller, *self.database_hosts))) if self.backup else ()

    @property
    def has_accounts(self) -> bool:
        """Whether the file says who may run jobs, so that Slurm holds everybody to that."""
        return self.database is not None and bool(self.accounts)

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """All hosts, each once: controllers, the database's host, login hosts, then compute nodes."""
        return tuple(dict.fromkeys((*self.controllers, *self.database_hosts, *self.login, *self.compute_nodes)))

    def roles(self, host: str) -> tuple[str, ...]:
        """What a host is: any of `controller`, `database`, `login` and `compute`, in this order, or nothing."""
        return tuple(role for role, hosts in self._hosts_by_role.items() if host in hosts)

    @cached_property
    def _hosts_by_role(self) -> dict[str, Collection[str]]:
        return {
            "controller": self.controllers,
            "database": self.database_hosts,
            "login": self.login,
            "compute": self._settings_by_node,
        }

    def fetches(self, host: str) -> bool:
        """Whether a host is to have Slurm's files from slurmctld; a controller, or one without slurmd, has its own."""
        return self.configless and host in self._settings_by_node and host not in self.controllers

    def settings_of(self, node: str) -> dict[str, str]:
        """What the file says of a compute node, by key of a NodeName line.

        Raises:
            KeyError: it is no compute node.
        """
        return dict(self._settings_by_node[node])

    @cached_property
    def _settings_by_node(self) -> dict[str, dict[str, str]]:
        return {host: group.settings for group in self.nodes for host in group.hosts}
