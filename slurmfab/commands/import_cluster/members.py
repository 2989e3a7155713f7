"""The hosts of a cluster, as its slurm.conf names them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from slurmfab.base.ip_addresses import canonical, is_loopback
from slurmfab.cluster.slurm.conf_text import ConfText
from slurmfab.core.plan.preflight.other_clusters import short, split_controller

SLURMDBD = "accounting_storage/slurmdbd"
LOCALHOST = "localhost"

NOT_ASKED = "CLOUD"
"""States of nodes that may not exist yet, so that nobody waits for an answer of theirs (slurm.conf(5), State)."""


@dataclass(frozen=True)
class Member:
    """A host that a slurm.conf names."""

    name: str  # its NodeName, or else the short name under which it has another role
    hostname: str  # the name that it gives itself, as far as slurm.conf knows it
    address: str  # the address or the name by which other hosts reach it
    is_asked: bool = True  # whether it should exist by now


@dataclass(frozen=True)
class Members:
    """The hosts that a slurm.conf names, each once."""

    controllers: tuple[str, ...]  # names of the hosts of slurmctld, the primary first
    database: str  # name of the host of slurmdbd; empty for none
    hosts: Mapping[str, Member]  # the hosts by name: controllers, slurmdbd's host, compute nodes

    @property
    def controller(self) -> str:
        """The name of the primary controller; empty if the slurm.conf names none."""
        return next(iter(self.controllers), "")


def controllers_of(conf: ConfText, own: str) -> tuple[tuple[str, str], ...]:
    """Name and address (or empty) of a slurm.conf's controllers, primary first.

    `own`: the hostname of the host whose file it is, which is what loopback names and addresses mean there.
    """
    named = [split_controller(one.strip()) for one in conf.settings.get("slurmctldhost", "").split(",") if one.strip()]
    return tuple((own if is_loopback(name) else name, "" if is_loopback(at) else at) for name, at in named)


def members(conf: ConfText, own: str) -> Members:
    """The hosts that a slurm.conf names; a host with several roles is one, by its NodeName if it has one.

    `own`: as for `controllers_of`.
    """
    nodes = {one.name: one for one in compute_nodes(conf, own)}
    by_alias = {alias: one.name for one in reversed(nodes.values()) for alias in aliases(one)}
    hosts: dict[str, Member] = {}
    controllers = []
    for name, address in controllers_of(conf, own):
        known = by_alias.get(name) or by_alias.get(address) or by_alias.get(short(name))
        own = known or short(name)
        controllers.append(own)
        hosts[own] = nodes[own] if known in nodes else Member(own, short(name), address or name)
        by_alias |= dict.fromkeys((name, short(name), *filter(None, (address,))), own)
    database = database_host(conf, controllers, by_alias)
    if database and database not in hosts:
        hosts[database] = nodes.get(database) or Member(database, short(database), address_of_database(conf))
    return Members(tuple(dict.fromkeys(controllers)), database, {**hosts, **nodes})


def compute_nodes(conf: ConfText, own: str) -> Iterator[Member]:
    """The compute nodes of a slurm.conf, in its order; `own` as for `controllers_of`."""
    for name, line in conf.nodes.items():
        hostname = line.of(name, "nodehostname") or name
        state = line.of(name, "state").upper()
        calls_itself = own if is_loopback(hostname) else short(hostname)
        yield Member(name, calls_itself, line.of(name, "nodeaddr") or hostname, not state.startswith(NOT_ASKED))


def aliases(member: Member) -> tuple[str, ...]:
    """The names and the address of a host, in lower case."""
    return (member.name.lower(), member.hostname.lower(), canonical(member.address.lower()))


def address_of_database(conf: ConfText) -> str:
    """The value of AccountingStorageHost, in lower case."""
    return canonical(conf.settings.get("accountingstoragehost", LOCALHOST).lower())


def database_host(conf: ConfText, controllers: list[str], by_alias: Mapping[str, str]) -> str:
    """The name of slurmdbd's host, looked up among aliases; empty for a cluster without slurmdbd."""
    if conf.settings.get("accountingstoragetype", "").lower() != SLURMDBD:
        return ""
    address = address_of_database(conf)
    if is_loopback(address):
        return next(iter(controllers), "")
    return by_alias.get(address) or by_alias.get(short(address)) or short(address)
