"""Users' SSH from host to host without keys of their own: sshd believes the cluster's hosts (HostbasedAuthentication).

Only hosts whose keys are pinned are believed, each at its own addresses; root, slurm and munge never are. A host gets
the keys that it needs: as a client those of the hosts that let users in, and as one of these those of all clients too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from slurmfab.agent.core.resource import Resource
from slurmfab.agent.files.owned_files import OwnedFile
from slurmfab.agent.files.sshd_files import DROP_INS, SshdFiles
from slurmfab.plan.phases import ssh
from slurmfab.plan.phases.once import once
from slurmfab.plan.plan_input import PlanInput

OWNED = "user-ssh"
KNOWN_HOSTS = "/etc/ssh/ssh_known_hosts2"
"""A second file of known host keys for ssh and sshd (sshd(8)), beside the one that has slurmfab's block."""

CLIENT = "/etc/ssh/ssh_config.d/slurmfab-users.conf"
SERVER = f"{DROP_INS}/slurmfab-users.conf"
EQUIV = "/etc/ssh/shosts.equiv"
TARGETS = frozenset(("compute", "login"))
"""The roles of hosts that let users in."""

HEAD = "# Made by slurmfab from the cluster file; edits here are overwritten.\n"
PREFERRED = "ssh-ed25519"
"""The type of host key that suffices; the others only where a host has none of it."""

ACCEPTS = f"""{HEAD}IgnoreUserKnownHosts yes
Match User !root,!slurm,!munge,*
    HostbasedAuthentication yes
"""


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The files of a host that takes part; their removal where they are not wanted."""
    if plan_input.cluster.user_ssh == "hostbased" and is_client(plan_input, host):
        wanted = texts(plan_input)
        is_server = is_target(plan_input, host)
        known = wanted.target_keys + (wanted.other_keys if is_server else "")
        accepts = (OwnedFile(EQUIV, wanted.equiv), OwnedFile(SERVER, ACCEPTS)) if is_server else ()
        return (SshdFiles(OWNED, (OwnedFile(KNOWN_HOSTS, known), OwnedFile(CLIENT, wanted.client), *accepts)),)
    has_some = host in plan_input.facts and OWNED in plan_input.facts[host].owned
    return (SshdFiles(OWNED, ()),) if has_some else ()


def is_client(plan_input: PlanInput, host: str) -> bool:
    """Whether users work on a host, so that others believe it."""
    return not plan_input.cluster.is_for_database_alone(host)


def is_target(plan_input: PlanInput, host: str) -> bool:
    """Whether a host lets users in."""
    return not TARGETS.isdisjoint(plan_input.cluster.roles(host))


class Texts(NamedTuple):
    """The texts from which all hosts' files are made.

    Args:
        target_keys: known host keys of the hosts that let users in.
        other_keys: those of the other clients.
        client: settings of ssh.
        equiv: the hosts that sshd believes.
    """

    target_keys: str
    other_keys: str
    client: str
    equiv: str


@once
def texts(plan_input: PlanInput) -> Texts:
    """The known host keys, the client's settings, and the hosts that sshd believes."""
    spelled = {name: spellings(plan_input, name) for name in plan_input.members if is_client(plan_input, name)}
    targets = {name: names for name, names in spelled.items() if is_target(plan_input, name)}
    others = {name: names for name, names in spelled.items() if name not in targets}
    client = "".join(f"Host {' '.join(names)}\n    HostbasedAuthentication yes\n" for names in targets.values())
    equiv = "".join(f"{one}\n" for names in spelled.values() for one in names)
    known, rest = known_hosts(plan_input, targets), known_hosts(plan_input, others)
    return Texts(HEAD + known, rest, f"{HEAD}EnableSSHKeysign yes\n{client}", equiv)


def known_hosts(plan_input: PlanInput, spelled: Mapping[str, tuple[str, ...]]) -> str:
    """The lines with the host keys of these hosts.

    Args:
        plan_input: the plan's input.
        spelled: names and addresses by host.
    """
    return "".join(
        f"{','.join(names)} {kind} {key}\n"
        for name, names in spelled.items()
        for kind, key in host_keys(plan_input, name).items()
    )


def spellings(plan_input: PlanInput, name: str) -> tuple[str, ...]:
    """The names and addresses of a host, by which others may see its connections."""
    own = (*plan_input.names(name), plan_input.address(name), *ssh.sources(plan_input, name))
    shared = {*plan_input.cluster.slurm_ssh.also_from}
    return tuple(one for one in dict.fromkeys(own) if one not in shared)


def host_keys(plan_input: PlanInput, name: str) -> dict[str, str]:
    """The pinned host keys of a host that others need."""
    keys = dict(sorted(plan_input.host(name).host_keys.items()))
    return {PREFERRED: keys[PREFERRED]} if PREFERRED in keys else keys
