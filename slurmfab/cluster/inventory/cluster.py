"""The models of a cluster: the contents of a valid cluster file.

Models have expanded host names. `slurmfab.cluster.inventory.loading` reads them from a file;
`slurmfab.cluster.inventory.rules` has the rules between their fields. docs/cluster-file.md documents each field for
people who write the file.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from slurmfab.base import hostlist
from slurmfab.base.errors import HostlistError
from slurmfab.base.ip_addresses import canonical
from slurmfab.cluster.inventory.acceptance import Acceptance
from slurmfab.cluster.inventory.accounting import Account, Database, Login, Qos, User
from slurmfab.cluster.inventory.backups import Backup
from slurmfab.cluster.inventory.containers import ContainersOrNot, Way
from slurmfab.cluster.inventory.directory import Directory
from slurmfab.cluster.inventory.drift import Drift
from slurmfab.cluster.inventory.exports import Exports, Served, served
from slurmfab.cluster.inventory.files_on_hosts import Files
from slurmfab.cluster.inventory.firewall import FirewallOrNot
from slurmfab.cluster.inventory.gpu_checks import GpuChecks, IdleGpus
from slurmfab.cluster.inventory.health import HealthOrNot, ScriptsAfter, ScriptsBefore
from slurmfab.cluster.inventory.jupyter import JupyterOrNot
from slurmfab.cluster.inventory.logins import (
    BESIDE_SLURMCTLD,
    LoginLimits,
    Motd,
    Networks,
    NodeLogins,
    PrivateData,
    SlurmSsh,
    SlurmSshOrLogins,
    UserSsh,
)
from slurmfab.cluster.inventory.mail import Mail
from slurmfab.cluster.inventory.mig import Layout, Mig
from slurmfab.cluster.inventory.modules import ModulesOrNot, MpiOrNot
from slurmfab.cluster.inventory.monitoring import MonitoringOrNot
from slurmfab.cluster.inventory.mounts import Mounts
from slurmfab.cluster.inventory.power import Power
from slurmfab.cluster.inventory.quota import Quota
from slurmfab.cluster.inventory.registry import RegistryOrNot
from slurmfab.cluster.inventory.rest import RestOrNot
from slurmfab.cluster.inventory.scratch import JobEnvironment, PrivateTmpOrNot, Scratch
from slurmfab.cluster.inventory.site_packages import PackageLists, SitePackages
from slurmfab.cluster.inventory.slurm_files import SlurmFiles
from slurmfab.cluster.inventory.slurm_packages import SlurmPackages, SlurmsPackages
from slurmfab.cluster.inventory.slurm_settings import (
    CgroupConf,
    NodeSettings,
    PartitionSettings,
    SlurmConf,
    SlurmdbdConf,
)
from slurmfab.cluster.inventory.values import (
    Bundles,
    HostNames,
    Licenses,
    Model,
    check_amount,
    check_directory,
    host_names,
    short_for,
    written_as,
)
from slurmfab.cluster.slurm.job_submit_script import explains_refusals, needs_accounts
from slurmfab.cluster.slurm.site_files import OCI, TOPOLOGY

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
CLUSTER_NAME = re.compile(r"[a-z0-9_-]{1,40}")
_PARTITION_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\\@+-]*")
_Entries = TypeVar("_Entries", bound=tuple[Any, ...] | str)
_HOSTS_IN_FILE = str | list[str]


@written_as(_NAME)
def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f'"{name}" is not a valid name of a switch: use letters, digits, _ . and -')
    return name


class Switch(Model):
    """A switch, with the nodes or the switches that are connected to it (topology.conf(5))."""

    name: Annotated[
        str, AfterValidator(_check_name), Field(validation_alias="SwitchName", description="Name of the switch.")
    ]
    # empty for a switch of switches
    nodes: Annotated[HostNames, Field(validation_alias="Nodes", description="Hostlist of its compute nodes.")] = ()
    # empty for a switch of nodes
    switches: Annotated[HostNames, Field(validation_alias="Switches", description="The switches connected to it.")] = ()
    # LinkSpeed, which Slurm stores without using it
    speed: Annotated[
        str, Field(pattern=r"^[0-9]{0,9}\z", validation_alias="LinkSpeed", description="Its speed, for people.")
    ] = ""


def _nodes_of_partition(value: Any) -> tuple[str, ...] | Literal["ALL"]:
    """Read `ALL` in any case, or expand a hostlist."""
    return "ALL" if isinstance(value, str) and value.upper() == "ALL" else host_names(value)


@written_as(CLUSTER_NAME)
def _check_cluster_name(name: str) -> str:
    if not CLUSTER_NAME.fullmatch(name):
        words = "use at most 40 lower-case letters, digits, - and _, as in"
        raise ValueError(f'"{name}" is not a valid cluster name: {words} {re.sub("[^a-z0-9_-]", "_", name.lower())}')
    return name


@written_as(_PARTITION_NAME)
def _check_partition_name(name: str) -> str:
    if not _PARTITION_NAME.fullmatch(name) or name.upper() == "DEFAULT":
        raise ValueError(f'"{name}" is not a valid partition name: use letters, digits, -, _ and ., but not DEFAULT')
    return name


@written_as(_USER)
def _check_user(user: str | None) -> str | None:
    if user is not None and not _USER.fullmatch(user):
        raise ValueError(f'"{user}" is not a login name')
    return user


def _check_gateway(gateway: str | None) -> str | None:
    """Check jump hosts, separated by commas as in ProxyJump (ssh_config(5))."""
    for place in gateway.split(",") if gateway is not None else ():
        _check_endpoint(place.strip())
    return gateway


def _check_endpoint(text: str) -> str:
    """Check one SSH target, such as `admin@bastion:2222`."""
    try:
        count = len(hostlist.expand_endpoints(text))
    except HostlistError as error:
        raise ValueError(str(error)) from None
    if count != 1:
        raise ValueError(f'"{text}" names {count} hosts; it must name one, such as admin@bastion:2222')
    return text


def _read_relays(value: Any) -> Any:
    """Read names of relays alone, as a hostlist or a list, as those of all hosts."""
    if value is None or isinstance(value, dict):
        return value
    names = host_names(value)
    return {hostlist.fold(names): "ALL"} if names else {}


def _check_relays(relays: dict[str, Any]) -> dict[str, Any]:
    """Check that each key is a hostlist."""
    for names in relays:
        host_names(names)
    return relays


def _canonical_addresses(addresses: dict[str, str]) -> dict[str, str]:
    """The same addresses, each IPv6 address in one spelling, by which it is compared with others."""
    return {host: canonical(address) for host, address in addresses.items()}


def _check_not_empty(entries: _Entries) -> _Entries:
    if not entries:
        raise ValueError("it is empty; it needs at least one entry")
    return entries


_NOT_EMPTY = AfterValidator(_check_not_empty)
SomeHosts = Annotated[HostNames, _NOT_EMPTY]
HostsOrAll = Annotated[
    tuple[str, ...] | Literal["ALL"], BeforeValidator(_nodes_of_partition, json_schema_input_type=_HOSTS_IN_FILE)
]
PlaceForSsh = Annotated[str, AfterValidator(_check_endpoint)]


class Ssh(Model):
    """How SSH reaches the hosts; the user's ~/.ssh/config has the values that are missing here."""

    user: Annotated[str | None, AfterValidator(_check_user), Field(description="Login name.")] = None
    key: Annotated[str | None, Field(min_length=1, description="Private key file; ~ is the user's home.")] = None
    port: Annotated[int | None, Field(ge=1, le=hostlist.HIGHEST_PORT, description="Port of the hosts' sshd.")] = None
    become: Annotated[Literal["sudo"] | None, Field(description="How the user becomes root.")] = None
    gateway: Annotated[
        str | None, AfterValidator(_check_gateway), Field(description="Jump host such as user@host:port, or several.")
    ] = None
    relays: Annotated[
        dict[str, HostsOrAll],
        BeforeValidator(_read_relays, json_schema_input_type=str | list[str] | dict[str, str | list[str]]),
        AfterValidator(_check_relays),
        Field(description="Hosts of the cluster through which SSH reaches others: all, or by relay the hosts near it."),
    ] = {}
    endpoints: Annotated[
        dict[str, PlaceForSsh],
        Field(description="By host, where SSH goes if not to the host's own address: user@address:port."),
    ] = {}
    networks: Annotated[
        Networks,
        Field(description="Further networks of the hosts, in which addresses that a host tells of are trusted."),
    ] = ()


