"""The environment of the programs that slurmfab runs: English, whatever a host has, and no variable of Slurm's."""

from __future__ import annotations

import os
import stat

ENGLISH = {"LC_ALL": "C.UTF-8", "LANGUAGE": ""}
"""Environment variables for every program. LANGUAGE alone would translate messages also in the locale C.UTF-8, as it
does where /etc/environment sets it (gettext(3))."""

SITE_SETTINGS = (
    "SLURM_", "SBATCH_", "SALLOC_", "SRUN_", "SQUEUE_", "SINFO_", "SACCT_", "SACCTMGR_", "SCANCEL_", "SCONTROL_",
    "SPRIO_", "SREPORT_", "SSHARE_", "SSTAT_", "SCRONTAB_", "SDIAG_", "STRIGGER_", "SLURMD_", "SLURMCTLD_",
)  # fmt: skip
"""Beginnings of the variables with which a site changes what Slurm's commands read, print, ask for and mean; pam_env(8)
sets those of /etc/environment for every login."""

USUAL, LOCAL = ("/usr/sbin", "/usr/bin", "/sbin", "/bin"), ("/usr/local/sbin", "/usr/local/bin")


def is_roots_alone(path: str, root: str = "") -> bool:
    """Whether only root can put something into a directory of the host.

    Debian gives /usr/local to the group staff on hosts that were installed long ago; that counts while it is empty.
    """
    path = os.path.realpath(root + path)
    while True:
        try:
            status = os.stat(path)
            may_write = status.st_mode & stat.S_IWGRP and status.st_gid and has_members(str(status.st_gid), root)
        except OSError:
            return False
        if status.st_uid or status.st_mode & stat.S_IWOTH or may_write:
            return False
        if path in ("/", root):
            return True
        path = os.path.dirname(path)


def has_members(gid: str, root: str) -> bool:
    """Whether users are in a group, also as their primary one, by the host's own files."""
    for name, of_users in (("group", 2), ("passwd", 3)):
        with open("%s/etc/%s" % (root, name), errors="replace") as file:
            rows = [line.rstrip("\n").split(":") for line in file]
        if any(row[of_users : of_users + 1] == [gid] and row[3] for row in rows if row[3:]):
            return True
    return False


def system_path(root: str = "") -> str:
    """Where programs are found that root runs: the distribution's first, and others only where root alone puts them."""
    return ":".join((*USUAL, *(one for one in LOCAL if is_roots_alone(one, root))))


SYSTEM_PATH = system_path()
