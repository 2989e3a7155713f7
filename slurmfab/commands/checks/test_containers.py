"""Checks of containers: each way of running them works in a job, with the job's GPUs and limits."""

from __future__ import annotations

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.slurm.platform import wanted
from slurmfab.commands.checks.container_ways import CALLS, small_root
from slurmfab.commands.checks.gpu_probe import job_script
from slurmfab.commands.checks.hosts import CheckedHost, last_words
from slurmfab.commands.checks.slurm import Slurm, job_words
from slurmfab.commands.checks.test_gpus import assert_has, files_of, gpu_access, is_held
from slurmfab.commands.checks.test_limits import ASKED, EAT, EATEN, ENDED, need_cgroups
from slurmfab.commands.checks.wanted import deploy

OPTION = "--container-image"
TWICE = f'option "{OPTION.lstrip("-")}" provided by both'  # what Slurm says of a plugin that it loads twice

SETUID = "find /usr/lib /usr/libexec -path '*apptainer*' -type f -perm -4000 2>/dev/null"
STARTS = 'echo "inside $(ls /etc/slurmfab-image)"'


def test_srun_starts_containers(pyxis_host: CheckedHost) -> None:
    """srun has the options of pyxis, which Slurm loads once"""
    said = pyxis_host.run("srun --help 2>&1").stdout
    assert OPTION in said, (
        f"srun has no {OPTION}: {next(iter(said.splitlines()), 'it printed nothing')}. "
        f"Repair: {deploy(pyxis_host.name)}; see slurmfab's line in /etc/slurm/plugstack.conf.d"
    )
    assert TWICE not in said, (
        "Slurm loads pyxis twice. Repair: grep -r spank_pyxis /etc/slurm/plugstack.conf*, and remove the line that is "
        "not slurmfab's"
    )


def test_apptainer_works_without_setuid(apptainer_host: CheckedHost, cluster: Cluster) -> None:
    """Apptainer is there, without a program that works as root"""
    done = apptainer_host.run("runuser -u nobody -- apptainer --version")
    assert done.rc == 0, f"Apptainer does not start: {last_words(done)}. Repair: {deploy(apptainer_host.name)}"
    found = apptainer_host.run(SETUID).stdout.split()
    remove = wanted(cluster, apptainer_host.name).manager.remove
    assert not found, f"{found[0]} works as root (setuid). Repair: {remove} apptainer-suid"


def test_containers_start_in_jobs(container_node: CheckedHost, slurm: Slurm, cluster: Cluster) -> None:
    """a job runs a container, by each way of the cluster file"""
    with small_root(container_node) as place:
        for way in ways(cluster):
            options, command = CALLS[way](place, STARTS)
            done = slurm.run((container_node.name,), command, options=options, memory=ASKED)
            assert "inside /etc/slurmfab-image" in done.stdout, (
                f"a job cannot start a container by {way}: {job_words(done)}. Repair: {deploy(container_node.name)}; "
                "see /var/log/slurmd/slurmd.log there"
            )


def test_containers_have_the_gpus_of_their_job(
    container_gpu_node: CheckedHost, slurm: Slurm, lock: Lock, cluster: Cluster
) -> None:
    """a container in a job with one GPU can open that GPU and no other, by each way of the cluster file"""
    name = container_gpu_node.name
    script, is_kept_apart = job_script(files_of(lock, name), opens=True), is_held(lock, slurm, name)
    with small_root(container_gpu_node) as place:
        for way in ways(cluster):
            options, command = CALLS[way](place, script)
            done = slurm.run((name,), command, options=("--gres=gpu:1", *options), memory=ASKED)
            try:
                assert_has(1, name, gpu_access(done, lock, name), is_kept_apart)
            except AssertionError as error:
                raise AssertionError(f"in a container by {way}: {error}") from None


def test_containers_are_held_to_the_memory_of_their_job(
    container_node: CheckedHost, slurm: Slurm, lock: Lock, cluster: Cluster
) -> None:
    """a container over its job's memory limit is ended, by each way of the cluster file"""
    slurm.need_limits("ConstrainRAMSpace")
    need_cgroups(lock, container_node.name)
    with small_root(container_node) as place:
        for way in ways(cluster):
            options, command = CALLS[way](place, EAT)
            done = slurm.run((container_node.name,), command, options=options, memory=ASKED)
            assert str(EATEN * 1024 * 1024) not in done.stdout.split(), (
                f"a container by {way} in a job of {ASKED} MiB could use {EATEN} MiB: it is not in the job's control "
                f"group. Repair: {deploy(container_node.name)}"
            )
            assert ENDED.search(done.stderr), (
                f"a container by {way} in a job of {ASKED} MiB failed, but for another reason than its memory: "
                f"{job_words(done)}. Repair: see /var/log/slurmd/slurmd.log there"
            )


def ways(cluster: Cluster) -> tuple[str, ...]:
    """The ways of the cluster file that can run a command in a root directory."""
    return tuple(way for way in cluster.container_ways if way in CALLS)
