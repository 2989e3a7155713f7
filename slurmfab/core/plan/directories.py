"""The directories of Slurm's daemons and of backups, each with names of files that show that it is one."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from dataclasses import replace

from slurmfab.base.paths import FORMER_SPOOL, SLURM_DIRECTORY, SLURM_LOGS, SLURM_SPOOL, SLURMD_LOGS
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.slurm import accounting, places
from slurmfab.core.impact.slurm_diff import TABLES
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.directory import Directory
from slurmfab.on_hosts.agent.files.root_log import RootLog

ROOT = ("root", "root")
SLURM_LIBRARY = "/var/lib/slurm"
FORMER_LOG = f"{SLURM_LOGS}/slurmd.log"
"""Where an earlier slurmfab had slurmd's log; steps that began then write there until they end."""

LOG_MARKS = ("slurm*.log*", "slurm_job*")  # logs of Slurm's daemons, and of ended jobs (JobCompLoc)

STATE, SPOOL = "StateSaveLocation", "SlurmdSpoolDir"
OF_CONTROLLER = ("statesavelocation", "slurmctldpidfile", "jobcomploc")
"""Keys of slurm.conf whose files are slurmctld's own, and nobody else's."""

PATHS = re.compile(r"(?:^|(?<=[,:=]))/[^,:\s]+")  # absolute paths in a value of slurm.conf

STATE_MARKS = ("clustername", "job_state*", "node_state*", "heartbeat", "last_config_lite*")
"""Files that slurmctld writes when it starts, or soon afterwards (slurm.conf(5), StateSaveLocation)."""

BACKUP_MARKS = ("*-*T??????Z.tar", "*-*T??????Z-*.tar", ".new-*-*T??????Z.*")
"""Backups as `slurmfab.on_hosts.agent.backup.archive` names them, and unfinished ones."""

PRIVATE_MARKS = ("[1-9]*",)  # directories of jobs, which slurmd names by their ids (job_container.conf(5))


def unguarded(resources: Iterable[Resource]) -> tuple[Resource, ...]:
    """The same without changes of directories and logs that are there (`guard_directories: false`)."""
    wanted = (one for one in resources if not isinstance(one, RootLog))
    return tuple(replace(one, kept=True, for_root=False) if isinstance(one, Directory) else one for one in wanted)


def slurm_directory() -> Directory:
    """The directory of Slurm's files, which every user's commands read."""
    return Directory(SLURM_DIRECTORY, "root", "root", 0o755)


def shared_directory(path: str) -> Directory:
    """The directory of Slurm's files that the hosts share, on the primary controller, which writes them."""
    return Directory(path, "root", "root", 0o755)


def other_uses(plan_input: PlanInput, host: str) -> tuple[tuple[str, str], ...]:
    """What else has files on a host, beside slurmctld's state: key and path, by slurm.conf and slurmdbd.conf."""
    cluster, known = plan_input.cluster, plan_input.is_compute_node(host)
    node = plan_input.host(host).hostname if known else host
    found = [
        (TABLES["slurm.conf"][low].name if low in TABLES["slurm.conf"] else low, path)
        for low, value in plan_input.conf_wanted.settings.items()
        if low not in OF_CONTROLLER and (known or low != "slurmdspooldir")
        for path in PATHS.findall(value.replace("%n", host).replace("%h", node))
    ]
    found += [("LogFile", accounting.log_file(cluster.slurmdbd_conf))] if "database" in cluster.roles(host) else []
    return tuple(dict.fromkeys(found))


def log_directory(plan_input: PlanInput, host: str) -> Directory:
    """The directory of the logs of slurmctld and slurmdbd; root's on hosts that have neither.

    Steps that began under an earlier slurmfab open slurmd's log there anew, as root, whenever slurmd is reconfigured.
    """
    owner = logs_owner(plan_input.cluster, host)
    user, group = plan_input.slurm_owner(host)
    spools = tuple(one for one in other_uses(plan_input, host) if one[0] == SPOOL)
    return Directory(
        SLURM_LOGS, owner, group if owner == user else owner, 0o755, LOG_MARKS, key="the log directory", used=spools
    )


