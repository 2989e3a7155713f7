"""An MPI program that users could have written: each task tells its number to the next one; and what came of it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from slurmfab.base.hostlist import fold
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.slurm_settings import setting
from slurmfab.commands.checks.wanted import deploy

TOGETHER = "--kill-on-bad-exit=1"  # option of srun: where one task has failed, the others would wait for it
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

MEETING = """
import ctypes
pmix, me, none = ctypes.CDLL("libpmix.so.2"), ctypes.create_string_buffer(260), ctypes.c_size_t(0)
code = pmix.PMIx_Init(me, None, none) or pmix.PMIx_Fence(None, none, None, none)
print("PMIX ERROR: %d" % code if code else "met=yes", flush=True)
raise SystemExit(bool(code or pmix.PMIx_Finalize(None, none)))
"""
"""Without an MPI: the processes meet by PMIx, which any MPI that srun starts by `pmix` begins with.

The structure is that of pmix_proc_t: 256 bytes of a name, and a number."""

MEETING_BY_PMI2 = """
import ctypes
pmi, numbers = ctypes.CDLL("libpmi2.so.0"), [ctypes.byref(ctypes.c_int()) for _ in range(4)]
code = pmi.PMI2_Init(*numbers) or pmi.PMI2_KVS_Fence()
print("PMI-2 ERROR: %d" % code if code else "met=yes", flush=True)
raise SystemExit(bool(code or pmi.PMI2_Finalize()))
"""
"""The same by PMI-2, with the library that Slurm has for it."""

TASK = f"""
echo "rank=${{PMIX_RANK:-$PMI_RANK}}"
exec 2>&1
place=$(mktemp -d) && trap 'rm -rf "$place"' EXIT || exit
printf %s {shlex.quote(RING_IN_C)} >"$place/ring.c"
command -v mpicc >/dev/null && ! command -v gcc >/dev/null && echo mpicc=alone
if command -v mpicc >/dev/null && mpicc -o "$place/ring" "$place/ring.c" 2>"$place/why"; then
    echo "by=a C program" && "$place/ring"
elif python3 -c 'import mpi4py' 2>/dev/null; then
    echo by=mpi4py && python3 -c {shlex.quote(RING_IN_PYTHON)}
elif test -n "$PMIX_RANK" && python3 -c 'import ctypes; ctypes.CDLL("{OPEN_MPI}")' 2>/dev/null; then
    echo "by=Open MPI" && python3 -c {shlex.quote(RING_IN_LIBRARY)}
elif test -s "$place/why"; then
    cat "$place/why" && false
elif test -n "$PMIX_RANK" && python3 -c 'import ctypes; ctypes.CDLL("libpmix.so.2")' 2>/dev/null; then
    python3 -c {shlex.quote(MEETING)}
elif test -z "$PMIX_RANK" && python3 -c 'import ctypes; ctypes.CDLL("libpmi2.so.0")' 2>/dev/null; then
    python3 -c {shlex.quote(MEETING_BY_PMI2)}
fi
code=$?
echo "ended=$code"
exit $code
"""
"""What each task runs: it prints the rank that srun gave it, and takes part in the ring where there is an MPI.

Debian's openmpi-bin has mpicc, but brings no compiler, without which mpicc fails. Its library knows no PMI-2: there,
each process would be a program of its own.
"""


def met(cluster: Cluster, nodes: Sequence[str], option: str, printed: str) -> str:
    """What came of the task on some nodes, one each, by what it printed; AssertionError if it was no one program.

    `option`: srun's, such as `--mpi=pmix`.
    """
    wanted, kind, size = cluster.mpi, option.partition("=")[2], len(nodes)
    ranks = sorted(re.findall(r"^rank=(\d*)$", printed, re.MULTILINE))
    words = [
        line.strip() for line in printed.splitlines() if not re.match(r"(rank|by|ended|ring|met|mpicc)=|\W*$", line)
    ]
    log = f"/var/log/slurmd/slurmd.log on {fold(nodes)}"
    assert ranks == list(map(str, range(size))), (
        f"srun {option} gave the ranks {', '.join(ranks) or 'none'}. Repair: see {log}"
    )
    failed = set(re.findall(r"^ended=(\d+)$", printed, re.MULTILINE)) != {"0"}
    said = next(
        (line for line in words if re.search(r"\berror\b", line, re.IGNORECASE)), (words or ["it printed nothing"])[-1]
    ).rstrip(".")
    containers = setting(cluster.slurm_conf, "JobContainerType") or setting(cluster.slurm_conf, "NamespaceType")
    if failed and "PMIX" in said and (cluster.private_tmp or "tmpfs" in containers):
        own = setting(cluster.slurm_conf, "TaskProlog")
        told = f"let {own} (TaskProlog) print: export PMIX_MCA_gds=hash"
        mended = told if own else "job_environment: {all: {PMIX_MCA_gds: hash}} in the cluster file, then deploy"
        raise AssertionError(
            f"an MPI program on {fold(nodes)} fails: {said}. Where /tmp is private to jobs, it does not see the files "
            "of Slurm's server of PMIx, unless it has the variable PMIX_MCA_gds=hash. Repair: "
            + (deploy(fold(nodes)) if cluster.hides_pmix else mended)
        )
    assert not failed, f"an MPI program on {fold(nodes)}, started by srun {option}, fails: {said}. Repair: see {log}"
    started = f"srun started a process on each of {fold(nodes)} by {kind}"
    if "met=yes" in printed:
        return f"{started}, and they met; no message was sent, as no MPI is there (mpi.packages: openmpi installs it)"
    if "ring=" not in printed:
        why = "cannot be loaded" if wanted and wanted.packages else "is not there (mpi.packages: openmpi installs it)"
        return f"{started}; no message was sent, because {OPEN_MPI} {why}"
    got = sorted(re.findall(r"^ring=(\d+)/(\d+) got=(\d+)$", printed, re.MULTILINE))
    assert got == [(str(rank), str(size), str(100 + (rank - 1) % size)) for rank in range(size)], (
        f"the processes on {fold(nodes)} did not reach each other: {' '.join(printed.split())[:200]}. Repair: see {log}"
    )
    by = re.search(r"^by=(.+)$", printed, re.MULTILINE)
    alone = "; mpicc is there without a compiler: packages: {all: [gcc, libopenmpi-dev]}" if "mpicc=" in printed else ""
    return f"{started}, and they sent messages to each other{f' ({by[1]}{alone})' if by else ''}"
