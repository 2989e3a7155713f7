"""Users' SSH from host to host without keys of their own: sshd believes the cluster's hosts (HostbasedAuthentication).

Only hosts whose keys are pinned are believed, each at its own addresses; root, slurm and munge never are.
"""

from __future__ import annotations

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
    roles = set(plan_input.cluster.roles(host))
    if plan_input.cluster.user_ssh == "hostbased" and roles != {"database"}:
        known, client, equiv = texts(plan_input)
        files = [OwnedFile(KNOWN_HOSTS, known), OwnedFile(CLIENT, client)]
        if roles & TARGETS:
            files += [OwnedFile(EQUIV, equiv), OwnedFile(SERVER, ACCEPTS)]
        return (SshdFiles(OWNED, tuple(files)),)
    has_some = host in plan_input.facts and OWNED in plan_input.facts[host].owned
    return (SshdFiles(OWNED, ()),) if has_some else ()


@once
def texts(plan_input: PlanInput) -> tuple[str, str, str]:
    """The known host keys, the client's settings, and the hosts that sshd believes: the same on all hosts."""
    spelled = {name: spellings(plan_input, name) for name in plan_input.members}
    known = "".join(
        f"{','.join(names)} {kind} {key}\n"
        for name, names in spelled.items()
        for kind, key in host_keys(plan_input, name).items()
    )
    all_names = [one for names in spelled.values() for one in names]
    client = "".join(f"Host {' '.join(names)}\n    HostbasedAuthentication yes\n" for names in spelled.values())
    return HEAD + known, f"{HEAD}EnableSSHKeysign yes\n{client}", "".join(f"{one}\n" for one in all_names)


def spellings(plan_input: PlanInput, name: str) -> tuple[str, ...]:
    """The names and addresses of a host, by which others may see its connections."""
    own = (*plan_input.names(name), plan_input.address(name), *ssh.sources(plan_input, name))
    shared = {*plan_input.cluster.slurm_ssh.also_from}
    return tuple(one for one in dict.fromkeys(own) if one not in shared)


def host_keys(plan_input: PlanInput, name: str) -> dict[str, str]:
    """The pinned host keys of a host that others need."""
    keys = dict(sorted(plan_input.host(name).host_keys.items()))
    return {PREFERRED: keys[PREFERRED]} if PREFERRED in keys else keys
