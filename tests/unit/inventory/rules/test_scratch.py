"""What a cluster file may say of jobs' directories on their nodes' disks, and what jobs are told of them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from support import THREE_HOSTS, cluster

from slurmfab.base.errors import ClusterFileError
from slurmfab.core.plan.phases.scripts import task_prolog_text

SIZED = "scratch: {size: 400G}"


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("scratch: {path: /scratch}", "it needs a size, such as 400G, or groups with sizes"),
        ("scratch: {groups: [{hosts: n1, size: 0G}]}", "it needs a size"),
        ("scratch: {size: 0G}", "it must be at least 1"),
        ("scratch: {size: 400}", '"400" is not a size in whole gigabytes or terabytes'),
        ("scratch: {size: 90%}", '"90%" is not a size in whole gigabytes or terabytes'),
        ("scratch: {size: 4G, variable: SLURM_TMP}", "Slurm sets the variables"),
        ("scratch: {size: 4G, groups: [{hosts: c1, size: 1G}]}", '"c1" is not a compute node'),
        ("scratch: {size: 4G, path: /tmp}", "is a directory of the system"),
        ("scratch: {size: 4G, path: /var/lib/slurm/slurmctld/x}", "inside /var/lib/slurm/slurmctld"),
        ("scratch: {size: 4G, path: /data}\nusers: [{name: ann, home: /data/ann}]", "which is the home of ann"),
        ("scratch: {size: 4G, path: /data/jobs}\nhomes: /data", "inside /data, which is the directory of homes"),
        (f"{SIZED}\nprivate_tmp: {{BasePath: /scratch/tmp}}", "contains or is inside"),
        (f'{SIZED}\nprivate_tmp: {{Dirs: "/tmp,/scratch"}}', "which is private_tmp, of which each job sees another"),
        (f"{SIZED}\nslurm_conf: {{Epilog: /x}}", "it comes from the key scratch at the top"),
        (f"{SIZED}\nslurm_conf: {{TaskProlog: /x}}", "it comes from the key scratch at the top"),
        (f"{SIZED}\nslurm_files: {{prolog.d/own: own}}", "slurmfab fills prolog.d from its key at the top"),
        (f"{SIZED}\nslurm_conf: {{GresTypes: gpu}}", "needs scratch among these names"),
        (f"{SIZED}\njob_environment: {{all: {{SCRATCH: /x}}}}", "the key scratch sets this variable"),
        (
            "scratch: {size: 4G, tmpdir: true}\njob_environment: {groups: [{hosts: n1, variables: {TMPDIR: /x}}]}",
            "job_environment.groups[0].variables.TMPDIR: the key scratch sets this variable",
        ),
        (f"{SIZED}\nmounts: [{{path: /scratch, source: 'nas:/x', type: nfs4}}]", "which nodes share"),
        (f"{SIZED}\nmounts: [{{path: /scratch, source: /dev/sdb, type: xfs, options: ro}}]", "mounted read-only"),
        (f"{SIZED}\nmounts: [{{path: /scratch/data, source: /dev/sdb, type: xfs}}]", "mounted inside of it"),
    ],
)
def test_scratch_when_it_makes_no_sense_then_is_refused(more: str, reason: str) -> None:
    with pytest.raises(ClusterFileError) as error:
        cluster(f"{THREE_HOSTS}{more}\n")
    assert reason in "\n".join(error.value.complaints)


def test_scratch_when_gres_names_it_then_is_refused_at_the_gres() -> None:
    with pytest.raises(ClusterFileError) as error:
        cluster(f"{THREE_HOSTS}{SIZED}\n".replace("nodes:", 'nodes: [{hosts: n9, Gres: "scratch:4"}]\nother:', 1))
    assert "adds scratch itself" in "\n".join(error.value.complaints)


def test_size_then_is_that_of_the_last_group_with_the_node() -> None:
    groups = "[{hosts: n1, size: 1T}, {hosts: n2, size: 7G}, {hosts: n2, size: 0G}]"
    found = cluster(f"{THREE_HOSTS}scratch: {{size: 400G, groups: {groups}}}\n").scratch
    assert found is not None
    assert [found.of_node(node) for node in ("n1", "n2", "n3")] == [1024, 0, 400]


def told(path: Path, env: dict[str, str], *, tmpdir: bool = True, apptainer: bool = False) -> str:
    """What the TaskProlog prints for a job with this environment."""
    text = task_prolog_text((), (str(path), "SCRATCH", tmpdir), apptainer)
    return subprocess.run(["sh", "-c", text], env=env, capture_output=True, text=True, check=True).stdout


def test_task_prolog_then_tells_the_directory_of_the_job_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    stale = {"SLURM_JOB_ID": "7", "SCRATCH": f"{tmp_path}/6", "TMPDIR": f"{tmp_path}/6"}
    assert told(tmp_path, stale) == f"export SCRATCH={tmp_path}/7\nexport TMPDIR={tmp_path}/7\n"
    assert told(tmp_path, {"SLURM_JOB_ID": "7", "TMPDIR": "/mine"}) == f"export SCRATCH={tmp_path}/7\n"
    assert told(tmp_path, {"SLURM_JOB_ID": "7"}, tmpdir=False) == f"export SCRATCH={tmp_path}/7\n"


def test_task_prolog_when_the_cluster_has_apptainer_then_binds_the_directories_of_jobs_once(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    job, scratch = {"SLURM_JOB_ID": "7"}, f"export SCRATCH={tmp_path}/7\n"
    binds = f"{scratch}export APPTAINER_BINDPATH={{}}{tmp_path}\n"
    assert told(tmp_path, job, tmpdir=False, apptainer=True) == binds.format("")
    has_own = {**job, "APPTAINER_BINDPATH": "/data"}
    assert told(tmp_path, has_own, tmpdir=False, apptainer=True) == binds.format("/data,")
    has_it = {**job, "APPTAINER_BINDPATH": f"/data,{tmp_path}"}
    assert told(tmp_path, has_it, tmpdir=False, apptainer=True) == scratch
    assert "APPTAINER" not in told(tmp_path, {"SLURM_JOB_ID": "8"}, apptainer=True)


def test_task_prolog_when_the_job_has_no_directory_here_then_takes_the_variables_away(tmp_path: Path) -> None:
    stale = {"SLURM_JOB_ID": "8", "SCRATCH": f"{tmp_path}/7", "TMPDIR": f"{tmp_path}/7"}
    assert told(tmp_path, stale) == "unset SCRATCH\nunset TMPDIR\n"
    assert told(tmp_path, {"SLURM_JOB_ID": "8", "SCRATCH": "/lustre/ann"}) == ""


def test_task_prolog_in_a_later_part_of_a_het_job_then_tells_the_directory_of_the_part(
    tmp_path: Path,
) -> None:
    (tmp_path / "9").mkdir()
    env = {"SLURM_JOB_ID": "8", "SLURM_HET_SIZE": "2"}
    assert told(tmp_path, env, tmpdir=False) == f"export SCRATCH={tmp_path}/9\n"


@pytest.mark.needs_root("needs another user's directory")
def test_task_prolog_when_the_directory_is_somebody_elses_then_does_not_tell_it(tmp_path: Path) -> None:
    (tmp_path / "8").mkdir()
    os.chown(tmp_path / "8", 65534, 65534)
    assert told(tmp_path, {"SLURM_JOB_ID": "8"}) == ""