class NodeGroup(Model):
    """Compute nodes with the same settings."""

    hosts: Annotated[SomeHosts, Field(description="Hostlist of compute nodes, such as cn[01-16].")]
    mig: Mig = None  # `None` leaves the GPUs as they are
    # `None` for the cluster's
    slurm: Annotated[
        SlurmPackages | None, Field(description="Slurm's packages on these nodes, as in the cluster's key slurm.")
    ] = None
    # keys of a NodeName line (slurm.conf(5)) in the file's order, such as `Gres` and `Weight`
    settings: NodeSettings = {}


class FutureNodes(Model):
    """Compute nodes that slurm.conf names with State=FUTURE, because they are not there yet."""

    hosts: Annotated[SomeHosts, Field(description="Hostlist of the nodes, such as cn[17-64].")]
    # keys of a NodeName line (slurm.conf(5)) in the file's order, their hardware among them; nothing is found out
    settings: NodeSettings = {}


class Partition(Model):
    """A partition."""

    name: Annotated[
        str,
        AfterValidator(_check_partition_name),
        Field(validation_alias="PartitionName", description="Name of the partition."),
    ]
    # empty for a partition without nodes
    nodes: Annotated[HostsOrAll, Field(validation_alias="Nodes", description="Hostlist of its nodes, or ALL.")]
    settings: PartitionSettings = {}  # the other keys of its PartitionName line (slurm.conf(5)) in the file's order


