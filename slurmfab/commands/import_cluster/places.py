"""Hosts, addresses and the ways of SSH of an old cluster."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from slurmfab.base.ip_addresses import is_loopback
from slurmfab.base.paths import SLURM_DIRECTORY
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.rules.storage import taken
from slurmfab.cluster.inventory.system_ids import DEFAULTS
from slurmfab.cluster.inventory.values import check_directory
from slurmfab.cluster.slurm.conf_text import INCLUDE
from slurmfab.commands.import_cluster import database
from slurmfab.commands.import_cluster.old_cluster import OldCluster
from slurmfab.core.plan.plan_input import is_numeric

MAIN = "slurm.conf"

FILES = ("gres.conf", "cgroup.conf", "job_container.conf")
"""Files that the primary controller would write there for all hosts, besides slurm.conf."""


@dataclass(frozen=True)
class Places:
    """Where the hosts are."""

    controllers: tuple[str, ...]  # the primary first
    addresses: Mapping[str, str]  # by host, for hosts with an address
    endpoints: Mapping[str, str]  # by host, where SSH goes if not to the address


def places(old: OldCluster) -> Places:
    """The hosts and addresses of the cluster file."""
    addresses = dict(addresses_of(old))
    reached = old.found.addresses
    told = dict(old.found.ssh.get("endpoints") or {})
    endpoints = {host: told[host] for host in addresses if host in told}
    for host, address in addresses.items():
        way = reached.get(host, "")
        if host not in endpoints and is_numeric(way) and way != address:
            endpoints[host] = way
    return Places(tuple(dict.fromkeys(name for name, _ in old.controllers)), addresses, endpoints)


def addresses_of(old: OldCluster) -> Iterator[tuple[str, str]]:
    """Yield each host with its address for Slurm: that of slurm.conf, else the IP address that SSH reached."""
    given = {host: address for host, address in old.controllers if address}
    managed = database.section(old).get("host", "")
    for host in dict.fromkeys(filter(None, (*(name for name, _ in old.controllers), managed, *old.nodes))):
        of_node = old.node_setting(host, "nodeaddr") if host in old.conf.nodes else ""
        of_node = "" if is_loopback(of_node) else of_node
        reached = old.found.addresses.get(host, "")
        of_slurmdbd = old.database_address if host == managed else ""
        named = given.get(host) or of_node or of_slurmdbd
        address = named if named != host else ""  # the name alone may lead nowhere here
        address = address or (reached if is_numeric(reached) else "")
        if address:
            yield host, address


def ids(old: OldCluster) -> dict[str, int]:
    """The UIDs of slurm and munge that the cluster file names: equal everywhere, with a group of the same number."""
    found: dict[str, int] = {}
    for user in ("slurm", "munge"):
        pairs = {
            (facts.accounts[user].uid, facts.accounts[user].gid)
            for facts in old.found.facts.values()
            if user in facts.accounts
        }
        if len(pairs) == 1:
            uid, gid = pairs.pop()
            if uid == gid and uid != DEFAULTS.get(user) and (user in DEFAULTS):
                found[user] = uid
    return found


def differing_ids(old: OldCluster) -> Iterator[str]:
    """Yield a remark for each system user that has several numbers in the cluster."""
    for user in ("slurm", "munge"):
        hosts: dict[int, list[str]] = {}
        for host, facts in old.found.facts.items():
            if user in facts.accounts:
                hosts.setdefault(facts.accounts[user].uid, []).append(host)
        if len(hosts) > 1:
            told = "; ".join(f"{uid} on {', '.join(names)}" for uid, names in sorted(hosts.items()))
            yield (
                f"{user} has several UIDs: {told}. slurmfab uses one on all hosts; `{FAB} plan --move-ids` shows what "
                "that changes."
            )


def shared_directory(old: OldCluster) -> str:
    """Where /etc/slurm/slurm.conf leads on every host; empty where that is not one file that all of them read.

    A host that did not answer may read another one, and a host's own file beside slurm.conf would be replaced: there is
    no such directory then.
    """
    own = [files for files in old.found.hosts.values() if files.file(MAIN)]
    mains = [found for files in own if (found := files.file(MAIN))]
    places = {one.link for one in mains if one.path == f"{SLURM_DIRECTORY}/{MAIN}"} if len(mains) > 1 else set()
    marks = {files.mark for files in own}
    is_sure = len(places) == len(marks) == 1 and "" not in {*places, *marks} and not old.found.unreachable
    is_whole = not any(map(INCLUDE.match, mains[0].text.splitlines())) if mains else False
    if not is_sure or not is_whole or len(own) != len(old.found.hosts):
        return ""
    directory = posixpath.dirname(places.pop())
    return "" if any(others(old, directory)) or not may_be_named(old, directory) else directory


def may_be_named(old: OldCluster, directory: str) -> bool:
    """Whether a cluster file may name this directory: root's alone, and apart from the state, which is slurm's."""
    try:
        check_directory(directory)(directory)
    except ValueError:
        return False
    here, state = f"{directory}/", f"{old.setting('StateSaveLocation') or directory + '.state'}/"
    is_fetched = any(files.configless for files in old.found.hosts.values())
    return not (taken(directory) or is_fetched or here.startswith(state) or state.startswith(here))


def others(old: OldCluster, directory: str) -> Iterator[str]:
    """Yield the paths of Slurm's files on hosts that are not in a directory."""
    for files in old.found.hosts.values():
        for name in FILES:
            if (found := files.file(name)) and posixpath.dirname(found.link) != directory:
                yield found.path
