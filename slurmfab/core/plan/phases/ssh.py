"""Passwordless SSH for slurm between controllers and other hosts, each key from its host's addresses alone."""

from __future__ import annotations

from functools import cache

from slurmfab.base.paths import SLURM_HOME
from slurmfab.cluster.slurm.platform import DNF
from slurmfab.core.plan.phases.capability import once
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.block import Block
from slurmfab.on_hosts.agent.files.selinux_settings import SelinuxSettings
from slurmfab.on_hosts.agent.identities.logins import SshLogin
from slurmfab.on_hosts.agent.identities.ssh_key import SshKey

GRANTED = "restrict"
"""Options of a key in authorized_keys (sshd(8)): commands alone; no terminal, no forwarding of ports, agents or X11."""


SSH_TYPE = "ssh_home_t"  # the type of files that SELinux lets sshd read as a user's keys (ssh_selinux(8))
SEMANAGE = "policycoreutils-python-utils"  # the package of semanage(8), which few hosts have by themselves


def keys(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The slurm user's key pair, generated on the host; the private key stays there."""
    has_logins = plan_input.cluster.slurm_ssh.logins != "none"
    known = (selinux(plan_input),) if plan_input.platform_of(host).manager == DNF else ()
    return (*known, *((SshKey("slurm", SLURM_HOME),) if has_logins else ()))


@once
def selinux(plan_input: PlanInput) -> SelinuxSettings:
    """What SELinux has to know before keys are written, on the systems that have it."""
    cluster = plan_input.cluster
    types = ((f"{SLURM_HOME}/.ssh", SSH_TYPE),) if cluster.slurm_ssh.logins != "none" else ()
    users = cluster.users if cluster.unix_users else ()
    homes = {user.home_directory.rpartition("/")[0] for user in users} | {cluster.homes or ""}
    return SelinuxSettings(types, tuple(sorted(homes - {""})))


def packages(plan_input: PlanInput, host: str) -> tuple[str, ...]:
    """The package that teaches SELinux where slurm's keys are, on a host that enforces it."""
    enforces = host in plan_input.facts and plan_input.facts[host].enforces_selinux
    is_theirs = plan_input.platform_of(host).manager == DNF
    return (SEMANAGE,) if enforces and is_theirs and selinux(plan_input).types else ()


def trust(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The keys that may log in as slurm on the host, that nothing else keeps slurm out, and the known host keys.

    A cluster whose hosts neither log in to each other by slurmfab nor have names by it gets no host keys either.
    """
    cluster = plan_input.cluster
    names_nothing = cluster.slurm_ssh.logins == "none" and cluster.user_ssh == "own" and not cluster.hosts_file
    known = known_all(plan_input, others(plan_input, host)) + known_hosts_lines(plan_input, host)
    host_keys = "" if names_nothing else known
    partners = origins(plan_input, host)
    return (
        let_in(plan_input, partners),
        Block("/etc/ssh/ssh_known_hosts", "host keys", host_keys, strict=True),
        *((login(plan_input.address(partners[0])),) if partners else ()),
    )


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
        strict=True,
    )


@cache
def login(origin: str) -> SshLogin:
    """The slurm user's login from an address."""
    return SshLogin("slurm", origin)


def origins(plan_input: PlanInput, host: str) -> tuple[str, ...]:
    """The hosts from which the slurm user may log in on this one."""
    partners, logins = others(plan_input, host), plan_input.cluster.slurm_ssh.logins
    if logins == "from_controllers":
        return tuple(name for name in partners if name in plan_input.cluster.controllers)
    return partners if logins == "both" else ()


@once
def known_all(plan_input: PlanInput, partners: tuple[str, ...]) -> str:
    """The ssh_known_hosts lines of these hosts."""
    return "".join(known_hosts_lines(plan_input, name) for name in partners)


def others(plan_input: PlanInput, host: str) -> tuple[str, ...]:
    """The hosts that can have SSH to or from this host: all others for a controller, the controllers for the others."""
    if host in plan_input.cluster.controllers:
        return tuple(name for name in plan_input.members if name != host)
    return tuple(name for name in plan_input.cluster.controllers if name in plan_input.members)


def authorized(plan_input: PlanInput, name: str) -> str:
    """The authorized_keys line of a host's slurm user; a comment while its key or its addresses are not known yet."""
    key, from_here = plan_input.public_key(name), sources(plan_input, name)
    if not key:
        return f"# the key of {name} is still to be made\n"
    if not from_here:
        return f"# no address of {name} is known that it can be trusted at\n"
    return f'{GRANTED},from="{",".join(from_here)}" {key}\n'


def sources(plan_input: PlanInput, name: str) -> tuple[str, ...]:
    """The addresses, with those for NAT, from which a host's key is accepted; empty for a host without any."""
    return tuple(dict.fromkeys((*plan_input.trusted_addresses(name), *plan_input.cluster.slurm_ssh.also_from)))


def known_hosts_lines(plan_input: PlanInput, name: str) -> str:
    """The ssh_known_hosts lines of a host, one per type of key, with its names and address."""
    spellings = ",".join(dict.fromkeys((*plan_input.names(name), plan_input.address(name))))
    return "".join(f"{spellings} {kind} {key}\n" for kind, key in sorted(plan_input.host(name).host_keys.items()))
