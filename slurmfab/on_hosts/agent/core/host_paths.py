"""Paths on hosts that the agent and the deployer both need."""

from __future__ import annotations

SLURM_DIRECTORY = "/etc/slurm"  # Slurm's configuration files, the same on all hosts

MUNGE_KEY = "/etc/munge/munge.key"

JWT_KEY = SLURM_DIRECTORY + "/slurmfab-jwt.key"
"""The key by which slurmctld makes tokens, and slurmctld and slurmdbd prove them, for slurmrestd."""

SSSD_CONF = "/etc/sssd/sssd.conf"

PROGRAMS = "/usr/local/lib/slurmfab"
"""The directory of the programs that stay on hosts because the cluster file asks for them."""

SITE_FILES = PROGRAMS + "/slurm-files"
"""The record of the files of the site's own in Slurm's directory that slurmfab has written: a name on each line."""

OWNED = "/var/lib/slurmfab/owned"
"""The directory of the records of files that a host has for capabilities of the cluster file: OF.json for each."""

ADDED_PACKAGES = "/var/lib/slurmfab/packages"
"""The record of the packages that slurmfab has installed: a name on each line."""

HEALTH_CHECK = PROGRAMS + "/health-check"
"""The health check of compute nodes, which slurm.conf names as HealthCheckProgram."""

REGISTRY = "/etc/docker/registry/slurmfab"
"""The directory with the certificates of the cluster's own image registry, on its host."""

REGISTRY_CA = REGISTRY + "/ca.crt"
"""The certificate of the authority that has signed the registry's, which all hosts may know."""

REGISTRY_CERTIFICATE = REGISTRY + "/server.pem"  # key and certificate of the registry
FIREWALL_RULES = "/etc/slurmfab-firewall.nft"  # the rules of slurmfab's own table of nftables

SCRATCH_SETTINGS = "/etc/slurmfab-scratch.json"
"""Where a compute node has the directories of jobs, which the prolog makes and the epilog removes."""

OUR_DROP_INS = ("slurmfab-", "10-slurmfab")  # beginnings of the names of slurmfab's drop-ins of units
