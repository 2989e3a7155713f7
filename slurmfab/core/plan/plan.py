"""The plan: which resources each host should have, phase by phase; made without contact to any host."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from slurmfab.core.plan.phases import (
    accounts,
    backups,
    configless,
    containers,
    daemons,
    database,
    directory,
    exports,
    files,
    firewall,
    former,
    gpu_checks,
    hosts_file,
    idle_gpus,
    jupyter,
    logins,
    mail,
    mig,
    modules,
    monitoring,
    mounts,
    munge,
    people,
    power,
    quotas,
    recovery,
    registry,
    rest,
    restarts,
    rpcbind,
    scripts,
    slurm_conf,
    ssh,
    user_ssh,
    user_tools,
    users,
)
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource

ALL, CONTROLLERS, DATABASE, SERVERS = "all", "controllers", "database", "servers"
"""What a phase may need: the earlier phases of all hosts, of the controllers, of slurmdbd's, or of `exports`' hosts."""

OWN: tuple[str, ...] = ()  # the needs of a phase that depends on the earlier phases of its own host alone


@dataclass(frozen=True)
class Phase:
    """One part of a deployment."""

    name: str
    # a pure function of plan input and host name; returns the host's resources, empty for none
    resources: Callable[[PlanInput, str], tuple[Resource, ...]]
    # whether it changes facts that other phases are planned from, such as installed versions and new keys; the facts
    # of the hosts are then read again
    prepares: bool = False
    controller_first: bool = False  # whether the other hosts wait until the primary controller has finished it
    # the hosts that have to be through with all earlier phases before any host begins this one
    needs: tuple[str, ...] = (ALL,)
    installs: bool = False  # whether it installs packages, which are sent to the hosts before
    # whether it changes who may log in, which another login proves, or else the host takes it back
    guards_logins: bool = False
    # whether a host that leaves the cluster gets it too, planned for a cluster file without optional keys: then each
    # of its resources is the removal of something
    taken_back: bool = False


PHASES = (
    Phase("users", users.resources, prepares=True, needs=OWN),
    Phase("people", people.resources, prepares=True, needs=OWN),
    Phase("packages", files.with_packages, prepares=True, needs=OWN, installs=True),
    Phase("directory", directory.resources, prepares=True, needs=OWN, guards_logins=True, taken_back=True),
    Phase("directory service", directory.service, prepares=True, needs=OWN, taken_back=True),
    Phase("ssh keys", ssh.keys, prepares=True, needs=OWN),
    Phase("munge key", munge.key, prepares=True, needs=OWN),
    Phase("drain for mig", mig.drained, prepares=True, needs=OWN),
    Phase("mig", mig.resources, prepares=True, needs=(CONTROLLERS,), taken_back=True),
    Phase("token key", rest.key, prepares=True, needs=OWN),
    Phase("registry certificate", registry.certificate, prepares=True, needs=OWN),
    Phase("firewall", firewall.resources, needs=OWN, guards_logins=True, taken_back=True),
    Phase("firewall zone", firewall.zone, needs=OWN, taken_back=True),
    Phase("hosts file", hosts_file.resources, needs=OWN),
    Phase("files", files.resources, needs=OWN, taken_back=True),
    Phase("connections", firewall.connections),
    Phase("rpcbind", rpcbind.resources, needs=OWN, taken_back=True),
    Phase("exports", exports.resources, needs=OWN),
    Phase("mounts", mounts.resources, needs=(SERVERS,), taken_back=True),
    Phase("homes on servers", people.served_homes, needs=OWN),
    Phase("homes", people.homes, needs=(SERVERS,)),
    Phase("registry", registry.resources, needs=OWN, taken_back=True),
    Phase("quotas", quotas.resources, needs=OWN),
    Phase("sudo", people.sudo, needs=OWN, taken_back=True),
    Phase("login hosts", logins.login_hosts, needs=OWN, taken_back=True),
    Phase("ssh", ssh.trust, needs=OWN),
    Phase("user ssh", user_ssh.resources, needs=OWN, taken_back=True),
    Phase("daemon units", restarts.resources, needs=OWN),
    Phase("recovery", recovery.resources, needs=OWN, taken_back=True),
    Phase("munge", munge.resources, needs=OWN),
    Phase("token keys", rest.keys, needs=OWN),
    Phase("database", database.resources, needs=OWN),
    Phase("accounts", accounts.resources, needs=(DATABASE,)),
    Phase("former people", people.forgotten, needs=(CONTROLLERS,)),
    Phase("scripts", scripts.resources, needs=OWN),
    Phase("power programs", power.resources, needs=OWN),
    Phase("mail", mail.resources, needs=OWN),
    Phase("modules", modules.resources, needs=OWN, taken_back=True),
    Phase("container users", containers.of_users, needs=OWN, taken_back=True),
    Phase("containers", containers.resources, needs=OWN, taken_back=True),
    Phase("user tools", user_tools.resources, needs=OWN, taken_back=True),
    Phase("directories", slurm_conf.directories, needs=OWN),
    Phase("slurmctld stop", daemons.stop),
    Phase("slurm.conf", slurm_conf.resources, controller_first=True, needs=(CONTROLLERS, DATABASE)),
    Phase("local files", configless.given_up, needs=OWN),
    Phase("slurmctld", daemons.slurmctld, controller_first=True),
    Phase("slurmd", daemons.slurmd, needs=(CONTROLLERS,)),
    Phase("slurmctld start", daemons.start, controller_first=True),
    Phase("limits", accounts.rest),
    Phase("new nodes", daemons.gate),
    Phase("new slurmd", daemons.new_slurmd),
    Phase("nodes", daemons.nodes),
    Phase("node logins", logins.node_logins, guards_logins=True, taken_back=True),
    Phase("former scripts", scripts.gone, taken_back=True),
    Phase("former exports", exports.gone),
    Phase("rest", rest.resources, taken_back=True),
    Phase("notebooks", jupyter.resources, taken_back=True),
    Phase("monitoring", monitoring.resources, taken_back=True),
    Phase("former software", former.resources, taken_back=True),
    Phase("backups", backups.resources),
    Phase("gpu checks", gpu_checks.resources),
    Phase("idle gpus", idle_gpus.resources, taken_back=True),
    Phase("power", power.timer, taken_back=True),
    Phase("carried files", configless.carried),
    Phase("lost jobs", daemons.lost_jobs),
)
"""All phases of a deployment, in the order in which each host has them.

