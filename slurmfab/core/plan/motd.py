"""The message of the day on login hosts: partitions and their limits, from the cluster file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from slurmfab.base.paths import user_guides
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.logins import LoginLimits

COMMANDS = "Jobs: sbatch, srun, salloc, squeue, scancel. Nodes: sinfo."
GUIDE = "What is free, and why jobs wait: sstatus. Guide: {0}/guide.md, with pages for a browser beside it."
CLOSED = "Compute nodes let you in by SSH while you have a job there."
"""What users should know where `node_logins` is `with_job`."""


def message(cluster: Cluster, host: str) -> str:
    """The text for a login host, with the site's own at its end."""
    limits = cluster.limits_on(host)
    own = cluster.motd if isinstance(cluster.motd, str) else ""
    lines = (
        f"Cluster {cluster.name}",
        "",
        *partition_table(cluster),
        "",
        COMMANDS,
        *((GUIDE.format(user_guides(cluster.name)),) if cluster.user_tools else ()),
        *((limits_line(limits),) if limits else ()),
        *((CLOSED,) if cluster.node_logins == "with_job" else ()),
        *(("", *own.splitlines()) if own else ()),
    )
    return "".join(f"{line}\n" for line in lines)


def partition_table(cluster: Cluster) -> Iterable[str]:
    """The partitions with their nodes and limits in columns, as `sinfo` marks the default one."""
    rows = [("PARTITION", "NODES", "TIME LIMIT", "MOST NODES")]
    for partition in cluster.partitions:
        settings = {key.lower(): value for key, value in partition.settings.items()}
        if settings.get("hidden", "").upper() == "YES":
            continue
        star = "*" if settings.get("default", "").upper() == "YES" else ""
        count = len(cluster.compute_nodes) if partition.nodes == "ALL" else len(partition.nodes)
        rows.append((partition.name + star, str(count), limit(settings, "maxtime"), limit(settings, "maxnodes")))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def limit(settings: Mapping[str, str], key: str) -> str:
    """A limit of a partition, by its key in lower case."""
    value = settings.get(key, "")
    return "none" if value.upper() in ("", "UNLIMITED", "INFINITE", "-1") else value


def limits_line(limits: LoginLimits) -> str:
    """What users may use here without a job."""
    named = {"of memory": limits.memory, "tasks": limits.tasks, "CPUs": limits.cpus}
    told = ", ".join(f"{value} {what}" for what, value in named.items() if value)
    return f"Without a job you can use here: {told}."
