"""The file by which Open OnDemand, a portal for users, knows a cluster."""

from __future__ import annotations

import json

from slurmfab.base.paths import SLURM_DIRECTORY
from slurmfab.cluster.inventory.cluster import Cluster

COMMANDS = "/usr/bin"  # the directory of Slurm's commands in all packages


def cluster_file(cluster: Cluster) -> str:
    """The cluster's file in /etc/ood/config/clusters.d, in YAML (version 2 of the format)."""
    login = (cluster.login or cluster.controllers)[0]
    # Texts in JSON's spelling are texts of YAML.
    name, host = json.dumps(cluster.name), json.dumps(login)
    return f"""\
---
# Made by slurmfab from the cluster file; to be made anew when its login host changes.
v2:
  metadata:
    title: {name}
  login:
    host: {host}
  job:
    adapter: "slurm"
    cluster: {name}
    bin: "{COMMANDS}"
    conf: "{SLURM_DIRECTORY}/slurm.conf"
"""
