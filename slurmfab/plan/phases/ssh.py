"""Passwordless SSH for the slurm user, in both directions between each controller and every other host."""

from __future__ import annotations

from slurmfab.agent.core.resource import Resource
from slurmfab.agent.files.block import Block
from slurmfab.agent.identities.ssh_key import SshKey
from slurmfab.paths import SLURM_HOME
from slurmfab.plan.phases.once import once
from slurmfab.plan.plan_input import PlanInput

GRANTED = "restrict,pty"
"""Options of a key in authorized_keys (sshd(8)): login and commands; no forwarding of ports, agents or X11."""


def keys(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:  # noqa: ARG001 - the same everywhere
    """The slurm user's key pair, generated on the host; the private key stays there."""
    return (SshKey("slurm", SLURM_HOME),)


def trust(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The keys that may log in as slurm on the host, and the known host keys."""
    partners = others(plan_input, host)
    host_keys = known_all(plan_input, partners) + known(plan_input, host)
    return let_in(plan_input, partners), Block("/etc/ssh/ssh_known_hosts", "host keys", host_keys)


@once
def let_in(plan_input: PlanInput, partners: tuple[str, ...]) -> Block:
    """The authorized_keys block with the keys of these hosts' slurm users."""
    return Block(
        f"{SLURM_HOME}/.ssh/authorized_keys",
        "slurm keys",
        "".join(authorized(plan_input, name) for name in partners),
        owner="slurm",
        group="slurm",
        mode=0o600,
    )


@once
def known_all(plan_input: PlanInput, partners: tuple[str, ...]) -> str:
    """The ssh_known_hosts lines of these hosts."""
    return "".join(known(plan_input, name) for name in partners)


def others(plan_input: PlanInput, host: str) -> tuple[str, ...]:
    """The hosts with SSH to and from this host: all others for a controller, the controllers for any other host."""
    if host in plan_input.cluster.controllers:
        return tuple(name for name in plan_input.members if name != host)
    return tuple(name for name in plan_input.cluster.controllers if name in plan_input.members)


def authorized(plan_input: PlanInput, name: str) -> str:
    """The authorized_keys line of a host's slurm user; a comment while its key does not exist yet."""
    key = plan_input.public_key(name)
    return f"{GRANTED} {key}\n" if key else f"# the key of {name} is still to be made\n"


def known(plan_input: PlanInput, name: str) -> str:
    """The ssh_known_hosts lines of a host, one per type of key, with its names and address."""
    spellings = ",".join(dict.fromkeys((*plan_input.names(name), plan_input.address(name))))
    return "".join(f"{spellings} {kind} {key}\n" for kind, key in sorted(plan_input.host(name).host_keys.items()))
