"""The directories of Slurm's daemons and of backups, each with names of files that show that it is such a directory.

An existing directory without such files, as one that a cluster file names by mistake, is not given away nor closed.
"""

from __future__ import annotations

from slurmfab.agent.files.directory import Directory
from slurmfab.paths import SLURM_DIRECTORY, SLURM_LOGS

LOG_MARKS = ("slurm*.log*", "slurm_job*")
"""Logs of Slurm's daemons, and of ended jobs (JobCompLoc)."""

STATE_MARKS = ("clustername", "job_state*", "node_state*", "heartbeat", "last_config_lite*")
"""Files that slurmctld writes when it starts, or soon afterwards (slurm.conf(5), StateSaveLocation)."""

BACKUP_MARKS = ("*-*T??????Z.tar", "*-*T??????Z-*.tar", ".new-*-*T??????Z.*")
"""Backups as `slurmfab.agent.backup.archive` names them, and unfinished ones."""

PRIVATE_MARKS = ("[1-9]*",)
"""Directories of jobs, which slurmd names by their ids (job_container.conf(5))."""


def slurm_directory() -> Directory:
    """The directory of Slurm's files, which every user's commands read."""
    return Directory(SLURM_DIRECTORY, "root", "root", 0o755)


def log_directory() -> Directory:
    """The directory of the logs of Slurm's daemons."""
    return Directory(SLURM_LOGS, "slurm", "slurm", 0o755, LOG_MARKS)


def state_directory(path: str) -> Directory:
    """slurmctld's state directory; it holds job scripts, so only the slurm user may read it."""
    return Directory(path, "slurm", "slurm", 0o700, STATE_MARKS)


def backup_directory(path: str) -> Directory:
    """The directory of scheduled backups, which hold secrets."""
    return Directory(path, "root", "root", 0o700, BACKUP_MARKS)


def private_directory(path: str) -> Directory:
    """The directory on compute nodes that contains the private directories of jobs."""
    return Directory(path, "root", "root", 0o755, PRIVATE_MARKS)
