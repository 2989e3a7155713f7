"""Render Slurm's files from templates; the same input gives the same bytes."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path
from typing import Protocol

import jinja2
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket, FileSystemBytecodeCache

from slurmfab.base.hostlist import fold
from slurmfab.base.paths import PROGRAMS, SLURM_SPOOL
from slurmfab.cluster.facts import Cgroup
from slurmfab.cluster.slurm.gres import gres_lines, gres_names, tracked_gres
from slurmfab.cluster.slurm.job_submit_script import SCRIPT, explains_refusals, lua_text
from slurmfab.cluster.slurm.node import Node, one_of_each
from slurmfab.cluster.slurm.node_lines import assignment, memory_share, node_lines
from slurmfab.cluster.slurm.platform import DEBIAN, Platform
from slurmfab.cluster.slurm.preemption import partition_settings, preemption
from slurmfab.cluster.slurm.together import timeouts
from slurmfab.cluster.slurm.versions import SlurmVersion, tells_figures
from slurmfab.on_hosts.agent.client.commands import PARTITION

NEVER_BY_ITSELF = 365 * 86400
"""SuspendTime in seconds. slurmctld switches nodes only with a SuspendTime; by itself it shall switch off none: up to
22.05 it would take drained nodes, too, and it counts nodes that stay on (`SuspendExcNodes=n[1-8]:2`) only for lists
without a comma. The program of slurmfab's timer decides instead, the same with every version."""

_TEMPLATES = Path(__file__).parents[2] / "templates"

OWN_PARTITION = {
    "PartitionName": PARTITION,
    "Nodes": "ALL",
    "Hidden": "YES",
    # root and the slurm user may use every partition; nobody else is in root's group (slurm.conf(5), AllowGroups).
    "AllowGroups": "root",
    # Behind every other partition, so that a test job that waits holds up nobody, and preempts nobody.
    "PriorityTier": "0",
    "PriorityJobFactor": "0",
    # Nobody preempts a job of seconds.
    "PreemptMode": "OFF",
}
"""The partition of slurmfab's own jobs, but for its time limit; it has no QOS, so no limit of users holds there."""

SHORTEST_LIMIT = 60
"""Minutes that each job of slurmfab may take in its partition at least; the longest of quickcheck's takes as long."""

_AS_THEY_ARE = (
    "cluster_name",
    "slurm_user",
    "state_directory",
    "spool_directory",
    "cgroup",
    "accounting_host",
    "accounting_port",
    "enforces_limits",
    "private_tmp",
    "has_switches",
    "programs",
    "power",
    "mail_program",
    "mail_domain",
    "mpi",
    "tokens",
    "explains_refusals",
)
"""Values of `SlurmConf` that the templates use as they are."""

KEYS_AS_THEY_ARE = (
    "cgroup_conf", "memory_margin", "slurm_user", "state_directory", "private_tmp", "configless", "licenses",
    "own_partition", "x11", "private_data",
)  # fmt: skip
"""Fields of `SlurmConf` that have the values of these keys of the cluster file."""

_ALWAYS = ("slurm.conf", "cgroup.conf")  # the files that every cluster has


@dataclass(frozen=True)
class NodePrograms:
    """The programs that a cluster uses."""

    has_prolog: bool = False  # whether nodes run the cluster file's scripts before each job
    has_epilog: bool = False  # whether nodes run the cluster file's scripts after each job
    health_interval: int = 0  # seconds between two health checks; 0 for none
    directory: str = PROGRAMS
    has_task_prolog: bool = False


@dataclass(frozen=True)
class PowerSaving:
    """The values of slurm.conf's lines about power saving."""

    suspend: str
    resume: str
    always_on: str  # hostlist of the nodes that are never switched off; empty for none
    suspend_timeout: int  # seconds until a node is off
    resume_timeout: int  # seconds until a node that was switched on answers
    rate: int  # most nodes that are switched off, and on, within a minute
    never: int = NEVER_BY_ITSELF


class PrivateDirectories(Protocol):
    """Directories that are private to each job (job_container.conf(5))."""

    @property
    def base(self) -> str:
        """Directory on the compute nodes' own disks that contains them (BasePath)."""

    @property
    def directories(self) -> tuple[str, ...]:
        """The private directories (Dirs)."""

    @property
    def shared(self) -> bool:
        """Whether jobs see file systems that are mounted while they run (Shared)."""


