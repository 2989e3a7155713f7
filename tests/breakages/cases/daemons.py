"""Daemons that are down, or do not answer."""

from __future__ import annotations

from breakage import Breakage, Mended

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
)
