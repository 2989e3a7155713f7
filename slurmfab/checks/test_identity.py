"""Identity: the same users with the same numbers everywhere, and names that everybody understands alike."""

from __future__ import annotations

import ipaddress

from slurmfab.checks.hosts import CheckedHost
from slurmfab.checks.wanted import deploy
from slurmfab.cluster import Cluster
from slurmfab.lock import Lock

ACCOUNTS = "getent passwd slurm munge; echo ----; getent group slurm munge; :"
"""Prints the users and the groups, as far as there are such."""

RESOLVE = 'for name in {names}; do echo $name $(getent ahosts $name | cut -d " " -f 1 | sort -u); done'


def test_user_has_its_ids(host: CheckedHost, account: str, lock: Lock) -> None:
    """{account} has the cluster's UID and GID"""
    wanted = lock.ids[f"{account}.uid"], lock.ids[f"{account}.gid"]
    users, groups = ids_on(host)
    assert account in users, f"there is no user {account}. Repair: {deploy(host.name)}"
    assert account in groups, f"there is no group {account}. Repair: {deploy(host.name)}"
    actual, gid = users[account], groups[account]
    assert actual == wanted, (
        f"{account} has UID and GID {actual[0]} and {actual[1]} here, but {wanted[0]} and {wanted[1]} in the cluster. "
        f"Repair: stop what runs as {account} there, give it and its files these numbers (usermod, groupmod, chown), "
        f"then {deploy(host.name)}"
    )
    assert gid == wanted[1], (
        f"the group {account} has the GID {gid} here, but {wanted[1]} in the cluster. "
        f"Repair: give it this number (groupmod), then {deploy(host.name)}"
    )


def ids_on(host: CheckedHost) -> tuple[dict[str, tuple[int, int]], dict[str, int]]:
    """UID and primary GID of Slurm's and munge's users, and the GIDs of their groups, by name; of those that exist."""
    users, groups = host.as_found.ask(ACCOUNTS).split("----")
    return (
        {name: (int(uid), int(gid)) for name, _, uid, gid, *_ in (line.split(":") for line in users.splitlines())},
        {name: int(gid) for name, _, gid, *_ in (line.split(":") for line in groups.split())},
    )


def test_names_resolve(host: CheckedHost, cluster: Cluster, lock: Lock) -> None:
    """the cluster's names lead to the cluster's addresses

    A host that has never answered is nowhere yet.
    """
    names = tuple(name for name in cluster.hosts if name in lock.hosts and lock.hosts[name].hostname)
    lines = host.ask(RESOLVE.format(names=" ".join(names))).splitlines()
    found = {words[0]: words[1:] for words in map(str.split, lines)}
    trouble = (
        misled(name, cluster.addresses.get(name, ""), found.get(name, []), is_own=name == host.name) for name in names
    )
    wrong = list(filter(None, trouble))
    repair = deploy(host.name) if cluster.hosts_file else "put DNS or /etc/hosts right"
    assert not wrong, f"{'; '.join(wrong[:3])}. Repair: {repair}"


def misled(name: str, address: str, found: list[str], *, is_own: bool) -> str:
    """What is wrong with the addresses that a name leads to; empty when nothing is.

    Args:
        name: the name.
        address: its address in the cluster file, empty or a DNS name where any address will do.
        found: what it leads to.
        is_own: whether the host asks for itself: Debian lets that lead to 127.0.1.1, which does no harm.
    """
    if not found:
        return f"{name} leads nowhere"
    if address and is_numeric(address) and not is_own and not {same(one) for one in found} & {same(address)}:
        return f"{name} leads to {', '.join(found)} instead of {address}"
    return ""


def is_numeric(address: str) -> bool:
    """Whether this is an IP address and no DNS name."""
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False
    return True


def same(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | str:
    """An address in the one form that can be compared; a zone behind it is part of it."""
    return ipaddress.ip_address(address) if is_numeric(address) else address
