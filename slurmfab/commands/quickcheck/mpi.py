"""Check of MPI: srun starts a program on two nodes, and its processes send to each other if there is an MPI."""

from __future__ import annotations

import re
import shlex

import pytest

from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.commands.quickcheck.basics import pair_of
from slurmfab.commands.quickcheck.bench import Bench, memory_for

MEMORY = 512  # MiB for each task: a compiler or Python, and the buffers of MPI

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
OPEN_MPI = "libmpi.so.40"
"""The library of Open MPI 3 to 5, without which no program of it starts; it needs no compiler and no mpi4py."""

RING_IN_LIBRARY = f"""
import ctypes
mpi = ctypes.CDLL("{OPEN_MPI}", mode=ctypes.RTLD_GLOBAL)
found = (ctypes.c_char.in_dll(mpi, "ompi_mpi_" + name) for name in ("comm_world", "int"))
world, number = (ctypes.c_void_p(ctypes.addressof(one)) for one in found)
mpi.MPI_Init(None, None)
rank, size, got = ctypes.c_int(), ctypes.c_int(), ctypes.c_int(-1)
mpi.MPI_Comm_rank(world, ctypes.byref(rank))
mpi.MPI_Comm_size(world, ctypes.byref(size))
to, source = ((rank.value + step) % size.value for step in (1, -1))
sent = ctypes.c_int(rank.value + 100)
mpi.MPI_Sendrecv(ctypes.byref(sent), 1, number, to, 0, ctypes.byref(got), 1, number, source, 0, world, None)
print("ring=%d/%d got=%d" % (rank.value, size.value, got.value), flush=True)
mpi.MPI_Finalize()
"""
"""Each process sends its number to the next one, and prints what it got; the same in three ways.

In Open MPI, the handles of mpi.h are the addresses of these symbols, and MPI_STATUS_IGNORE is 0.
"""

TASK = f"""
echo "rank=${{PMIX_RANK:-$PMI_RANK}}"
place=$(mktemp -d) && trap 'rm -rf "$place"' EXIT || exit
printf %s {shlex.quote(RING_IN_C)} >"$place/ring.c"
if command -v mpicc >/dev/null && mpicc -o "$place/ring" "$place/ring.c" 2>"$place/why"; then
    echo "by=a C program" && "$place/ring"
elif python3 -c 'import mpi4py' 2>/dev/null; then
    echo by=mpi4py && python3 -c {shlex.quote(RING_IN_PYTHON)}
elif python3 -c 'import ctypes; ctypes.CDLL("{OPEN_MPI}")' 2>/dev/null; then
    echo "by=Open MPI" && python3 -c {shlex.quote(RING_IN_LIBRARY)}
elif test -s "$place/why"; then
    cat "$place/why" >&2 && exit 1
fi
"""
"""What each task runs: it prints the rank that srun gave it, and takes part in the ring where there is an MPI.

Debian's openmpi-bin has mpicc, but brings no compiler, without which mpicc fails.
"""


def mpi(bench: Bench) -> str:
    """Start one task on each of two nodes, as `mpi` says."""
    wanted = bench.cluster.mpi
    if wanted is None or wanted.kind == "none":
        pytest.skip("the cluster file has no mpi." if wanted is None else "the cluster file has mpi: none.")
    pair = pair_of(bench)
    records = bench.records()
    memory = min(memory_for(records[node], MEMORY, 1) for node in pair)
    printed = bench.run(pair, TASK, memory=memory, options=(f"--mpi={wanted.kind}",))
    repair = f"Repair: {FAB} check-cluster --only mpi; see /var/log/slurmd/slurmd.log on {fold(pair)}"
    ranks = sorted(re.findall(r"^rank=(\d*)$", printed, re.MULTILINE))
    assert ranks == ["0", "1"], f"srun --mpi={wanted.kind} gave the ranks {', '.join(ranks) or 'none'}. {repair}"
    started = f"srun started a process on each of {fold(pair)} by {wanted.kind}"
    if "ring=" not in printed:
        why = "cannot be loaded" if wanted.packages else "is not there (mpi.packages: openmpi installs it)"
        return f"{started}; no message was sent, because {OPEN_MPI} {why}"
    got = set(re.findall(r"^ring=(\d)/2 got=(\d+)$", printed, re.MULTILINE))
    assert got == {("0", "101"), ("1", "100")}, (
        f"the processes on {fold(pair)} did not reach each other: {' '.join(printed.split())[:200]}. {repair}"
    )
    way = re.search(r"^by=(.+)$", printed, re.MULTILINE)
    return f"{started}, and they sent messages to each other{f' ({way[1]})' if way else ''}"
