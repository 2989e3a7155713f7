"""Passwordless SSH for the slurm user, in both directions between each controller and every other host."""

from __future__ import annotations

from slurmfab.agent.block import Block
from slurmfab.agent.resource import Resource
from slurmfab.agent.ssh_key import SshKey
from slurmfab.phases.once import once
from slurmfab.situation import SLURM_HOME, Situation

GRANTED = "restrict,pty"
"""What a key may do (sshd(8), AUTHORIZED_KEYS): log in and run commands; no forwarding of ports, agents or X11."""


def keys(situation: Situation, host: str) -> tuple[Resource, ...]:  # noqa: ARG001 - the same everywhere
    """The slurm user's key pair, made on the host, where the private half stays."""
    return (SshKey("slurm", SLURM_HOME),)


def trust(situation: Situation, host: str) -> tuple[Resource, ...]:
    """Whom the host lets in as slurm, and which host keys it expects from the others."""
    partners = others(situation, host)
    host_keys = known_all(situation, partners) + known(situation, host)
    return let_in(situation, partners), Block("/etc/ssh/ssh_known_hosts", "host keys", host_keys)


@once
def let_in(situation: Situation, partners: tuple[str, ...]) -> Block:
    """The keys of these hosts' slurm users, which may log in."""
    return Block(
        f"{SLURM_HOME}/.ssh/authorized_keys",
        "slurm keys",
        "".join(authorized(situation, name) for name in partners),
        owner="slurm",
        group="slurm",
        mode=0o600,
    )


@once
def known_all(situation: Situation, partners: tuple[str, ...]) -> str:
    """The ssh_known_hosts lines of these hosts."""
    return "".join(known(situation, name) for name in partners)


def others(situation: Situation, host: str) -> tuple[str, ...]:
    """The hosts that a host exchanges logins with: a controller with all, the others with the controllers."""
    if host in situation.cluster.controllers:
        return tuple(name for name in situation.members if name != host)
    return tuple(name for name in situation.cluster.controllers if name in situation.members)


def authorized(situation: Situation, name: str) -> str:
    """The line that lets another host's slurm user in; while its key is still to be made, a word about that."""
    key = situation.public_key(name)
    return f"{GRANTED} {key}\n" if key else f"# the key of {name} is still to be made\n"


def known(situation: Situation, name: str) -> str:
    """The ssh_known_hosts lines of a host: its names and address, one line per type of key."""
    spellings = ",".join(dict.fromkeys((*situation.names(name), situation.address(name))))
    return "".join(f"{spellings} {kind} {key}\n" for kind, key in sorted(situation.host(name).host_keys.items()))
