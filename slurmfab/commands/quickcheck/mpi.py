"""Check of MPI: srun starts a program on two nodes, and its processes send to each other if there is an MPI."""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Callable, Mapping

import pytest

from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.cluster.slurm.oci import bundle_config
from slurmfab.cluster.slurm.versions import SlurmVersion
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


ROOT = (
    'mkdir -m 755 "{place}" && cd "{place}" && mkdir root && cd root && mkdir usr proc sys dev etc tmp run var && '
    "chmod 1777 tmp && ln -s usr/bin bin && ln -s usr/lib lib && ln -s usr/lib64 lib64 && "
    "echo root:x:0:0::/:/bin/sh >etc/passwd && printf %s {config} >../config.json"
)
"""Makes a root directory of a node's own programs, once its /usr is mounted there, and what makes it a bundle."""

NOT_TRIED: Mapping[str, str] = {
    "enroot": "MPI in containers of enroot is not tried here; its hook slurm-pmi is for that.",
    "docker": "Docker's containers are outside of the job, so MPI in them is not tried; use another way for it.",
}
"""By way of containers, why no MPI program is tried by it."""

OCI_HAS_MPI = SlurmVersion(23, 2)
"""From this Slurm on, its own containers are told what tells the tasks of a program apart."""

INSIDE: Mapping[str, str] = {
    "podman": "sdocker run --volume=/usr:/usr:ro --workdir=/ --rootfs {place}/root sh -c {task}",
    "oci": "{task}",
    "apptainer": "apptainer exec --no-home --bind=/usr --pwd=/ {place}/root sh -c {task}",
}
"""By way of containers, the call that runs a task in that root directory."""


def mpi(bench: Bench) -> str:
    """Start one task on each of two nodes, as `mpi` says."""
    kind = kind_of(bench)
    return ring(bench, pair_of(bench), TASK, (f"--mpi={kind}",))


def mpi_by(way: str) -> Callable[[Bench], str]:
    """The check that starts one task in a container on each of two nodes, by a way of the cluster file."""

    def work(bench: Bench) -> str:
        kind = kind_of(bench)
        if way in NOT_TRIED:
            pytest.skip(NOT_TRIED[way])
        pair = pair_of(bench)
        release = bench.known.lock.slurm
        if way == "oci" and release and SlurmVersion.parse(release) < OCI_HAS_MPI:
            pytest.skip(
                f"Slurm {release} gives its own containers nothing of {kind}; use sdocker or Apptainer for MPI."
            )
        place = f"/var/tmp/slurmfab-mpi-{secrets.token_hex(6)}"  # noqa: S108 - its name is not to be guessed
        config = shlex.quote(bundle_config("root", ("/usr",)))
        task = shlex.quote(TASK) if way != "oci" else TASK
        call = INSIDE[way].replace("{place}", place).replace("{task}", task)
        options = (f"--mpi={kind}", *((f"--container={place}",) if way == "oci" else ()))
        size = memory_of(bench, pair)
        try:
            bench.run(pair, ROOT.replace("{place}", place).replace("{config}", config), memory=size)
            return f"in containers by {way}, {ring(bench, pair, call, options)}"
        finally:
            bench.run(pair, f"rm -rf {place} 2>/dev/null || podman unshare rm -rf {place}", memory=size)

    return work


def kind_of(bench: Bench) -> str:
    """How the cluster file has srun start MPI programs; skips the check if it does not."""
    wanted = bench.cluster.mpi
    if wanted is None or wanted.kind == "none":
        pytest.skip("the cluster file has no mpi." if wanted is None else "the cluster file has mpi: none.")
    return wanted.kind


def memory_of(bench: Bench, pair: tuple[str, ...]) -> int:
    """MiB of memory for each task."""
    records = bench.records()
    return min(memory_for(records[node], MEMORY, 1) for node in pair)


def ring(bench: Bench, pair: tuple[str, ...], task: str, options: tuple[str, ...]) -> str:
    """Run the task on two nodes; AssertionError if processes did not get their ranks, or reach each other."""
    wanted, (way, *_) = bench.cluster.mpi, options
    printed = bench.run(pair, task, memory=memory_of(bench, pair), options=options)
    repair = f"Repair: {FAB} check-cluster --only mpi; see /var/log/slurmd/slurmd.log on {fold(pair)}"
    ranks = sorted(re.findall(r"^rank=(\d*)$", printed, re.MULTILINE))
    assert ranks == ["0", "1"], f"srun {way} gave the ranks {', '.join(ranks) or 'none'}. {repair}"
    started = f"srun started a process on each of {fold(pair)} by {way.partition('=')[2]}"
    if "ring=" not in printed:
        why = "cannot be loaded" if wanted and wanted.packages else "is not there (mpi.packages: openmpi installs it)"
        return f"{started}; no message was sent, because {OPEN_MPI} {why}"
    got = set(re.findall(r"^ring=(\d)/2 got=(\d+)$", printed, re.MULTILINE))
    assert got == {("0", "101"), ("1", "100")}, (
        f"the processes on {fold(pair)} did not reach each other: {' '.join(printed.split())[:200]}. {repair}"
    )
    by = re.search(r"^by=(.+)$", printed, re.MULTILINE)
    return f"{started}, and they sent messages to each other{f' ({by[1]})' if by else ''}"
