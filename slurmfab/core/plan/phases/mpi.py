"""MPI: the packages that srun needs to start its programs, on hosts on which srun and jobs run."""

from __future__ import annotations

from slurmfab.cluster.slurm.software import MPI_LIBRARIES, PMIX
from slurmfab.core.plan.phases import modules
from slurmfab.core.plan.plan_input import PlanInput


def packages(plan_input: PlanInput, host: str) -> tuple[str, ...]:
    """What Slurm's plugin opens in the host's release, and the MPI that the cluster file names."""
    mpi = plan_input.cluster.mpi
    if mpi is None or not modules.is_for(plan_input, host):
        return ()
    release = plan_input.facts[host].codename if host in plan_input.facts else ""
    plugin = PMIX.get(release, ()) if mpi.kind == "pmix" else ()
    return (*plugin, *(MPI_LIBRARIES[mpi.packages] if mpi.packages else ()))
