"""Quickcheck of MPI: srun starts the program of `check-cluster` on two nodes, also in containers."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Callable, Mapping

import pytest

from slurmfab.cluster.slurm.oci import bundle_config
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.commands.checks.mpi_program import MEMORY, TASK, TOGETHER, met
from slurmfab.commands.quickcheck.basics import pair_of
from slurmfab.commands.quickcheck.bench import Bench, memory_for

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
    printed = bench.run(pair, task, memory=memory_of(bench, pair), options=(*options, TOGETHER), may_fail=True)
    return met(bench.cluster, pair, options[0], printed)
