"""The plan: which resources each host should have, phase by phase; made without asking anybody."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from slurmfab.agent.resource import Resource
from slurmfab.phases import (
    accounts,
    backups,
    configless,
    daemons,
    database,
    gpu_checks,
    hosts_file,
    munge,
    packages,
    people,
    scripts,
    slurm_conf,
    ssh,
    users,
)
from slurmfab.situation import Situation


@dataclass(frozen=True)
class Phase:
    """One part of a deployment.

    Args:
        name: how reports call it.
        resources: what a host should have of it; a pure function.
        prepares: whether the plan of other phases rests on facts that this one changes, such as an installed version
            or a key that was made; hosts are asked again after it.
        controller_first: whether the other hosts wait until the controller has done it.
    """

    name: str
    resources: Callable[[Situation, str], tuple[Resource, ...]]
    prepares: bool = False
    controller_first: bool = False


PHASES = (
    Phase("users", users.resources, prepares=True),
    Phase("people", people.resources, prepares=True),
    Phase("packages", packages.resources, prepares=True),
    Phase("ssh keys", ssh.keys, prepares=True),
    Phase("munge key", munge.key, prepares=True),
    Phase("hosts file", hosts_file.resources),
    Phase("sudo", people.sudo),
    Phase("ssh", ssh.trust),
    Phase("munge", munge.resources),
    Phase("database", database.resources),
    Phase("accounts", accounts.resources),
    Phase("former people", people.forgotten),
    Phase("scripts", scripts.resources),
    Phase("slurmctld stop", daemons.stop),
    Phase("slurm.conf", slurm_conf.resources, controller_first=True),
    Phase("local files", configless.given_up),
    Phase("slurmctld", daemons.slurmctld, controller_first=True),
    Phase("slurmd", daemons.slurmd),
    Phase("slurmctld start", daemons.start, controller_first=True),
    Phase("limits", accounts.rest),
    Phase("new nodes", daemons.gate),
    Phase("new slurmd", daemons.new_slurmd),
    Phase("nodes", daemons.nodes),
    Phase("former scripts", scripts.gone),
    Phase("backups", backups.resources),
    Phase("gpu checks", gpu_checks.resources),
    Phase("carried files", configless.carried),
)
"""The order of a deployment."""


@dataclass(frozen=True)
class PlannedPhase:
    """A phase with the resources of every host that has any in it, in the cluster's order."""

    phase: Phase
    resources: Mapping[str, tuple[Resource, ...]]


@dataclass(frozen=True)
class Plan:
    """What a deployment will see to, in order."""

    phases: tuple[PlannedPhase, ...]

    def of_host(self, host: str) -> tuple[tuple[Phase, Resource], ...]:
        """All resources of a host, each with its phase."""
        return tuple(
            (planned.phase, resource) for planned in self.phases for resource in planned.resources.get(host, ())
        )

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that the plan is about, in the cluster's order."""
        return tuple(dict.fromkeys(host for planned in self.phases for host in planned.resources))


def make_plan(situation: Situation, hosts: Iterable[str], phases: Iterable[Phase] = PHASES) -> Plan:
    """The resources of all phases for these hosts.

    Args:
        situation: what is wanted and known.
        hosts: those to plan for; they must be in the situation's facts.
        phases: in their order; a deployment's when left out.
    """
    names = tuple(hosts)
    return Plan(
        tuple(
            PlannedPhase(phase, {host: wanted for host in names if (wanted := phase.resources(situation, host))})
            for phase in phases
        )
    )