class Cluster(Model):
    """A cluster, as its file describes it."""

    name: Annotated[
        str, AfterValidator(_check_cluster_name), Field(validation_alias="cluster", description="ClusterName.")
    ]
    ssh: Annotated[Ssh, Field(description="How SSH reaches the hosts.")] = Ssh()
    addresses: Annotated[
        dict[str, str],
        AfterValidator(_canonical_addresses),
        Field(description="Address by host; hostlists on both sides are zipped."),
    ] = {}
    controllers: Annotated[SomeHosts, Field(description="Hosts of slurmctld, the primary first.")]
    login: Annotated[HostNames, Field(description="Hosts with Slurm's commands and no daemon.")] = ()
    nodes: Annotated[tuple[NodeGroup, ...], _NOT_EMPTY, Field(description="Compute nodes, in groups.")]
    future_nodes: Annotated[
        tuple[FutureNodes, ...], Field(description="Nodes that are not there yet: in slurm.conf alone, State=FUTURE.")
    ] = ()
    partitions: Annotated[
        tuple[Partition, ...], _NOT_EMPTY, Field(description="Partitions; without any, one main of all nodes.")
    ] = (Partition(name="main", nodes="ALL", settings={"Default": "YES"}),)
    slurm_conf: Annotated[SlurmConf, Field(description="Further keys of slurm.conf; null drops slurmfab's own.")] = {}
    cgroup_conf: Annotated[CgroupConf, Field(description="Further keys of cgroup.conf; null drops slurmfab's.")] = {}
    slurmdbd_conf: Annotated[
        SlurmdbdConf, Field(description="Further keys of slurmdbd.conf; null drops slurmfab's.")
    ] = {}
    slurm_files: SlurmFiles = {}
    # `None` for files of its own on each host
    slurm_conf_directory: Annotated[
        Annotated[str, AfterValidator(check_directory("/shared/slurm/etc"))] | None,
        Field(description="Directory shared by all hosts that has Slurm's files; /etc/slurm has links to them."),
    ] = None
    keep_files: Annotated[
        bool, Field(description="Whether Slurm's files stay as they are on hosts; they are compared, and not written.")
    ] = False
    guard_directories: Annotated[
        bool, Field(description="Whether slurmfab sets owners and modes of Slurm's directories that are there.")
    ] = True
    rotate_logs: Annotated[
        bool, Field(description="Whether logrotate is set up for Slurm's logs where the packages' own does not work.")
    ] = True
    slurm_user: Annotated[
        Login, Field(description="User of slurmctld and slurmdbd (SlurmUser); the site makes another one than slurm.")
    ] = "slurm"
    slurm: SlurmsPackages = SlurmPackages()
    # `None` for the cluster's
    login_slurm: Annotated[
        SlurmPackages | None, Field(description="Slurm's packages on login hosts, as in the cluster's key slurm.")
    ] = None
    packages: PackageLists = SitePackages()
    files: Files = {}
    topology: Annotated[tuple[Switch, ...], Field(description="Switches of the network, for topology.conf.")] = ()
    # slurmfab chooses missing ones
    ids: Annotated[dict[str, int], Field(description="UID, and GID, of slurm and munge.")] = {}
    memory_margin: Annotated[
        str, AfterValidator(check_amount("2048M")), Field(description="Memory left to the system: 3% or 2048M.")
    ] = "3%"
    hosts_file: Annotated[bool, Field(description="Whether slurmfab maintains a block in /etc/hosts.")] = True
    # two controllers need a shared one
    state_directory: Annotated[
        str,
        AfterValidator(check_directory("/shared/slurm/state")),
        Field(description="Directory of slurmctld's state (StateSaveLocation)."),
    ] = "/var/lib/slurm/slurmctld"
    database: Annotated[
        Database | None,
        BeforeValidator(short_for("host"), json_schema_input_type=str | Database),
        Field(description="Host of slurmdbd, or a mapping; without it there is no accounting."),
    ] = None
    qos: Annotated[tuple[Qos, ...], Field(description="Qualities of service, with limits and priorities.")] = ()
    accounts: Annotated[tuple[Account, ...], Field(description="Accounts, with limits and shares.")] = ()
    users: Annotated[tuple[User, ...], Field(description="Users: on the hosts, and in the accounts.")] = ()
    unix_users: Annotated[
        bool, Field(description="Whether slurmfab creates the users on the hosts; false where LDAP or SSSD does.")
    ] = True
    directory: Annotated[Directory | None, Field(description="Users and groups from LDAP or Active Directory.")] = None
    licenses: Annotated[Licenses, Field(description="Number of licences, by name of the software.")] = {}
    backup: Annotated[Backup | None, Field(description="Scheduled backups of controller and database host.")] = None
    mounts: Mounts = ()
    exports: Exports = ()
    # `None` if the file does not say it
    homes: Annotated[
        Annotated[str, AfterValidator(check_directory("/home"))] | None,
        Field(description="Directory of the homes of users, on a file system that hosts share, such as /home."),
    ] = None
    quota: Annotated[Quota | None, Field(description="What each user may store on a file system.")] = None
    private_tmp: PrivateTmpOrNot = None
    scratch: Annotated[
        Scratch | None, Field(description="Directories of jobs on their nodes' own disks, counted as a Gres.")
    ] = None
    mail: Annotated[Mail | None, Field(description="Relay for mail about jobs.")] = None
    modules: ModulesOrNot = None
    mpi: MpiOrNot = None
    containers: ContainersOrNot = None
    registry: RegistryOrNot = None
    firewall: FirewallOrNot = None
    monitoring: MonitoringOrNot = None
    rest: RestOrNot = None
    jupyter: JupyterOrNot = None
    gpu_checks: Annotated[GpuChecks | None, Field(description="Scheduled measurements of all GPUs.")] = None
    idle_gpus: Annotated[IdleGpus | None, Field(description="What is done about jobs whose GPUs do nothing.")] = None
    acceptance: Acceptance = {}
    drift: Annotated[Drift | None, Field(description="Plans by a timer on the deployer, with mail or metrics.")] = None
    prolog: ScriptsBefore = None
    epilog: ScriptsAfter = None
    job_environment: Annotated[
        JobEnvironment | None, Field(description="Variables that jobs find in their environment.")
    ] = None
    health: HealthOrNot = None
    mps_daemon: Annotated[bool, Field(description="Whether NVIDIA's MPS daemon runs around jobs with mps.")] = False
    power: Annotated[Power | None, Field(description="Nodes that are switched off while they are idle.")] = None
    configless: Annotated[bool, Field(description="Whether compute nodes fetch Slurm's files from slurmctld.")] = False
    own_partition: Annotated[
        bool, Field(description="Whether slurm.conf has a hidden partition for slurmfab's own jobs.")
    ] = True
    restart_daemons: Annotated[
        bool, Field(description="Whether crashed daemons start again, and a power cut heals by itself.")
    ] = True
    bundle: Annotated[Bundles, Field(description="Packages for hosts without a mirror, from fab bundle.")] = ()
    slurm_ssh: SlurmSshOrLogins = SlurmSsh()
    node_logins: NodeLogins = "all"
    user_ssh: UserSsh = "own"
    login_limits: Annotated[
        LoginLimits | None, Field(description="What each user may use on login hosts: memory, tasks, cpus.")
    ] = None
    private_data: PrivateData = ()
    motd: Motd = False
    x11: Annotated[bool, Field(description="Whether jobs can open windows on users' screens (srun --x11).")] = False
    user_tools: Annotated[
        bool, Field(description="Whether login hosts and controllers have commands for users, such as sstatus.")
    ] = False

    @model_validator(mode="after")
    def _homes_of_users(self) -> Cluster:
        """Give users without a `home` of their own one in `homes`."""
        if self.homes is not None and self.unix_users:
            # The model is frozen for others; pydantic replaces no instance here.
            self.__dict__["users"] = tuple(
                user if user.home else user.model_copy(update={"home": f"{self.homes}/{user.name}"})
                for user in self.users
            )
        return self

    @cached_property
    def workplaces(self) -> tuple[str, ...]:
        """The hosts on which users work: compute nodes, and login hosts or else the controllers."""
        return tuple(dict.fromkeys((*(self.login or self.controllers), *self.compute_nodes)))

    @property
    def controller(self) -> str:
        return self.controllers[0]

    @cached_property
    def compute_nodes(self) -> tuple[str, ...]:
        return tuple(host for group in self.nodes for host in group.hosts)

    @cached_property
    def future_settings(self) -> dict[str, dict[str, str]]:
        """The settings of each node that is not there yet, by key of a NodeName line."""
        return {host: group.settings for group in self.future_nodes for host in group.hosts}

    @property
    def node_keys(self) -> frozenset[str]:
        groups = (*(one.settings for one in self.nodes), *(one.settings for one in self.future_nodes))
        return frozenset(key for settings in groups for key in settings)

    @cached_property
    def named_nodes(self) -> tuple[str, ...]:
        """The nodes that partitions and switches may name: all compute nodes, then those that are not there yet."""
        return (*self.compute_nodes, *self.future_settings)

    def nodes_in(self, partition: Partition) -> tuple[str, ...]:
        """The compute nodes of a partition, without those that are not there yet."""
        if partition.nodes == "ALL":
            return self.compute_nodes
        return tuple(node for node in partition.nodes if node not in self.future_settings)

    @property
    def database_hosts(self) -> tuple[str, ...]:
        return (self.database.host,) if self.database else ()

    @cached_property
    def own_gpu_checks(self) -> GpuChecks | None:
        """The measurements of GPUs, started as `mpi` says where `gpu_checks` does not say how."""
        checks = self.gpu_checks
        if checks is None or self.mpi is None or "mpi" in checks.model_fields_set:
            return checks
        return checks.model_copy(update={"mpi": self.mpi.kind})

    @property
    def backup_hosts(self) -> tuple[str, ...]:
        """The hosts with scheduled backups: the primary controller and the host of slurmdbd."""
        return tuple(dict.fromkeys((self.controller, *self.database_hosts))) if self.backup else ()

    @property
    def site_file_names(self) -> tuple[str, ...]:
        """The names of the site's own files in Slurm's directory, with those that come from other keys."""
        own = {TOPOLOGY: bool(self.topology), OCI: self.uses_oci}
        return (*self.slurm_files, *(name for name, is_wanted in own.items() if is_wanted))

    @property
    def container_ways(self) -> tuple[Way, ...]:
        return self.containers.use if self.containers else ()

    @property
    def uses_oci(self) -> bool:
        return "oci" in self.container_ways

    @property
    def has_accounts(self) -> bool:
        """Whether the file has accounts, so that Slurm enforces associations and limits."""
        return self.database is not None and bool(self.accounts)

    @cached_property
    def member_groups(self) -> tuple[str, ...]:
        """The groups whose members are users of accounts, each once."""
        return tuple(dict.fromkeys(group for account in self.accounts for group in account.from_groups))

    @property
    def enforces_accounts(self) -> bool:
        """Whether jobs need an account: unless `slurm_conf` has an AccountingStorageEnforce without that."""
        return needs_accounts(self.slurm_conf, enforces=self.has_accounts)

    @property
    def explains_refusals(self) -> bool:
        return explains_refusals(self.slurm_conf, enforces=self.has_accounts)

    @property
    def has_own_scripts(self) -> bool:
        return self.mps_daemon or self.scratch is not None or self.has_podman or self.idle_gpus is not None

    @property
    def hides_pmix(self) -> bool:
        """Whether jobs do not see the files that Slurm's server of PMIx makes in /tmp for their MPI programs.

        slurmfab's TaskProlog then has them do without; a site's own stays, and has to do so itself.
        """
        private, has_own = self.private_tmp, any(key.lower() == "taskprolog" for key in self.slurm_conf)
        return private is not None and "/tmp" in private.directories and not has_own  # noqa: S108 - its name

    @property
    def has_podman(self) -> bool:
        return "podman" in self.container_ways

    @cached_property
    def helping_hosts(self) -> tuple[str, ...]:
        """The hosts with commands for users: controllers too, because a small cluster has no login host."""
        return tuple(dict.fromkeys((*self.controllers, *self.login))) if self.user_tools else ()

    @cached_property
    def served(self) -> tuple[Served, ...]:
        return tuple(served(self.exports, self.addresses))

    @cached_property
    def servers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(export.host for export in self.exports))

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """All hosts, each once: controllers, the database's host, login hosts, then compute nodes."""
        return tuple(dict.fromkeys((*self.controllers, *self.database_hosts, *self.login, *self.compute_nodes)))

    def roles(self, host: str) -> tuple[str, ...]:
        """The roles of a host: any of `controller`, `database`, `login` and `compute`, in this order."""
        return self._roles_by_host.get(host, ())

    def limits_on(self, host: str) -> LoginLimits | None:
        """What each user may use on a login host; there are always limits beside slurmctld."""
        roles = self.roles(host)
        usual = BESIDE_SLURMCTLD if "controller" in roles else None
        return (self.login_limits or usual) if "login" in roles else None

    def is_for_database_alone(self, host: str) -> bool:
        """Whether a host is nothing but slurmdbd's: no user and no job works there."""
        return self.roles(host) == ("database",)

    @cached_property
    def _roles_by_host(self) -> dict[str, tuple[str, ...]]:
        by_role: dict[str, Collection[str]] = {
            "controller": self.controllers,
            "database": self.database_hosts,
            "login": self.login,
            "compute": self._groups,
        }
        found: dict[str, tuple[str, ...]] = {}
        for role, hosts in by_role.items():
            alone = (role,)  # one for all hosts that have no other role
            for host in hosts:
                before = found.get(host)
                found[host] = alone if before is None else (*dict.fromkeys((*before, role)),)
        return found

    def closes(self, host: str) -> bool:
        """Whether users may log in to a host only with a job there; hosts with other roles too stay open."""
        return self.node_logins == "with_job" and self.roles(host) == ("compute",)

    def fetches(self, host: str) -> bool:
        """Whether a host fetches Slurm's files from slurmctld; controllers and hosts without slurmd have their own."""
        return self.configless and host in self._groups and host not in self.controllers

    def settings_of(self, node: str) -> dict[str, str]:
        """The settings of a compute node in the file, by key of a NodeName line; KeyError for other hosts."""
        return dict(self.nodes[self._groups[node]].settings)

    def mig_of(self, host: str) -> Layout | None:
        """The instances that each GPU of a host shall have; `None` where the file does not say."""
        return self.nodes[self._groups[host]].mig if host in self._groups else None

    def slurm_of(self, host: str) -> SlurmPackages:
        """Which packages of Slurm a host gets: those of its group of nodes or of login hosts, or else the cluster's."""
        group = self._groups.get(host)
        own = self.nodes[group].slurm if group is not None else self.login_slurm if host in self.login else None
        return own or self.slurm

    @property
    def slurms(self) -> tuple[SlurmPackages, ...]:
        """Slurm's packages, each kind and source once: the cluster's, then those of some hosts."""
        others = (self.login_slurm if self.login else None, *(group.slurm for group in self.nodes))
        return tuple(dict.fromkeys((self.slurm, *filter(None, others))))

    def with_slurm(self, slurm: SlurmPackages) -> Cluster:
        """This cluster with another key `slurm`, and its version in the keys of groups of nodes and login hosts."""
        login = self.login_slurm and self.login_slurm.with_version_of(slurm)
        groups = (
            one.model_copy(update={"slurm": one.slurm and one.slurm.with_version_of(slurm)}) for one in self.nodes
        )
        return self.model_copy(update={"slurm": slurm, "login_slurm": login, "nodes": tuple(groups)})

    @cached_property
    def _groups(self) -> dict[str, int]:
        """The number of each compute node's group, which a copy with other groups keeps."""
        return {host: number for number, group in enumerate(self.nodes) for host in group.hosts}


