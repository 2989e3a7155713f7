"""Checks of a directory: its servers answer and are known, SSSD answers, and all hosts have the same users."""

from __future__ import annotations

import inspect
import shlex

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.checks.hosts import CheckedHost, last_words
from slurmfab.commands.checks.wanted import deploy
from slurmfab.core.plan.phases.directory import guard
from slurmfab.on_hosts.agent.core import json_objects
from slurmfab.on_hosts.agent.core.listing import listed
from slurmfab.on_hosts.agent.facts.facts import MEMBERS
from slurmfab.on_hosts.agent.people import ldap_probe

UNIT = "sssd"
MOST = 100  # how many users of the groups are compared
TOLD = 3  # how many users a message names at most
SECONDS = 60.0  # a host may try several servers that are silent

USERS = """
for name; do
    getent passwd -- "$name" >/dev/null && echo "$name $(id -u -- "$name") $(id -g -- "$name")" \
        "$(id -G -- "$name" | tr ' ' '\\n' | awk '$1 >= 1000' | sort -n | xargs | tr ' ' ,)"
done; true
"""
"""Prints each user who exists with UID, GID and all groups but those of the system, which differ from host to host."""

PAM = "grep -l pam_sss.so /etc/pam.d/common-account /etc/pam.d/common-auth | wc -l"
NSS = "grep -cE '^(passwd|group):[^#]* sss( |$)' /etc/nsswitch.conf; true"


def test_servers_of_the_directory_answer(directory_host: CheckedHost) -> None:
    """the servers of the directory answer, their certificates are accepted, and so is the login"""
    done = directory_host.run("python3 -I -S -c %s", inspect.getsource(ldap_probe), seconds=SECONDS)
    found = json_objects.parse(done.stdout.encode())
    assert found, f"sssd.conf names no server: {last_words(done)}. Repair: {deploy(directory_host.name)}"
    told = [f"{server}: {cause}" for server, cause in found.items() if cause]
    if len(told) < len(found):
        return
    raise AssertionError(
        f"no server of the directory can be asked: {'; '.join(told)}. Users whom SSSD remembers still run jobs, and "
        f"log in if they did so before; others do not. Repair: as said; then {deploy(directory_host.name)}"
    )


def test_sssd_answers(directory_host: CheckedHost, cluster: Cluster) -> None:
    """SSSD runs, PAM and NSS ask it, and it knows the groups that may log in"""
    repair = f"Repair: {deploy(directory_host.name)}; then see journalctl --unit=sssd and /var/log/sssd there"
    assert directory_host.service(UNIT).is_running, f"sssd does not run. {repair}"
    assert directory_host.ask(PAM) == "2", f"PAM does not ask SSSD (/etc/pam.d/common-account, common-auth). {repair}"
    assert directory_host.ask(NSS) == "2", f"/etc/nsswitch.conf does not name sss for passwd and group. {repair}"
    wanted = groups_of(cluster)
    missing = [group for group in wanted if group not in members(directory_host, wanted)]
    assert not missing, (
        f"there is no group {', '.join(missing[:TOLD])} (getent group). Is the name spelled right, and is it below "
        f"base in the directory? {repair}"
    )


def test_numbers_of_hosts_are_nobodys_in_the_directory(
    directory_host: CheckedHost, cluster: Cluster, lock: Lock
) -> None:
    """no entry of the directory has a number or a name of a host's own users and groups, and SSSD shows none"""
    assert cluster.directory is not None
    asked = guard(cluster, lock, directory_host.name)
    done = directory_host.run("python3 -I -S -c %s", inspect.getsource(ldap_probe), stdin=asked, seconds=SECONDS)
    found = json_objects.parse(done.stdout.encode())
    assert found, f"numbers cannot be compared: {last_words(done)}. Repair: {deploy(directory_host.name)}"
    seen, others = found["seen"], [one for one in found["entries"] if not one.endswith(ldap_probe.BELOW)]
    assert not seen, (
        f"SSSD shows {listed(seen, TOLD)}: processes of the one are processes of the other. "
        f"Repair: {deploy(directory_host.name)}, which names the entry; then give it another number"
    )
    assert not found["trouble"], (
        f"the directory's entries cannot be compared with hosts: {found['trouble']}. Repair: as said, then "
        f"{deploy(directory_host.name)}"
    )
    assert not others, (
        f"the directory has entries that no host sees, because hosts have their numbers or names: "
        f"{listed(others, TOLD)}. Who wrote them may have tried to become another. Repair: give them others, or name "
        f"them in directory.sssd.ignored, or in directory.sssd.admins where groups and rules of sudo on hosts mean them"
    )


def test_users_are_the_same_everywhere(directory_host: CheckedHost, controller: CheckedHost, cluster: Cluster) -> None:
    """the directory's users have the UIDs, GIDs and groups that they have on the controller"""
    found = members(controller, groups_of(cluster)).values()
    names = sorted({*(user.name for user in cluster.users), *(name for some in found for name in some)})[:MOST]
    there, here = (users(host, names) for host in (controller, directory_host))
    other = [name for name in names if there.get(name) != here.get(name)]
    if not other:
        return
    name, nobody = other[0], "nothing"
    more = f"; likewise {', '.join(other[1 : 1 + TOLD])}" if other[1:] else ""
    raise AssertionError(
        f"{name} has {here.get(name, nobody)} as UID, GID and groups, but {there.get(name, nobody)} on the "
        f"controller{more}. SSSD remembers users for minutes. Repair: sss_cache -E there and on {controller.name}; if "
        f"that changes nothing, {deploy(directory_host.name)}"
    )


def groups_of(cluster: Cluster) -> tuple[str, ...]:
    """The groups that the cluster file names: those that may log in, and those of accounts."""
    own = cluster.directory.sssd.groups if cluster.directory else ()
    return tuple(dict.fromkeys((*own, *cluster.member_groups)))


def members(host: CheckedHost, groups: tuple[str, ...]) -> dict[str, list[str]]:
    """The members of the groups that a host knows, by name."""
    if not groups:
        return {}
    told = host.as_found.ask(f"timeout 20 python3 -I -S -c {shlex.join([MEMBERS, *groups])}; true")
    found = json_objects.parse(told.encode()) or {}
    return {group: [name for name in some if name.isprintable()] for group, some in found.items()}


def users(host: CheckedHost, names: list[str]) -> dict[str, str]:
    """UID, GID and groups of the users whom a host knows, by name."""
    if not names:
        return {}
    lines = host.as_found.ask(f"timeout 50 sh -s -- {shlex.join(names)}", stdin=USERS, seconds=SECONDS).splitlines()
    return {name: rest for name, _, rest in (line.partition(" ") for line in lines)}