@dataclass(frozen=True)
class SlurmConf:
    """The contents of Slurm's files."""

    cluster_name: str
    # hostname (`hostname -s`, by which slurmctld recognizes its host) and address of each controller; the primary
    # first
    controllers: tuple[tuple[str, str], ...]
    version: str  # slurmctld's, such as `24.11.5`
    nodes: tuple[Node, ...]  # the compute nodes, in the order of the cluster file, then those that are not there yet
    # name, node list and other keys of each partition, in the order of the cluster file
    partitions: tuple[tuple[str, str, Mapping[str, str]], ...]
    # the user's keys; they replace the lines that slurmfab would write, `None` leaves a line out
    slurm_conf: Mapping[str, str | None] = field(default_factory=dict)
    cgroup_conf: Mapping[str, str | None] = field(default_factory=dict)
    # control groups that all compute nodes have, as they share one slurm.conf
    cgroup: Cgroup = field(default_factory=lambda: Cgroup("none"))
    memory_margin: str = "3%"  # memory of a node that is not in RealMemory; see `node_lines.real_memory`
    slurm_user: str = "slurm"  # SlurmUser
    state_directory: str = "/var/lib/slurm/slurmctld"  # StateSaveLocation, shared by all controllers
    spool_directory: str = SLURM_SPOOL
    qos: tuple[Mapping[str, str], ...] = ()  # keys and values of each QOS, in the order of the cluster file
    mail_programs: tuple[str, ...] = ()  # program that sends mail on each controller; empty for none
    mail_domain: str = ""  # domain of users who name no address; empty for the mail system's
    # AuthAltParameters, with the path of the key that proves tokens, beside munge's credentials; empty for none
    tokens: str = ""
    mpi: str = "none"  # MpiDefault, how srun starts programs that do not say it themselves
    accounting_host: str = ""  # address of slurmdbd's host; empty for a cluster without accounting
    accounting_port: int = 0  # slurmdbd's port; 0 for Slurm's default
    enforces_limits: bool = False
    private_tmp: PrivateDirectories | None = None  # directories that are private to each job; `None` for none
    has_switches: bool = False  # whether topology.conf has switches
    configless: bool = False
    licenses: Mapping[str, int] = field(default_factory=dict)  # number of licences by name of the software
    programs: NodePrograms = field(default_factory=NodePrograms)  # programs of slurmfab that nodes run
    power: PowerSaving | None = None  # nodes that are switched off while they are idle; `None` for none
    own_partition: bool = True  # whether there is a hidden partition for slurmfab's own jobs
    longest_check: int = SHORTEST_LIMIT  # minutes of slurmfab's longest job, which its own partition allows
    ipv6: bool = False  # whether Slurm uses IPv6 addresses too
    x11: bool = False  # whether jobs can open windows on users' screens
    private_data: tuple[str, ...] = ()  # what users see only their own of (PrivateData)
    local_groups: bool = False
    openmetrics: bool = False  # whether slurmctld tells figures itself, where its version can
    platform: Platform = DEBIAN
    oldest: str = ""  # the oldest Slurm that reads the files, on nodes and in commands; empty for the version

    @property
    def mail_program(self) -> str:
        """MailProg, one for all controllers; empty if they have different mail programs."""
        return self.mail_programs[0] if len(set(self.mail_programs)) == 1 else ""

    @property
    def explains_refusals(self) -> bool:
        """Whether slurmctld runs slurmfab's job submit script, with messages for users without an account."""
        return explains_refusals(self.slurm_conf, enforces=self.enforces_limits)


def render(conf: SlurmConf) -> dict[str, str]:
    """Slurm's files by name, gres.conf and job_container.conf as needed; SlurmfabError for what cannot be."""
    context = _context(conf)
    return {name: fill(name, context) for name in _needed(context)}