LINES_OF: Mapping[str, tuple[str, ...]] = {
    "database": ("AccountingStorageType", "AccountingStorageHost", "AccountingStoragePort"),
    "licenses": ("Licenses",), "private_tmp": ("JobContainerType", "NamespaceType"), "prolog": ("Prolog",),
    "epilog": ("Epilog",), "health": ("HealthCheckProgram", "HealthCheckInterval"), "mps_daemon": ("Prolog", "Epilog"),
    "scratch": ("Prolog", "Epilog", "TaskProlog"), "mail": ("MailProg",), "mpi": ("MpiDefault",),
    "power": ("SuspendProgram", "ResumeProgram", "SuspendTime", "SuspendTimeout", "ResumeTimeout", "SuspendRate",
              "ResumeRate", "SuspendExcNodes"),
    "private_data": ("PrivateData",), "rest": ("AuthAltTypes",),
}  # fmt: skip
"""By field of a cluster, the keys of slurm.conf that slurmfab writes for it, and that `slurm_conf` then may not set."""

HARMLESS = frozenset({
    "name", "addresses", "controllers", "login", "nodes", "future_nodes", "partitions", "topology", "memory_margin",
    "hosts_file", "qos", "accounts", "unix_users", "licenses", "quota", "mps_daemon", "configless", "own_partition",
    "node_logins", "login_limits", "private_data", "motd", "x11", "user_tools", "restart_daemons", "keep_files",
    "rotate_logs", "idle_gpus",
})  # fmt: skip
"""Fields of a cluster whose values name no program, file, package, server or person that hosts obey as root."""
