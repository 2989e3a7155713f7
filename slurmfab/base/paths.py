"""Paths and unit names on the hosts that more than one package needs: phases, checks, backups, rollback."""

from __future__ import annotations

from typing import Final

from slurmfab.on_hosts.agent.core import host_paths

SLURM_DIRECTORY = host_paths.SLURM_DIRECTORY  # Slurm's configuration files, the same on all hosts

SLURM_SOURCES = "/etc/apt/sources.list.d/slurmfab-slurm.sources"
SLURM_PREFERENCES = "/etc/apt/preferences.d/slurmfab-slurm"
SLURM_REPOSITORY_KEY = "/etc/apt/keyrings/slurmfab-slurm.asc"
SLURM_SOURCE_FILES = (SLURM_SOURCES, SLURM_PREFERENCES, SLURM_REPOSITORY_KEY)
"""apt's files about the source of Slurm's packages."""

SLURM_LOGS = "/var/log/slurm"  # the logs of slurmctld and slurmdbd, a directory of the slurm user's

SLURMD_LOGS = "/var/log/slurmd"
"""The log of slurmd, which is root: a directory of root's, because Debian's packages give SLURM_LOGS to slurm."""

SLURM_SPOOL: Final = "/var/spool/slurmd"  # SlurmdSpoolDir of compute nodes; jobs read their scripts there

FORMER_SPOOL: Final = "/var/lib/slurm/slurmd"
"""SlurmdSpoolDir of clusters that an earlier slurmfab deployed: slurmd finds running steps by it, so it stays."""

SLURM_HOME = "/var/lib/slurm/home"
"""The slurm user's home: local, made by slurmfab, and outside of what Debian's packages purge."""

SLURMDBD_CONF = f"{SLURM_DIRECTORY}/slurmdbd.conf"

MUNGE_KEY = host_paths.MUNGE_KEY
MUNGE_SOCKET = "/run/munge/munge.socket.2"

PROGRAMS = host_paths.PROGRAMS  # the programs that stay on hosts because the cluster file asks for them

UNIT_FILES = "/etc/systemd/system"

BACKUP_UNIT = "slurmfab-backup"
BACKUP_PROGRAM = f"{PROGRAMS}/backup"
BACKUP_SETTINGS = "/etc/slurmfab-backup.json"

GPU_CHECK_UNIT = "slurmfab-gpu-check"
GPU_CHECK_PROGRAM = f"{PROGRAMS}/gpu-check"
GPU_CHECK_SETTINGS = "/etc/slurmfab-gpu-check.json"
GPU_CHECK_HISTORY = "/var/lib/slurmfab/gpu-checks"  # the directory of the history; it stays when the checks go

IDLE_GPUS_PROGRAM = f"{PROGRAMS}/idle-gpus"
IDLE_GPUS_UNIT, IDLE_GPUS_POLICY_UNIT = "slurmfab-idle-gpus", "slurmfab-idle-gpus-policy"
"""The service that looks at a node's GPUs, and the one on the controller that mails users and ends jobs."""

IDLE_GPUS_SETTINGS, IDLE_GPUS_POLICY = "/etc/slurmfab-idle-gpus.json", "/etc/slurmfab-idle-gpus-policy.json"
IDLE_GPUS_STATE = "/var/lib/slurmfab/idle-gpus"

MIG_PROGRAM = f"{PROGRAMS}/mig"
MIG_UNIT = "slurmfab-mig"  # the unit that divides a node's GPUs at each boot
MIG_SETTINGS = "/etc/slurmfab-mig.json"

JUPYTER_UNIT, JUPYTER_ROOT = "slurmfab-jupyter", "slurmfab-jupyter-root"
"""JupyterHub's service, and the socket and the service that do for it what only root can."""

JUPYTER_CONF = "/etc/slurmfab-jupyter.py"
JUPYTER_STATE = "/var/lib/private/slurmfab-jupyter"  # the hub's StateDirectory, to which /var/lib has a link

ACCEPTANCE_HISTORY = "/var/lib/slurmfab/acceptance"
"""The directory of the results of acceptance jobs on the controller; it stays."""

HEALTH_PROGRAM = f"{PROGRAMS}/health"
HEALTH_CHECK = host_paths.HEALTH_CHECK  # what slurm.conf names as HealthCheckProgram; it runs HEALTH_PROGRAM