def logs_owner(cluster: Cluster, host: str) -> str:
    """The user of the directory of slurmctld's and slurmdbd's logs on a host."""
    return cluster.slurm_user if {"controller", "database"} & {*cluster.roles(host)} else "root"


def slurmd_directories(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The directories in which slurmd works as root, where slurmfab has them, and what its log must not be.

    Debian's packages give /var/lib/slurm to slurm, who could put something else in place of what is in it.
    """
    if "compute" not in plan_input.cluster.roles(host):
        return ()
    is_known = plan_input.is_compute_node(host)
    spool = spool_directory(plan_input, host) if is_known else plan_input.lock.spool_directory
    private = plan_input.cluster.private_tmp
    used = (spool, *((private.base,) if private else ()))
    log = slurmd_log(plan_input, host)
    logs = dict.fromkeys((log if log.startswith("/") else "", FORMER_LOG))
    is_shared = any(path.startswith(f"{SLURM_LIBRARY}/") for path in used)
    return (
        *((Directory(SLURM_LIBRARY, "root", "root", 0o755),) if is_shared else ()),
        *((Directory(spool, "root", "root", 0o755, for_root=True),) if spool in (SLURM_SPOOL, FORMER_SPOOL) else ()),
        *((Directory(SLURMD_LOGS, "root", "root", 0o755, for_root=True),) if log.startswith(f"{SLURMD_LOGS}/") else ()),
        *(RootLog(path) for path in logs if path),
    )


def slurmd_log(plan_input: PlanInput, host: str) -> str:
    """The path of slurmd's log on a host, whose hardware may not be known yet; `syslog` or empty for none."""
    hostname = plan_input.host(host).hostname if plan_input.is_compute_node(host) else ""
    return places.log_file(plan_input.conf_wanted.settings, "slurmd", host, hostname)


def spool_directory(plan_input: PlanInput, node: str) -> str:
    """SlurmdSpoolDir of a compute node."""
    return places.spool_directory(plan_input.conf_wanted.settings, node, plan_input.host(node).hostname)


def log_files(plan_input: PlanInput, host: str) -> tuple[tuple[str, tuple[str, str]], ...]:
    """Path, and user and group, of each log that a host's daemons write."""
    cluster, settings = plan_input.cluster, plan_input.conf_wanted.settings
    hostname, roles, slurm = plan_input.host(host).hostname, cluster.roles(host), plan_input.slurm_owner(host)
    found = (
        *(((places.log_file(settings, "slurmctld", host, hostname), slurm),) if "controller" in roles else ()),
        *(((places.log_file(settings, "slurmd", host, hostname), ROOT),) if "compute" in roles else ()),
        *(((accounting.log_file(cluster.slurmdbd_conf), slurm),) if "database" in roles else ()),
    )
    return tuple((path, owner) for path, owner in found if path.startswith("/"))


def site_directories(plan_input: PlanInput, host: str) -> tuple[Directory, ...]:
    """The directories of a host's daemons that slurm_conf and slurmdbd_conf name: made if missing, else as they are."""
    found = {posixpath.dirname(path): owner for path, owner in log_files(plan_input, host)}
    if plan_input.is_compute_node(host):
        found[spool_directory(plan_input, host)] = ROOT
    return tuple(
        Directory(path, *owner, 0o755, kept=True)
        for path, owner in found.items()
        if path not in (SLURM_LOGS, SLURMD_LOGS, SLURM_SPOOL, FORMER_SPOOL)
    )


def state_directory(path: str, owner: tuple[str, str], used: tuple[tuple[str, str], ...] = ()) -> Directory:
    """slurmctld's state directory; it holds job scripts, so only the slurm user may read it, unless others have to."""
    return Directory(path, *owner, 0o700, STATE_MARKS, key=STATE, used=used)


def backup_directory(path: str) -> Directory:
    """The directory of scheduled backups, which hold secrets."""
    return Directory(path, "root", "root", 0o700, BACKUP_MARKS, alone=True)


def private_directory(path: str) -> Directory:
    """The directory on compute nodes that contains the private directories of jobs."""
    return Directory(path, "root", "root", 0o755, PRIVATE_MARKS, for_root=True)