A host waits only where a phase needs others, so one that is silent holds up none whose work is its own. slurmctld stops
only when all else is done everywhere, so that it is away for as short as possible. What comes after slurmd waits for
all hosts: if slurmd starts on none with the new files, the earlier ones are put back, and with them what they name.
"""


@dataclass(frozen=True)
class PlannedPhase:
    """A phase with its planned resources."""

    phase: Phase
    # resources by host, in the cluster's order; a host without resources in this phase is missing
    resources: Mapping[str, tuple[Resource, ...]]


@dataclass(frozen=True)
class Plan:
    """The phases of a deployment with their resources, in the order in which they run."""

    phases: tuple[PlannedPhase, ...]

    def of_host(self, host: str) -> tuple[tuple[Phase, Resource], ...]:
        """The resources of one host in order, each with its phase."""
        return tuple(
            (planned.phase, resource) for planned in self.phases for resource in planned.resources.get(host, ())
        )

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts with resources in any phase, each once."""
        return tuple(dict.fromkeys(host for planned in self.phases for host in planned.resources))


def make_plan(plan_input: PlanInput, hosts: Iterable[str], phases: Iterable[Phase] = PHASES) -> Plan:
    """Make the plan of these phases for these hosts.

    Args:
        hosts: the hosts to plan for, in the order of the plan; each must be in `plan_input.facts`.
        phases: the phases in the order in which they run; by default all phases of a deployment.
    """
    names = tuple(hosts)
    return Plan(
        tuple(
            PlannedPhase(phase, {host: wanted for host in names if (wanted := phase.resources(plan_input, host))})
            for phase in phases
        )
    )
