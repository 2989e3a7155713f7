"""Checks that slurm and munge have the same IDs on all hosts, that hosts keep their names, and that names resolve."""

from __future__ import annotations

from collections.abc import Mapping

from slurmfab.base.ip_addresses import NO_ADDRESS, Address, family, parsed
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.checks.applies import DoesNotApply
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.test_system import closed_on_the_way
from slurmfab.commands.checks.wanted import deploy

HOSTS = "/etc/hosts"
MOVE_IDS = f"{FAB} deploy --move-ids, which changes the owner of its files, too"
"""The repair of other numbers; a deployment changes them only if it is told to."""

RESOLVE = (
    "runuser -u nobody -- sh -c "
    "'for name in {names}; do echo $name $(getent ahosts $name | cut -d \" \" -f 1 | sort -u); done'"
)
"""Prints each name with the addresses to which it resolves for ordinary users, as whom jobs run."""


def test_user_has_its_ids(host: CheckedHost, account: str, lock: Lock) -> None:
    """{account} has the cluster's UID and GID"""
    wanted = lock.ids[f"{account}.uid"], lock.ids[f"{account}.gid"]
    user, group = host.user(account), host.group(account)
    assert user.exists, lack_of(host, account)
    assert group.exists, f"there is no group {account}. Repair: {deploy(host.name)}"
    assert (user.uid, user.gid) == wanted, (
        f"{account} has UID and GID {user.uid} and {user.gid} here, but {wanted[0]} and {wanted[1]} in the cluster. "
        f"Repair: {MOVE_IDS}"
    )
    assert group.gid == wanted[1], (
        f"the group {account} has the GID {group.gid} here, but {wanted[1]} in the cluster. Repair: {MOVE_IDS}"
    )


def lack_of(host: CheckedHost, account: str) -> str:
    """Why a user is not found: it is not there, or the host does not look into /etc/passwd."""
    if account not in host.user(account).get_local_users:
        return f"there is no user {account}. Repair: {deploy(host.name)}"
    line = host.as_found.run("grep '^passwd:' /etc/nsswitch.conf").stdout.strip() or "no line passwd"
    return (
        f"/etc/passwd has the user {account}, but the host does not find it: /etc/nsswitch.conf has {line}. "
        "Repair: `passwd: files systemd` and `group: files systemd` in /etc/nsswitch.conf"
    )


def test_hostname_is_the_clusters(host: CheckedHost, lock: Lock) -> None:
    """the host has the hostname that the cluster knows it by"""
    known = lock.hosts[host.name].hostname if host.name in lock.hosts else ""
    if not known:
        raise DoesNotApply("the host was never deployed")
    actual = host.file("/proc/sys/kernel/hostname").content_string.strip().partition(".")[0]
    assert actual.lower() == known.lower(), (
        f"its hostname is {actual}, but the cluster knows it as {known}, and Slurm's daemons go by that. "
        f"Repair: hostnamectl set-hostname {known}, then {deploy(host.name)}"
    )


def test_names_resolve(host: CheckedHost, cluster: Cluster, lock: Lock) -> None:
    """the names of the cluster's hosts resolve to their addresses

    Hosts that were never deployed are left out, because other hosts do not have their addresses yet. With
    `hosts_file: false`, so are those that only Slurm calls by this name, and to which it goes by their address.
    """
    hostnames = {name: lock.hosts[name].hostname for name in cluster.hosts if name in lock.hosts}
    names = tuple(
        name
        for name, hostname in hostnames.items()
        if hostname and (cluster.hosts_file or hostname == name or not is_numeric(cluster.addresses.get(name, "")))
    )
    lines = host.ask(RESOLVE.format(names=" ".join(names))).splitlines()
    found = {fields[0]: fields[1:] for fields in map(str.split, lines)}
    is_free = not cluster.hosts_file
    trouble = (
        misled(name, cluster.addresses.get(name, ""), found.get(name, []), is_free=is_free and name == host.name)
        for name in names
    )
    wrong = list(filter(None, trouble))
    repair = deploy(host.name) if cluster.hosts_file else "correct DNS or /etc/hosts"
    closed = closed_on_the_way(host, HOSTS) if wrong else ""
    assert not wrong, f"{'; '.join(wrong[:3])}{closed}. Repair: {repair}"
    other = other_lines(host, {name: cluster.addresses.get(name, "") for name in names}) if cluster.hosts_file else []
    told = "; ".join(f"line {number} of {HOSTS} gives {name} another address, {one}" for number, name, one in other[:3])
    assert not other, f"{told}, which programs may take. Repair: remove the name from that line on {host.name}"


def other_lines(host: CheckedHost, addresses: Mapping[str, str]) -> list[tuple[int, str, str]]:
    """Lines of /etc/hosts that give one of these names another address than its own: number, name and address.

    Of a name in several lines, all addresses count (getaddrinfo(3)). Loopback addresses are `misled`'s.
    """
    found = []
    for number, line in enumerate(host.as_found.run(f"cat {HOSTS}").stdout.splitlines(), 1):
        address, *names = line.partition("#")[0].split() or [""]
        if is_numeric(address) and not is_loopback(address):
            found += [
                (number, name, address)
                for name in names
                if family(addresses.get(name, "")) == family(address) and same(addresses[name]) != same(address)
            ]
    return found


def misled(name: str, address: str, found: list[str], *, is_free: bool) -> str:
    """The problem with the addresses that a name resolves to; empty for none, or if the file's is no address.

    `is_free`: the host's own name without slurmfab's /etc/hosts, so that 127.0.1.1 is usual.
    """
    if not found:
        return f"{name} does not resolve"
    if not address or not is_numeric(address) or is_free:
        return ""
    wrong = [one for one in found if is_loopback(one)] if not is_loopback(address) else []
    if wrong or not {same(one) for one in found} & {same(address)}:
        return f"{name} resolves to {', '.join(wrong or found)} instead of {address}"
    return ""


def is_loopback(address: str) -> bool:
    """Whether an IP address leads to the host itself."""
    return is_numeric(address) and parsed(address).is_loopback


def is_numeric(address: str) -> bool:
    """Whether this is an IP address, not a DNS name."""
    return family(address) != NO_ADDRESS


def same(address: str) -> Address | str:
    """An IP address in a form that can be compared, zone included; a DNS name unchanged."""
    return parsed(address) if is_numeric(address) else address