HEALTH_SETTINGS = "/etc/slurmfab-health.json"

SCRATCH_PROGRAM = f"{PROGRAMS}/scratch"
SCRATCH_SETTINGS = host_paths.SCRATCH_SETTINGS

OCI_PROGRAM = f"{PROGRAMS}/oci"  # what oci.conf names as the runtime of containers; SBUNDLE runs it, too
SBUNDLE = "/usr/local/bin/sbundle"  # the command of users that makes bundles for containers

METRICS_UNIT = "slurmfab-metrics"
METRICS_PROGRAM = f"{PROGRAMS}/metrics"
METRICS_SETTINGS = "/etc/slurmfab-metrics.json"
METRICS_DIRECTORY = "/var/lib/slurmfab/node-exporter"
METRICS_FILE = f"{METRICS_DIRECTORY}/slurmfab.prom"
"""Slurm's figures, which the exporter of the controller tells Prometheus."""

DRIFT_RESULT = "/var/lib/slurmfab/drift.json"
"""What the last comparison of the hosts with the cluster file found, for METRICS_PROGRAM."""

USER_TOOLS_PROGRAM = f"{PROGRAMS}/user-tools"
USER_TOOLS_SETTINGS = "/etc/slurmfab-user-tools.json"
USER_COMMANDS = "/usr/local/bin"  # the directory of the commands for users, which run USER_TOOLS_PROGRAM


def user_guides(cluster: str) -> str:
    """The directory of the guide for users."""
    return f"/usr/share/doc/{cluster}-users"


POWER_UNIT = "slurmfab-power"
POWER_PROGRAM = f"{PROGRAMS}/power"
SUSPEND_PROGRAM, RESUME_PROGRAM = f"{PROGRAMS}/suspend", f"{PROGRAMS}/resume"
"""What slurm.conf names as SuspendProgram and ResumeProgram; both run POWER_PROGRAM."""

POWER_SETTINGS = "/etc/slurmfab-power.json"
POWER_PASSWORD = "/etc/slurmfab-power.password"  # noqa: S105 - its path
POWER_FAILURES = "/var/lib/slurmfab/power"
"""The directory with a file for each node that could not be switched, by its name; the reason is in it."""

RECOVERY_UNIT = "slurmfab-recovery"
RECOVERY_PROGRAM = f"{PROGRAMS}/recovery"

PYXIS_DROP_IN = "/etc/slurm/plugstack.conf.d/slurmfab-pyxis.conf"  # the file that has Slurm load pyxis
PODMAN_PROGRAM = f"{PROGRAMS}/podman"
PODMAN_SETTINGS = "/etc/slurmfab-podman.json"
SDOCKER = "/usr/local/bin/sdocker"  # the command with the habits of `docker run`; it runs PODMAN_PROGRAM

PRUNE_UNIT = "slurmfab-containers"
RUNTIME_UNIT = "slurmfab-runtime@.service"

JWT_KEY = host_paths.JWT_KEY

REST_SOCKET = "/run/slurmrestd/slurmrestd.socket"  # where slurmrestd listens

SSSD_CONF = host_paths.SSSD_CONF

REGISTRY_CERTIFICATE = host_paths.REGISTRY_CERTIFICATE
REGISTRY_CONF = "/etc/docker/registry/config.yml"  # the settings of the image registry of Debian's package

REGISTRY_PULL_CONF = "/etc/docker/registry/slurmfab-pull.yml"
REGISTRY_USERS = "/etc/docker/registry/slurmfab-users"
IMAGE_REGISTRIES = "/etc/containers/registries.conf.d/slurmfab-registry.conf"
IMAGE_POLICY = "/etc/containers/policy.json"  # which images podman and skopeo accept (containers-policy.json(5))

REGISTRY_FILES = (REGISTRY_CONF, IMAGE_POLICY)
"""Files that other programs name, and that are slurmfab's where the cluster file has `registry`."""

MODULES_PROFILE = "/etc/profile.d/zz-slurmfab-modules.sh"
"""What login shells read after the profile of the package that provides `module`."""

MAIL_PROGRAM = f"{PROGRAMS}/job-mail"  # what slurm.conf names as MailProg where the cluster file has `mail`

MAIL_SETTINGS = "/etc/slurmfab-mail.conf"
"""The relay of mail about jobs, with the password; only the slurm user can read it."""
