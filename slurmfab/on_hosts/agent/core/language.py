"""The environment of the programs that slurmfab runs: English, whatever a host has, and no variable of Slurm's."""

from __future__ import annotations

ENGLISH = {"LC_ALL": "C.UTF-8", "LANGUAGE": ""}
"""Environment variables for every program. LANGUAGE alone would translate messages also in the locale C.UTF-8, as it
does where /etc/environment sets it (gettext(3))."""

SITE_SETTINGS = (
    "SLURM_", "SBATCH_", "SALLOC_", "SRUN_", "SQUEUE_", "SINFO_", "SACCT_", "SACCTMGR_", "SCANCEL_", "SCONTROL_",
    "SPRIO_", "SREPORT_", "SSHARE_", "SSTAT_", "SCRONTAB_", "SDIAG_", "STRIGGER_", "SLURMD_", "SLURMCTLD_",
)  # fmt: skip
"""Beginnings of the variables with which a site changes what Slurm's commands read, print, ask for and mean; pam_env(8)
sets those of /etc/environment for every login."""
