"""Partitions: slurmfab's own, and what users' files say about it."""

from __future__ import annotations

from breakage import Breakage, Mended, Setting

ROWS = (
    Breakage(
        name="own-partition-missing",
        what="slurmfab's own partition is missing from slurm.conf, as in a cluster of an older slurmfab",
        host="ctl",
        breaks="sed -i '/^PartitionName=slurmfab/d' /etc/slurm/slurm.conf && scontrol reconfigure",
        shows="! scontrol show partition slurmfab",
        everywhere=True,
        check=("slurm.conf differs from the cluster file", "jobs: a job runs on the node (n[1-2])"),
        plan=("partition slurmfab: added",),
        deploy=Mended(),
    ),
    Setting(
        name="partition-named-slurmfab",
        what="a partition has the name of slurmfab's own",
        replaces="PartitionName: main",
        text="PartitionName: slurmfab",
        plan=("partitions[0].PartitionName", "is the name of the hidden partition of slurmfab's own jobs"),
        deploy=("is the name of the hidden partition of slurmfab's own jobs",),
    ),
)