def _context(conf: SlurmConf) -> dict[str, object]:
    """The values for the templates, by the names that these use."""
    version = SlurmVersion.parse(conf.version)
    # An unknown key is fatal in daemons and commands, so all have to know it; newer ones know the older ones' keys.
    oldest = SlurmVersion.parse(conf.oldest or conf.version)
    slurm, cgroups = Settings(conf.slurm_conf), Settings(conf.cgroup_conf)
    kinds = one_of_each(conf.nodes)
    yielding = preemption([settings for _, _, settings in conf.partitions], conf.qos, conf.slurm_conf)
    return {
        **{name: getattr(conf, name) for name in _AS_THEY_ARE},
        "controllers": [_host_and_address(*controller) for controller in conf.controllers],
        "version": (oldest.major, oldest.minor),
        "pid_files": {**conf.platform.pid_files(version), "slurmd": conf.platform.pid_files(oldest)["slurmd"]},
        "has_cgroups": conf.cgroup.is_usable and conf.cgroup.version in ("v1", "v2"),
        "memory_per_cpu": None if slurm.value("DefMemPerNode") else _memory_per_cpu(kinds, conf.memory_margin),
        "shares_no_nodes": slurm.value("SelectType") == "select/linear",
        "timeouts": timeouts(conf.slurm_conf),
        "gres_types": ",".join(gres_names(kinds)),
        "licenses": ",".join(f"{name}:{count}" for name, count in conf.licenses.items()),
        "tracked_gres": ",".join((*tracked_gres(kinds), *(f"license/{name}" for name in conf.licenses))),
        "node_lines": node_lines(conf.nodes, conf.memory_margin),
        "partition_lines": [
            _partition_line(name, nodes, partition_settings(settings, yielding))
            for name, nodes, settings in conf.partitions
        ],
        "own_partition": _own_partition(conf.longest_check) if conf.own_partition else "",
        "preemption": yielding,
        "gres_lines": gres_lines(conf.nodes),
        "x11": ",X11" if conf.x11 else "",
        "private_data": ",".join(conf.private_data),
        "openmetrics": conf.openmetrics and tells_figures(oldest),
        "slurm": slurm.line,
        "serving": slurm.line_with if conf.configless else None,
        "token_line": slurm.line_with if conf.tokens else None,
        "ipv6": slurm.line_with if conf.ipv6 else None,
        "local_groups": slurm.line_with if conf.local_groups else None,
        "slurm_rest": slurm.rest,
        "cgroups": cgroups.line,
        "cgroups_rest": cgroups.rest,
    }


def _needed(context: Mapping[str, object]) -> tuple[str, ...]:
    """The names of the files to render; some are optional."""
    optional = {"gres.conf": "gres_lines", "job_container.conf": "private_tmp"}
    return (*_ALWAYS, *(name for name, key in optional.items() if context[key]))


def fill(name: str, context: Mapping[str, object]) -> str:
    """The text of one template's file. `name`: the file's, which is the template's as well."""
    return _environment().get_template(f"{name}.j2").render(context)


class Settings:
    """The user's keys for one file, in any case, which its template asks for one by one; `None` omits a line."""

    def __init__(self, own: Mapping[str, str | None]) -> None:
        self._own = {key.lower(): (key, value) for key, value in own.items()}
        self._written: set[str] = set()

    def value(self, key: str) -> str | None:
        """The user's value of a key; `None` where there is none."""
        return self._own.get(key.lower(), (key, None))[1]

    def line(self, key: str, value: object) -> str:
        """The line of a key, with the user's value if there is one, else with slurmfab's."""
        self._written.add(key.lower())
        _, wanted = self._own.get(key.lower(), (key, str(value)))
        if wanted is None:
            return f"# {key} is left to Slurm, as the cluster file wants it."
        return lines_of(key, wanted)

    def line_with(self, key: str, option: str, default: str = "") -> str:
        """The line of a key whose value is a list, with an option of slurmfab before the user's, or the default's."""
        _, own = self._own.get(key.lower(), (key, default))
        others = [word for word in (own or "").split(",") if word.strip() and word.strip().lower() != option.lower()]
        self._written.add(key.lower())
        return assignment(key, ",".join((option, *others)))

    def rest(self) -> Iterator[str]:
        """Yield the lines of the user's other keys, sorted by name."""
        for name, (key, value) in sorted(self._own.items()):
            if name not in self._written and value is not None:
                yield lines_of(key, value)


