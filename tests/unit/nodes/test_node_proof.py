"""The job that proves a node: its script on this machine, with a container runtime that works or is broken."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from support import cluster

from slurmfab.cluster.facts import Gpu
from slurmfab.cluster.inventory.lock import HostLock, Lock
from slurmfab.commands.nodes.node_proof import work

PLAIN = "cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: n1}]\n"
WITH = {
    "apptainer": PLAIN + "containers: {use: [apptainer]}\npackages: {all: [apptainer]}\n",
    "oci": PLAIN + "containers: [oci]\n",
    "podman": PLAIN + "containers: [podman]\n",
}
WITH_CONTAINERS = WITH["apptainer"]
RUNTIME = """\
#!/bin/sh
if [ -e "$BROKEN" ]; then echo "libfuse3.so.3: cannot open shared object file" >&2; exit 1; fi
while [ "$1" != sh ]; do
    case $1 in --container=*) root=${1#*=}/root ;; *) [ ! -d "$1" ] || [ "$1" = / ] || root=$1 ;; esac
    shift
done
exec sh -c "$(echo "$3" | sed "s,/etc/,$root/etc/,")"
"""
"""Stands in for Apptainer, sdocker and srun: sees the files of the root directory that it is called with."""

PROGRAMS = {"apptainer": RUNTIME, "sdocker": RUNTIME, "srun": RUNTIME, "podman": '#!/bin/sh\nshift\nexec "$@"\n'}


def with_gpus(*files: str) -> Lock:
    """The lock of that cluster, whose node has GPUs with these device files."""
    return Lock(hosts={"n1": HostLock(gpus=tuple(Gpu(file, "a100", "") for file in files))})


def job(text: str, lock: Lock, place: Path, *, is_broken: bool = False) -> subprocess.CompletedProcess[str]:
    """What the script of a node's job does here."""
    for name, script in PROGRAMS.items():
        (place / name).write_text(script)
        (place / name).chmod(0o755)
    if is_broken:
        (place / "broken").touch()
    words = work(cluster(text), lock, "n1")
    environment = {"PATH": f"{place}:/usr/sbin:/usr/bin:/sbin:/bin", "BROKEN": str(place / "broken")}
    command = words[words.index("sh") :]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_a_node_when_its_users_run_plain_jobs_alone_then_gets_one() -> None:
    assert work(cluster(PLAIN), Lock(), "n1") == ("--mem=20M", "hostname")


def test_a_node_when_slurm_knows_of_less_memory_then_gets_a_job_that_fits() -> None:
    small = PLAIN.replace("{hosts: n1}", "{hosts: n1, RealMemory: 1}")
    assert work(cluster(small), Lock(), "n1") == ("--mem=1M", "hostname")


@pytest.mark.parametrize("way", WITH)
def test_containers_when_they_start_then_the_job_passes_and_leaves_nothing(way: str, tmp_path: Path) -> None:
    done = job(WITH[way], Lock(), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    (made,) = {*re.findall(r"/var/tmp/slurmfab-proof-\w+", " ".join(done.args))}
    assert not Path(made).exists()


@pytest.mark.parametrize("way", WITH)
def test_containers_when_a_library_is_gone_then_the_job_fails_with_the_runtimes_word(way: str, tmp_path: Path) -> None:
    done = job(WITH[way], Lock(), tmp_path, is_broken=True)
    assert done.returncode == 1
    assert f"error: a container by {way}: libfuse3.so.3: cannot open shared object file" in done.stderr


@pytest.mark.parametrize(
    ("file", "error"),
    [("/dev/null", ""), ("/dev/nvidia-of-nobody", "error: a job with a GPU can open none")],
)
def test_gpus_when_a_job_asks_for_one_then_it_has_to_open(file: str, error: str, tmp_path: Path) -> None:
    lock = with_gpus(file)
    assert "--gres=gpu:1" in work(cluster(WITH_CONTAINERS), lock, "n1")
    assert error in job(WITH_CONTAINERS, lock, tmp_path).stderr
    assert job(PLAIN, lock, tmp_path).returncode == (1 if error else 0)
