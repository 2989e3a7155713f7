"""Checks of users: the same UIDs and GIDs on all hosts, homes that they own, and login shells."""

from __future__ import annotations

import re

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.inventory.public_keys import kind_of
from slurmfab.commands.checks.applies import DoesNotApply
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.wanted import deploy
from slurmfab.on_hosts.agent.identities.logins import CRYPTO_POLICY

# Clusters have thousands of users, so one command tells all of them.
USERS = 'for name in {names}; do getent passwd "$name"; done; true'
HOMES = "stat --format='%u %a %n' -- {homes} 2>/dev/null; true"
OTHERS_WRITE = 0o022
ACCEPTED = (
    "sshd -T 2>/dev/null | grep -E '^(pubkeyaccepted|requiredrsasize|rsaminsize)'; "
    f"sed -n 's/^[^#[:space:]]/policy &/p' {CRYPTO_POLICY} 2>/dev/null; :"
)
"""Prints which keys sshd accepts, and the policy of the distribution that says so, if any (crypto-policies(7))."""

TYPES = re.compile(r"^pubkeyaccepted(?:algorithms|keytypes) (\S+)$", re.MULTILINE)
SMALLEST = re.compile(r"^(?:requiredrsasize|rsaminsize) (\d{1,6})$", re.MULTILINE)  # the second on release 9
POLICY = re.compile(r"^policy (\S{1,100})$", re.MULTILINE)
OF_RSA = {"rsa-sha2-256", "rsa-sha2-512", "ssh-rsa"}  # how a key of the type ssh-rsa signs (RFC 8332)
EXAMPLES = ("ssh-ed25519", "ecdsa-sha2-nistp256")
TOLD = 3  # how many users or files a message names at most


def test_users_have_their_numbers(
    with_people: CheckedHost, controller: CheckedHost, cluster: Cluster, lock: Lock
) -> None:
    """users have the cluster's UIDs and GIDs

    If a directory service has the users, the hosts are compared with the controller.
    """
    names = [user.name for user in cluster.users]
    there = numbers(with_people, names)
    if cluster.unix_users:
        wanted = {
            name: (lock.ids[f"{name}.uid"], lock.ids[f"{name}.gid"]) for name in names if f"{name}.uid" in lock.ids
        }
        repair = deploy(with_people.name)
    else:
        wanted = numbers(controller, names)
        repair = "check the directory service there (sssd, nslcd), for example: sss_cache -E"
    missing = [name for name in names if name not in there]
    assert not missing, f"there is no user {', '.join(missing[:TOLD])}. Repair: {repair}"
    wrong = [
        f"{name} has UID and GID {there[name][0]} and {there[name][1]}, not {uid} and {gid}"
        for name, (uid, gid) in wanted.items()
        if there[name] != (uid, gid)
    ]
    assert not wrong, f"{'; '.join(wrong[:TOLD])}. Repair: usermod, groupmod and chown there, then {repair}"


def test_homes_are_their_users(with_local_people: CheckedHost, cluster: Cluster, lock: Lock) -> None:
    """users own their homes, and others cannot write to them

    sshd rejects the key of a user if others can write to the user's home (sshd_config(5), StrictModes).
    """
    homes = {user.home_directory: user.name for user in cluster.users}
    lines = with_local_people.ask(HOMES.format(homes=" ".join(homes))).splitlines()
    found = {path: (int(uid), int(mode, 8)) for uid, mode, path in (line.split(" ", 2) for line in lines)}
    missing = [home for home in homes if home not in found]
    assert not missing, f"there is no {', '.join(missing[:TOLD])}. Repair: {deploy(with_local_people.name)}"
    foreign = [
        f"{home} belongs to UID {found[home][0]} instead of {name}"
        for home, name in homes.items()
        if found[home][0] != lock.ids.get(f"{name}.uid", found[home][0])
    ]
    assert not foreign, f"{'; '.join(foreign[:TOLD])}. Repair: chown -R there, if the files in it are the user's"
    open_ones = [home for home in homes if found[home][1] & OTHERS_WRITE]
    assert not open_ones, (
        f"others can write to {', '.join(open_ones[:TOLD])}, so sshd rejects the SSH keys of these users. "
        f"Repair: chmod go-w {open_ones[0]}"
    )


def test_shells_are_there(with_local_people: CheckedHost, cluster: Cluster) -> None:
    """the login shells of users are installed"""
    shells = dict.fromkeys(user.shell for user in cluster.users)
    missing = [shell for shell in shells if not with_local_people.file(shell).is_executable]
    users = ", ".join([user.name for user in cluster.users if user.shell in missing][:TOLD])
    assert not missing, (
        f"there is no {', '.join(missing)}, so {users} cannot log in. Repair: install it, for example with apt"
    )


def test_keys_are_accepted(with_local_people: CheckedHost, cluster: Cluster) -> None:
    """sshd accepts the SSH keys that users have in the cluster file"""
    keys = {kind_of(key): user.name for user in cluster.users for key in user.keys}
    if not keys:
        raise DoesNotApply("no user has keys")
    answer = str(with_local_people.as_found.run(ACCEPTED).stdout)
    accepted, smallest = TYPES.search(answer), SMALLEST.search(answer)
    if accepted is None:
        return
    known, bits = {*accepted[1].split(",")}, int(smallest[1]) if smallest else 0
    wrong = [f"{refused}, as {user} has" for one, user in keys.items() if (refused := refusal(*one, known, bits))]
    policy = POLICY.search(answer)
    by = f" (crypto-policy {policy[1]})" if policy else ""
    assert not wrong, (
        f"sshd accepts {'; '.join(wrong[:TOLD])}{by}. Repair: keys of another type in the cluster "
        f"file, such as {min(known & {*EXAMPLES}, default='those that sshd -T names')}"
    )


def refusal(kind: str, size: int, known: set[str], bits: int) -> str:
    """What sshd accepts none of, such as `no keys of the type ssh-rsa`; empty if it accepts a key.

    Args:
        size: bits of an RSA key; 0 for others.
        known: the signatures that it accepts.
        bits: of the smallest RSA key that it accepts.
    """
    if not known & (OF_RSA if kind == "ssh-rsa" else {kind}):
        return f"no keys of the type {kind}"
    return f"no RSA keys of less than {bits} bits" if 0 < size < bits else ""


def numbers(host: CheckedHost, names: list[str]) -> dict[str, tuple[int, int]]:
    """UID and primary GID of the users that exist on a host, by name."""
    lines = (line.split(":") for line in host.ask(USERS.format(names=" ".join(names))).split("\n"))
    return {fields[0]: (int(fields[2]), int(fields[3])) for fields in lines if fields[0] in names and len(fields) > 3}
