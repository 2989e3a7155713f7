"""What the cluster file and its lock say that the hosts shall be, as the checks need it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from slurmfab.cluster import Cluster
from slurmfab.facts import Hardware, HostFacts
from slurmfab.lock import Lock
from slurmfab.situation import Situation
from slurmfab.slurm.conf_text import parse

CONFIGURATION = "/etc/slurm"
FILES = ("slurm.conf", "gres.conf", "cgroup.conf")
MUNGE_KEY = "/etc/munge/munge.key"
MUNGE_SOCKET = "/run/munge/munge.socket.2"

NO_MAIL = "/bin/true"

PORTS = {"SlurmctldPort": "6817", "SlurmdPort": "6818"}
"""Slurm's own defaults (slurm.conf(5))."""

_LAYOUT = {"boards", "sockets", "socketsperboard", "corespersocket", "threadspercore"}


def files(cluster: Cluster, lock: Lock) -> dict[str, str]:
    """Slurm's files as the cluster file and the lock want them, by name; none before anything was deployed."""
    facts = HostFacts(cluster.controller, "", "", "", packages={"slurm-client": lock.slurm})
    return dict(Situation(cluster, lock, {cluster.controller: facts}).files) if lock.slurm else {}


def sends_mail(cluster: Cluster, lock: Lock) -> bool:
    """Whether slurm.conf names a program that sends mail, and not one that only keeps slurmctld quiet."""
    return conf(cluster, lock).get("mailprog", NO_MAIL) != NO_MAIL


def explains_refusals(cluster: Cluster, lock: Lock) -> bool:
    """Whether slurm.conf has people without an account told by our script what to do."""
    is_ours = not setting(cluster.slurm_conf, "JobSubmitPlugins")
    return is_ours and conf(cluster, lock).get("jobsubmitplugins") == "lua"


def conf(cluster: Cluster, lock: Lock) -> Mapping[str, str]:
    """What slurm.conf shall say, by key in small letters; nothing before anything was deployed."""
    return parse(files(cluster, lock).get("slurm.conf", "")).settings


def deploy(*hosts: str) -> str:
    """The command that makes hosts right again."""
    return f"fab deploy --hosts {','.join(hosts)}"


def units_of(cluster: Cluster, host: str) -> tuple[str, ...]:
    """The systemd units of a host's daemons."""
    roles = cluster.roles(host)
    database = cluster.database
    return (
        "munge",
        *(("mariadb",) if "database" in roles and database and not database.external else ()),
        *(("slurmdbd",) if "database" in roles else ()),
        *(("slurmctld",) if "controller" in roles else ()),
        *(("slurmd",) if "compute" in roles else ()),
    )


def port(cluster: Cluster, key: str) -> int:
    """The port that a daemon listens on: the cluster file's (the first of a range), or Slurm's default."""
    said = setting(cluster.slurm_conf, key) or PORTS[key]
    return int(re.split(r"\D", said)[0])


def setting(settings: Mapping[str, str | None], key: str) -> str:
    """A value by its key, whose case does not matter to Slurm; empty when it is not there."""
    return next((value or "" for name, value in settings.items() if name.lower() == key.lower()), "")


def gpus_of(cluster: Cluster, lock: Lock, node: str) -> int:
    """How many GPUs Slurm shall know on a node: the cluster file's `Gres`, else those that were discovered."""
    settings = cluster.settings_of(node)
    if any(key.lower() == "gres" for key in settings):
        return gpu_count(setting(settings, "Gres"))
    return len(lock.hosts[node].gpus) if node in lock.hosts else 0


def shares_gpus(cluster: Cluster, node: str) -> bool:
    """Whether the cluster file has several jobs share a GPU of a node, by Slurm's shards."""
    entries = setting(cluster.settings_of(node), "Gres").split(",")
    return any(entry.strip().split(":")[0] == "shard" for entry in entries)


def gpu_count(gres: str) -> int:
    """The number of GPUs in a list of generic resources, in the cluster file's or in Slurm's spelling.

    >>> gpu_count("gpu:a100:4(S:0-1),gpu:2,shard:8")
    6
    """
    entries = re.sub(r"\([^)]*\)", "", gres).split(",")
    words = [entry.split(":") for entry in entries if entry.split(":")[0] == "gpu"]
    return sum(int(last[-1]) if last[-1].isdigit() else 1 for last in words)


def counts(cluster: Cluster, node: str, hardware: Hardware) -> dict[str, int]:
    """What Slurm shall count on a node by `scontrol show node`'s words, as far as the lock decides it.

    A layout or a number of CPUs in the cluster file is the user's; what follows from it is not second-guessed here.
    """
    if {key.lower() for key in cluster.settings_of(node)} & {*_LAYOUT, "cpus", "procs"}:
        return {}
    return {
        "CPUTot": hardware.CPUs,
        "Boards": hardware.Boards,
        "Sockets": hardware.Boards * hardware.SocketsPerBoard,
        "CoresPerSocket": hardware.CoresPerSocket,
        "ThreadsPerCore": hardware.ThreadsPerCore,
    }


def partition_of(cluster: Cluster, nodes: tuple[str, ...]) -> str:
    """The first partition that has all of these nodes; empty where none has."""
    return next(
        (
            partition.name
            for partition in cluster.partitions
            if partition.nodes == "ALL" or set(nodes) <= set(partition.nodes)
        ),
        "",
    )
