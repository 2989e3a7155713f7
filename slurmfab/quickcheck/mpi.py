"""Check of MPI: srun starts a program on two nodes, and its processes send to each other if there is an MPI."""

from __future__ import annotations

import re
import shlex

import pytest

from slurmfab.hostlist import fold
from slurmfab.program_name import FAB
from slurmfab.quickcheck.basics import pair_of
from slurmfab.quickcheck.bench import Bench, memory_for

MEMORY = 512
"""MiB for each task: a compiler or Python, and the buffers of MPI."""

RING_IN_C = """\
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
    int rank, size, sent, got = -1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    sent = rank + 100;
    MPI_Sendrecv(&sent, 1, MPI_INT, (rank + 1) % size, 0, &got, 1, MPI_INT, (rank + size - 1) % size, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    printf("ring=%d/%d got=%d\\n", rank, size, got);
    return MPI_Finalize();
}
"""
RING_IN_PYTHON = (
    "from mpi4py import MPI; c = MPI.COMM_WORLD; r, n = c.rank, c.size; "
    "print('ring=%d/%d got=%d' % (r, n, c.sendrecv(r + 100, (r + 1) % n, source=(r - 1) % n)))"
)
"""Each process sends its number to the next one, and tells what it got."""

TASK = f"""
echo "rank=${{PMIX_RANK:-$PMI_RANK}}"
if command -v mpicc >/dev/null; then
    place=$(mktemp -d) && trap 'rm -rf "$place"' EXIT
    printf %s {shlex.quote(RING_IN_C)} >"$place/ring.c"
    mpicc -o "$place/ring" "$place/ring.c" && "$place/ring"
elif python3 -c 'import mpi4py' 2>/dev/null; then
    python3 -c {shlex.quote(RING_IN_PYTHON)}
fi
"""
"""What each task runs: it prints the rank that srun gave it, and takes part in the ring where there is an MPI."""


def mpi(bench: Bench) -> str:
    """Start one task on each of two nodes, as `mpi` says.

    Returns:
        The text for the line of a passed check.

    Raises:
        AssertionError: srun gave no ranks, the processes did not reach each other, or the job failed.
        pytest.skip.Exception: there is nothing to start, or other jobs use the resources.
    """
    wanted = bench.cluster.mpi
    if wanted is None or wanted.kind == "none":
        pytest.skip("the cluster file has no mpi." if wanted is None else "the cluster file has mpi: none.")
    pair = pair_of(bench, bench.free())
    records = bench.records()
    memory = min(memory_for(records[node], MEMORY, 1) for node in pair)
    printed = bench.run(pair, TASK, memory=memory, options=(f"--mpi={wanted.kind}",))
    repair = f"Repair: {FAB} check-cluster --only mpi; see /var/log/slurm/slurmd.log on {fold(pair)}"
    ranks = sorted(re.findall(r"^rank=(\d*)$", printed, re.MULTILINE))
    assert ranks == ["0", "1"], f"srun --mpi={wanted.kind} gave the ranks {', '.join(ranks) or 'none'}. {repair}"
    started = f"srun started a process on each of {fold(pair)} by {wanted.kind}"
    if "ring=" not in printed:
        return f"{started}; no mpicc and no mpi4py there, so no message was sent"
    got = set(re.findall(r"^ring=(\d)/2 got=(\d+)$", printed, re.MULTILINE))
    assert got == {("0", "101"), ("1", "100")}, (
        f"the processes on {fold(pair)} did not reach each other: {' '.join(printed.split())[:200]}. {repair}"
    )
    return f"{started}, and they sent messages to each other"