def lines_of(key: str, value: str) -> str:
    """The line of a key; several programs have one each, because Slurm knows no other form (slurm.conf(5))."""
    several = value.split(",") if key.lower() in ("prolog", "epilog") else (value,)
    return "\n".join(assignment(key, one) for one in several)


def job_submit_script(cluster_name: str, site: str = "") -> str:
    """The text of slurmfab's job submit script; the site's own, if any, judges the jobs that it accepts."""
    return fill(SCRIPT, {"cluster_name": cluster_name, "site": lua_text(site) if site else ""})


def load_templates() -> None:
    """Compile the templates of the files that every cluster has, ahead of their use."""
    for name in _ALWAYS:
        _environment().get_template(f"{name}.j2")


class KeptTemplates(FileSystemBytecodeCache):
    """Compiled templates, which are kept beside the others as Python keeps modules, and where it may."""

    def __init__(self) -> None:
        super().__init__(
            str(Path(cache_from_source(str(_TEMPLATES / "any.py"))).parent), f"%s-{jinja2.__version__}.pyc"
        )

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep one, if the directory can be written."""
        if not sys.dont_write_bytecode:
            with suppress(OSError):
                Path(self.directory).mkdir(parents=True, exist_ok=True)
                super().dump_bytecode(bucket)


@cache
def _environment() -> Environment:
    """The Jinja2 environment: undefined names are errors, and block tags leave no blank lines."""
    return Environment(
        loader=FileSystemLoader(_TEMPLATES),
        bytecode_cache=KeptTemplates(),
        auto_reload=False,  # a run is short, and would look at a file for each text
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - the files are no HTML
    )


def _host_and_address(hostname: str, address: str) -> str:
    """A controller as value of SlurmctldHost: `HOSTNAME(ADDRESS)`."""
    return hostname if address in ("", hostname) else f"{hostname}({address})"


def _own_partition(longest_check: int) -> str:
    """The PartitionName line of slurmfab's own jobs. `longest_check`: minutes that a job there may take."""
    values = {**OWN_PARTITION, "MaxTime": str(max(SHORTEST_LIMIT, longest_check))}
    return " ".join(assignment(key, value) for key, value in values.items())


def _partition_line(name: str, nodes: str, settings: Mapping[str, str]) -> str:
    """A PartitionName line; without the key Nodes for a partition without nodes."""
    values = {"PartitionName": name, **({"Nodes": nodes} if nodes else {}), **settings}
    return " ".join(assignment(key, value) for key, value in values.items())


def _memory_per_cpu(nodes: Iterable[Node], memory_margin: str) -> int:
    """The least memory per CPU of all nodes that are there in MiB, for DefMemPerCPU."""
    return max(1, min(filter(None, (memory_share(node, memory_margin) for node in nodes)), default=1))


class Switch(Protocol):
    """A switch, with the nodes or the switches that are connected to it (topology.conf(5))."""

    @property
    def name(self) -> str:
        """SwitchName."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """The compute nodes at it."""

    @property
    def switches(self) -> tuple[str, ...]:
        """The switches at it."""

    @property
    def speed(self) -> str:
        """LinkSpeed; empty for none."""


def topology_conf(switches: Iterable[Switch], nodes: frozenset[str]) -> str:
    """The text of topology.conf with known nodes, and switches that have some: slurmctld starts with no others."""
    members = {switch.name: tuple(node for node in switch.nodes if node in nodes) for switch in switches}
    below = {switch.name: switch.switches for switch in switches}
    used = {name for name, there in members.items() if there}
    while more := {name for name, inner in below.items() if name not in used and used.intersection(inner)}:
        used |= more
    lines = []
    for switch in switches:
        if switch.name in used:
            inner = tuple(name for name in switch.switches if name in used)
            values = {
                "SwitchName": switch.name,
                "Nodes": fold(members[switch.name]) if members[switch.name] else "",
                "Switches": fold(inner) if inner else "",
                "LinkSpeed": switch.speed,
            }
            lines.append(" ".join(assignment(key, value) for key, value in values.items() if value))
    return fill("topology.conf", {"lines": lines})
