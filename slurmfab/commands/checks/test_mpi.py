"""Checks of MPI: srun can start programs as slurm.conf says, and the MPI of the cluster file is there."""

from __future__ import annotations

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.own_jobs import NOBODY
from slurmfab.commands.checks.applies import DoesNotApply
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.mpi_program import MEMORY, TASK, TOGETHER, met
from slurmfab.commands.checks.slurm import Slurm
from slurmfab.commands.checks.test_jobs import widest_partition
from slurmfab.commands.checks.wanted import deploy

LIST = "srun --mpi=list 2>&1"
OPENED = "ldconfig -p | grep -q -F libpmix.so || ls /usr/lib/*/libpmix.so* >/dev/null 2>&1"
"""Whether there is a library that the plugin mpi/pmix can open."""

OPEN_MPI = "command -v mpirun >/dev/null && ldconfig -p | grep -q -F libmpi.so.40"
"""Whether there are programs and the library of Open MPI."""


def test_srun_can_start_mpi(mpi_host: CheckedHost, cluster: Cluster) -> None:
    """srun has what it needs to start MPI programs"""
    assert cluster.mpi is not None, "the argument asks for it"
    found = mpi_host.run(LIST).stdout
    assert cluster.mpi.kind in found.replace(",", " ").split(), (
        f"srun knows no --mpi={cluster.mpi.kind}: {' '.join(found.split())[:200]}. "
        "Repair: install the package with Slurm's plugins, or choose another type in mpi"
    )
    assert cluster.mpi.kind != "pmix" or mpi_host.run(OPENED).rc == 0, (
        f"there is no libpmix.so, which Slurm's plugin mpi/pmix opens. Repair: {deploy(mpi_host.name)}"
    )


def test_mpi_is_there(open_mpi_host: CheckedHost) -> None:
    """Open MPI is there, as mpi.packages says"""
    assert open_mpi_host.run(OPEN_MPI).rc == 0, (
        f"mpirun or libmpi.so.40 of Open MPI is missing. Repair: {deploy(open_mpi_host.name)}"
    )


def test_mpi_program_runs(mpi_controller: CheckedHost, slurm: Slurm, cluster: Cluster) -> None:
    """an MPI program of a user runs on two nodes"""
    assert cluster.mpi is not None, "the argument asks for it"
    pair = widest_partition(cluster, tuple(slurm.sound_nodes()))[:2]
    if not pair:
        raise DoesNotApply("no node takes jobs")
    # Without users of the cluster file, it is the slurm user's, whom every partition takes.
    who = slurm.ordinary
    sender = Slurm(mpi_controller, cluster, user=who.name, sender=who.command) if who and who.name != NOBODY else slurm
    option = f"--mpi={cluster.mpi.kind}"
    try:
        done = sender.run(pair, TASK, memory=MEMORY, options=(option, TOGETHER))
    finally:
        sender.cancel()
    met(cluster, pair, option, f"{done.stdout}{done.stderr}")
