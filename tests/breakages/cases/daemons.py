"""Daemons that are down, or do not answer."""

from __future__ import annotations

from breakage import Breakage, Mended, Setting

ROWS = (
    Breakage(
        name="slurmd-stopped",
        what="slurmd was stopped",
        breaks="systemctl stop slurmd",
        check=("slurmd",),
        plan=("slurmd",),
        deploy=Mended(),
    ),
    Breakage(
        name="munged-stopped",
        what="munged was stopped",
        breaks="systemctl stop munge",
        check=("munge",),
        plan=("munge",),
        deploy=Mended(),
    ),
    Breakage(
        name="slurmctld-stopped",
        what="slurmctld was stopped",
        host="ctl",
        breaks="systemctl stop slurmctld",
        check=("slurmctld",),
        plan=("slurmctld",),
        deploy=Mended(),
    ),
    Breakage(
        name="slurmdbd-stopped",
        what="slurmdbd was stopped",
        host="ctl",
        breaks="systemctl stop slurmdbd",
        check=("slurmdbd",),
        plan=("slurmdbd",),
        deploy=Mended(),
        database=True,
    ),
    Setting(
        name="slurmctld-does-not-start",
        what="slurm_conf names a plugin that slurmctld does not find when it starts",
        text="slurm_conf: {SchedulerType: sched/nonsense}\n",
        plan=("sched/nonsense",),
        plan_code=4,
        deploy=("fatal: ", "sched", "Slurm's earlier files are back on ctl,n[1-2], and slurmctld runs with them."),
        deploy_code=1,
    ),
    Setting(
        name="slurmd-does-not-start",
        what="slurm_conf names a plugin that slurmd does not find when it starts",
        text="slurm_conf: {TaskPlugin: task/nonsense}\n",
        plan=("task/nonsense",),
        plan_code=4,
        deploy=("task/nonsense", "Slurm's earlier files are back on ctl,n[1-2], and slurmctld runs with them."),
        deploy_code=1,
    ),
)
