"""Users' SSH from host to host without keys of their own: sshd believes the cluster's hosts (HostbasedAuthentication).

Only hosts whose keys are pinned are believed, each at its own addresses, and never about users who are or may become
root on the host that is asked. Hosts on which jobs run are believed only by hosts that are compute nodes and nothing
else: their root can start job steps of anybody there anyway. A host gets the keys that it needs: as a client those of
the hosts that let users in, and as one of these those of all clients too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from slurmfab.cluster.inventory.rules.people import POWERFUL_GROUPS
from slurmfab.core.plan.phases import logins
from slurmfab.core.plan.phases.capability import HEAD, once
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.hostbased_logins import REFUSED_HERE, HostbasedLogins
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.files.sshd_files import DROP_INS, SshdFiles

OWNED = "user-ssh"
KNOWN_HOSTS = "/etc/ssh/ssh_known_hosts2"
"""A second file of known host keys for ssh and sshd (sshd(8)), beside the one that has slurmfab's block."""

CLIENT = "/etc/ssh/ssh_config.d/slurmfab-users.conf"
SERVER = f"{DROP_INS}/slurmfab-users.conf"
EQUIV = "/etc/ssh/shosts.equiv"
TARGETS = frozenset(("compute", "login"))  # the roles of hosts that let users in

PREFERRED = "ssh-ed25519"  # the type of host key that suffices; the others only where a host has none of it

REFUSES = "    HostbasedAuthentication no\n"
ACCEPTS = f"""{HEAD}# The first block that a user is in decides.
IgnoreUserKnownHosts yes
Match Group {",".join(sorted(POWERFUL_GROUPS))}
{REFUSES}Match User {{users}}
{REFUSES}{REFUSED_HERE}Match User *
    HostbasedAuthentication yes
"""


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The files of a host that takes part; their removal where they are not wanted."""
    if plan_input.cluster.user_ssh == "hostbased" and is_client(plan_input, host):
        wanted = texts(plan_input)
        is_server, is_node = is_target(plan_input, host), computes(plan_input, host)
        known = wanted.target_keys + (wanted.other_keys if is_server else "")
        equiv = wanted.nodes_equiv if is_node_alone(plan_input, host) else wanted.equiv
        believes = (OwnedFile(EQUIV, equiv), OwnedFile(SERVER, accepts(plan_input))) if is_server and equiv else ()
        client = OwnedFile(CLIENT, wanted.nodes_client if is_node else wanted.client)
        return (HostbasedLogins(OWNED, (OwnedFile(KNOWN_HOSTS, known), client, *believes)),)
    return (SshdFiles(OWNED, ()),) if plan_input.owns(host, OWNED) else ()


@once
def accepts(plan_input: PlanInput) -> str:
    """The settings of sshd on a host that lets users in, to which each host adds its own names."""
    return ACCEPTS.format(users=",".join(powerful(plan_input)))


@once
def powerful(plan_input: PlanInput) -> tuple[str, ...]:
    """The users who are or may become root on some host by the cluster file: by themselves, by sudo, or by docker."""
    containers = plan_input.cluster.containers
    docker = containers.docker.users if containers else ()
    return tuple(sorted({*logins.exempt(plan_input), "munge", plan_input.cluster.slurm_user, *docker}))


def is_client(plan_input: PlanInput, host: str) -> bool:
    """Whether users work on a host, so that others believe it."""
    return not plan_input.cluster.is_for_database_alone(host)


def is_target(plan_input: PlanInput, host: str) -> bool:
    """Whether a host lets users in."""
    return not TARGETS.isdisjoint(plan_input.cluster.roles(host))


def computes(plan_input: PlanInput, host: str) -> bool:
    """Whether jobs run on a host, so that it is believed by compute nodes alone."""
    return "compute" in plan_input.cluster.roles(host)


def is_node_alone(plan_input: PlanInput, host: str) -> bool:
    """Whether a host is a compute node and nothing else, so that it believes others of its kind."""
    return plan_input.cluster.roles(host) == ("compute",)


class Texts(NamedTuple):
    """The texts from which all hosts' files are made."""

    target_keys: str  # known host keys of the hosts that let users in
    other_keys: str  # those of the other clients
    client: str  # settings of ssh on hosts without jobs
    nodes_client: str  # those on hosts with jobs
    equiv: str  # the hosts without jobs, which every sshd believes
    nodes_equiv: str  # all hosts, which sshd of compute nodes believes


@once
def texts(plan_input: PlanInput) -> Texts:
    """The known host keys, the clients' settings, and the hosts that sshd believes."""
    spelled = {name: spellings(plan_input, name) for name in plan_input.members if is_client(plan_input, name)}
    targets = {name: names for name, names in spelled.items() if is_target(plan_input, name)}
    others = {name: names for name, names in spelled.items() if name not in targets}
    without_jobs = {name: names for name, names in spelled.items() if not computes(plan_input, name)}
    for_nodes = {name: names for name, names in targets.items() if is_node_alone(plan_input, name)}
    return Texts(
        HEAD + known_hosts(plan_input, targets),
        known_hosts(plan_input, others),
        client_settings(targets),
        client_settings(for_nodes),
        equivalents(without_jobs),
        equivalents(spelled),
    )


def client_settings(spelled: Mapping[str, tuple[str, ...]]) -> str:
    """Settings of ssh with which a host vouches for its users to these hosts, of which the names are given."""
    blocks = (f"Host {' '.join(names)}\n    HostbasedAuthentication yes\n" for names in spelled.values())
    return f"{HEAD}EnableSSHKeysign yes\n{''.join(blocks)}"


def equivalents(spelled: Mapping[str, tuple[str, ...]]) -> str:
    """The lines of shosts.equiv for these hosts, of which the names are given."""
    return "".join(f"{one}\n" for names in spelled.values() for one in names)


def known_hosts(plan_input: PlanInput, spelled: Mapping[str, tuple[str, ...]]) -> str:
    """The lines with the host keys of these hosts. `spelled`: names and addresses by host."""
    return "".join(
        f"{','.join(names)} {kind} {key}\n"
        for name, names in spelled.items()
        for kind, key in host_keys(plan_input, name).items()
    )


def spellings(plan_input: PlanInput, name: str) -> tuple[str, ...]:
    """The names and addresses of a host, by which others may see its connections."""
    own = (*plan_input.names(name), plan_input.address(name), *plan_input.trusted_addresses(name))
    shared = {*plan_input.cluster.slurm_ssh.also_from}
    return tuple(one for one in dict.fromkeys(own) if one not in shared)


def host_keys(plan_input: PlanInput, name: str) -> dict[str, str]:
    """The pinned host keys of a host that others need."""
    keys = dict(sorted(plan_input.host(name).host_keys.items()))
    return {PREFERRED: keys[PREFERRED]} if PREFERRED in keys else keys
