"""Logins of users: on compute nodes only with a job there; on login hosts with limits and a message of the day."""

from __future__ import annotations

from collections.abc import Mapping

from slurmfab.base.paths import UNIT_FILES, user_guides
from slurmfab.base.terminal import table
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.logins import LoginLimits
from slurmfab.cluster.inventory.slurm_settings import setting
from slurmfab.core.plan.phases.capability import HEAD, once, owned
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.files.user_slices import UserSlices
from slurmfab.on_hosts.agent.people.node_logins import NodeLogins
from slurmfab.on_hosts.agent.services.login_guard import LoginGuard

NODE_LOGINS = "node-logins"  # what the facts of a host with these lines have among `owned`
XAUTH = "xauth"  # the package without which neither sshd nor Slurm forwards X11, on either side

PAM_SYSTEMD = "libpam-systemd"
"""The package without which no login gets a slice of its user's, and with it its limits (pam_systemd(8))."""

LIMITS, MOTD = "login-limits", "motd"  # what the facts of login hosts have among `owned`

DROP_IN = "50-slurmfab.conf"
OF_USERS, OF_ROOT = (f"{UNIT_FILES}/{slice}.d/{DROP_IN}" for slice in ("user-.slice", "user-0.slice"))
"""A drop-in for the slices of all users (systemd.unit(5)), and one for root's, which goes over it."""

MESSAGE = "/etc/motd.d/slurmfab"  # a part of the message of the day, which Debian's sshd and login show (pam_motd(8))

COMMANDS = "Jobs: sbatch, srun, salloc, squeue, scancel. Nodes: sinfo."
GUIDE = "What is free, and why jobs wait: sstatus. Guide: {0}/guide.md, with pages for a browser beside it."

CLOSED = "Compute nodes let you in by SSH while you have a job there."
"""What users should know where `node_logins` is `with_job`."""


def node_logins(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The lines of sshd's PAM configuration on a closed node; their removal where the node is not closed any more.

    A change of an earlier run that was never proved, and that the host could not take back itself, is taken back first.
    """
    unproved = LoginGuard(proved=False)
    if plan_input.cluster.closes(host):
        hostname = plan_input.host(host).hostname
        return unproved, NodeLogins(exempt(plan_input), "" if hostname == host else host)
    return (unproved, NodeLogins(())) if plan_input.owns(host, NODE_LOGINS) else ()


@once
def exempt(plan_input: PlanInput) -> tuple[str, ...]:
    """The users who need no job, sorted: root, slurm, the user of slurmfab's own SSH, and users with sudo."""
    cluster = plan_input.cluster
    own = (cluster.ssh.user, *(place.rpartition("@")[0] for place in cluster.ssh.endpoints.values()))
    named = (user.name for user in cluster.users if user.sudo)
    return tuple(sorted({"root", "slurm", *(user for user in own if user), *named}))


def packages(plan_input: PlanInput, host: str) -> tuple[str, ...]:
    """The packages that the host's logins need."""
    cluster = plan_input.cluster
    has_screens = cluster.x11 and not cluster.is_for_database_alone(host)
    sessions = (PAM_SYSTEMD,) if cluster.limits_on(host) else ()
    return (
        *sessions,
        *(filter(None, (plan_input.platform_of(host).pam,)) if cluster.closes(host) else ()),
        *((XAUTH,) if has_screens else ()),
    )


def login_hosts(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The limits of users and the message of the day on a login host; their removal where they are not wanted."""
    cluster = plan_input.cluster
    is_login = "login" in cluster.roles(host)
    wanted = cluster.limits_on(host)
    limits = slices(wanted) if wanted else ()
    has_limits = plan_input.owns(host, LIMITS)
    message = (OwnedFile(MESSAGE, message_of_the_day(cluster, host)),) if is_login and cluster.motd else ()
    return (*((UserSlices(LIMITS, limits),) if limits or has_limits else ()), *owned(plan_input, host, MOTD, message))


def slices(limits: LoginLimits) -> tuple[OwnedFile, ...]:
    """The drop-ins with these limits, and with none for root (systemd.resource-control(5))."""
    wanted = {
        "MemoryMax": (limits.memory, "infinity"),
        "TasksMax": (limits.tasks, "infinity"),
        "CPUQuota": (limits.cpus and f"{limits.cpus * 100}%", ""),
    }
    head = f"{HEAD}[Slice]\n"
    lines = [(f"{key}={value}\n", f"{key}={none}\n") for key, (value, none) in wanted.items() if value]
    users, root = ("".join(texts) for texts in zip(*lines, strict=True))
    return OwnedFile(OF_USERS, head + users), OwnedFile(OF_ROOT, head + root)


def message_of_the_day(cluster: Cluster, host: str) -> str:
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


def partition_table(cluster: Cluster) -> list[str]:
    """The partitions with their nodes and limits in columns, as `sinfo` marks the default one."""
    rows = [("PARTITION", "NODES", "TIME LIMIT", "MOST NODES")]
    for partition in cluster.partitions:
        settings = partition.settings
        if setting(settings, "Hidden").upper() != "YES":
            star = "*" if setting(settings, "Default").upper() == "YES" else ""
            count = str(len(cluster.nodes_in(partition)))
            rows.append((partition.name + star, count, limit(settings, "MaxTime"), limit(settings, "MaxNodes")))
    return table(rows, width=0)


def limit(settings: Mapping[str, str], key: str) -> str:
    """A limit of a partition."""
    value = setting(settings, key)
    return "none" if value.upper() in ("", "UNLIMITED", "INFINITE", "-1") else value


def limits_line(limits: LoginLimits) -> str:
    """What users may use here without a job."""
    named = {"of memory": limits.memory, "tasks": limits.tasks, "CPUs": limits.cpus}
    told = ", ".join(f"{value} {what}" for what, value in named.items() if value)
    return f"Without a job you can use here: {told}."
