"""The job that proves a node after upgrade, update or reboot, in each way in which users run jobs."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Callable
from typing import Any

from slurmfab.base.hostlist import fold
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.inventory.own_jobs import partition_of_own_jobs
from slurmfab.cluster.inventory.slurm_settings import setting
from slurmfab.commands.checks.container_ways import CALLS, make_script
from slurmfab.commands.checks.gpu_probe import GONE, job_script
from slurmfab.core.engine.actor import stamp
from slurmfab.core.engine.run import Run
from slurmfab.core.status.selection import gpus_of
from slurmfab.hosts.session import answer_value
from slurmfab.on_hosts.agent.nodes.acceptance import NodeAcceptance

BUSY, PLAIN = "busy", "plain"
"""What the agent says of a node without room for a job, and of one with room for a plain one alone
(`slurmfab.on_hosts.agent.upgrade.trial_jobs`)."""

MEMORY, MEMORY_OF_CONTAINERS = 20, 512  # MiB; little, so that the job fits beside those of users

STEP = "env -u TMPDIR srun --input=none --mpi=none --overlap --mem=0 --nodes=1 --ntasks=1"
INSIDE = "ls /etc/slurmfab-image"

SCRIPT = """\
export HOME=$(getent passwd "$(id -u)" | cut -d: -f6) USER=$(id -un) LOGNAME=$(id -un)
unset XDG_RUNTIME_DIR
fail() { echo "error: $1" >&2; exit 1; }
opens() { grep '^/' | grep -qvE 'Operation not permitted|Permission denied|%(gone)s'; }
%(gpus)s%(containers)shostname
"""
GPUS = "(%s) | opens || fail 'a job with a GPU can open none'\n"
ROOT = """\
trap 'rm -rf %(place)s' EXIT
sh -c %(make)s >&2 || fail 'a root directory for containers cannot be made'
"""
CONTAINER = """\
said=$(timeout 90 %(call)s 2>&1) || fail "a container by %(way)s: $(echo "$said" | grep -v 'Exited with' | tail -n 1)"
"""
CONTAINER_GPUS = "echo \"$said\" | opens || fail 'a container by %s in a job with a GPU can open none'\n"


def work(cluster: Cluster, lock: Lock, node: str) -> tuple[str, ...]:
    """srun's options and the command of the job that proves a node, by the lock's device files of GPUs."""
    files = dict.fromkeys(
        file for gpu in (lock.hosts[node].gpus if node in lock.hosts else ()) for file in (gpu.file, *gpu.with_files)
    )
    gpus = job_script(tuple(files), opens=True) if files and gpus_of(cluster, lock, node) else ""
    ways = [way for way in cluster.container_ways if way in CALLS]
    known = setting(cluster.settings_of(node), "RealMemory")
    memory = min(MEMORY_OF_CONTAINERS if ways else MEMORY, int(known) if known.isdecimal() else MEMORY_OF_CONTAINERS)
    options = (f"--mem={memory}M", *(("--gres=gpu:1",) if gpus else ()), *(("--time=5",) if ways else ()))
    if not gpus and not ways:
        return (*options, "hostname")
    place = f"/var/tmp/slurmfab-proof-{secrets.token_hex(6)}"  # noqa: S108 - its name is not to be guessed
    containers = ROOT % {"place": place, "make": shlex.quote(make_script(place))} if ways else ""
    for way in ways:
        srun, command = CALLS[way](place, f"{INSIDE} && {{ {gpus}; }}" if gpus else INSIDE)
        call = f"{STEP} {shlex.join(srun)} sh -c {shlex.quote(command)}" if srun else f"sh -c {shlex.quote(command)}"
        containers += CONTAINER % {"call": call, "way": way} + (CONTAINER_GPUS % way if gpus else "")
    script = SCRIPT % {"gone": GONE, "gpus": GPUS % gpus if gpus else "", "containers": containers}
    return (*options, "sh", "-c", script)


def give_back(cluster: Cluster, lock: Lock, nodes: tuple[str, ...]) -> NodeAcceptance:
    """The return of drained nodes into service, after that job has run on each in a reservation."""
    partitions = tuple(partition_of_own_jobs(cluster, (node,)) for node in nodes)
    return NodeAcceptance(
        nodes, stamp(), partitions=partitions, works=tuple(work(cluster, lock, node) for node in nodes)
    )


def run_jobs(
    run: Run, nodes: tuple[str, ...], failed: Callable[[str, str], None], reservation: str = ""
) -> tuple[str, ...]:
    """Prove nodes in service beside users' jobs, telling `failed`; those that ran or had no room, or HostError.

    `reservation`: the one in which the jobs run; empty for none.
    """
    if not nodes:
        return ()
    cluster, lock = run.inventory.cluster, run.inventory.lock
    partitions = [partition_of_own_jobs(cluster, (node,)) for node in nodes]
    inside = [f"--reservation={reservation}"] if reservation else []
    works = [[*inside, *work(cluster, lock, node)] for node in nodes]
    request = {"op": "trial-jobs", "nodes": list(nodes), "partitions": partitions, "works": works}
    found: dict[str, Any] = dict(
        answer_value(run.controller, run.transport.call(run.controller, request), "trial_jobs")
    )
    passed = tuple(node for node in nodes if found.get(node) in ("", BUSY, PLAIN))
    for node in nodes:
        if node not in passed:
            failed(node, f"a job on it failed: {found.get(node, 'no answer')}")
    for answer, text in ((BUSY, "no test job was run there"), (PLAIN, "no test job with GPUs or containers was run")):
        if some := [node for node in passed if found[node] == answer]:
            run.progress.line(f"{fold(some)}: busy with jobs, so that {text}.")
    return passed
