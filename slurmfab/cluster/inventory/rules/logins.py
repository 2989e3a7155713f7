"""Rules about the keys of logins in a cluster file."""

from __future__ import annotations

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.slurm_settings import Complaints

NEEDED = {"prologflags": ("contain", "x11"), "proctracktype": ("proctrack/cgroup",)}
"""By key of slurm.conf in lower case, the values of which pam_slurm_adopt needs one (pam_slurm_adopt, Slurm Config)."""


def closed_nodes_exist(cluster: Cluster) -> Complaints:
    """A host with another role stays open, so that a key without any other host would do nothing."""
    if cluster.node_logins == "with_job" and not any(map(cluster.closes, cluster.compute_nodes)):
        yield ("node_logins",), "every compute node has another role as well, and such hosts stay open for logins"


def jobs_can_adopt_logins(cluster: Cluster) -> Complaints:
    """pam_slurm_adopt finds a user's job by the extern step that Contain makes on each node (slurm.conf(5))."""
    for key, value in cluster.slurm_conf.items() if cluster.node_logins == "with_job" else ():
        values = NEEDED.get(key.lower(), ())
        if values and not {*values} & {word.strip().lower() for word in (value or "").split(",")}:
            yield ("slurm_conf", key), f"node_logins: with_job needs {values[0].capitalize()} here, or nobody gets in"


def x11_is_among_the_flags(cluster: Cluster) -> Complaints:
    """Flags in slurm_conf replace those that slurmfab writes."""
    for key, value in cluster.slurm_conf.items() if cluster.x11 else ():
        if key.lower() == "prologflags" and "x11" not in {flag.strip().lower() for flag in (value or "").split(",")}:
            yield ("slurm_conf", key), "x11: true needs X11 among the flags"


def login_hosts_exist(cluster: Cluster) -> Complaints:
    """These keys are about login hosts alone; other hosts are not for users' own processes."""
    for key in ("login_limits", "motd") if not cluster.login else ():
        if getattr(cluster, key):
            yield (key,), "there are no login hosts; name some with the key login"


def limits_limit_something(cluster: Cluster) -> Complaints:
    """An empty mapping would be a key without effect."""
    limits = cluster.login_limits
    if limits and not any((limits.memory, limits.tasks, limits.cpus)):
        yield ("login_limits",), "it limits nothing; it needs at least one of memory, tasks and cpus"
