"""The configuration of a container in a job, from what slurmstepd has made of the bundle's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slurmfab.on_hosts.programs.oci.config import Config, Job, has_room, moved, of_job, variables_of

IMAGE = {"PATH": "/opt/bin:/bin", "HOME": "/root", "TERM": "xterm", "MODEL": "small"}
MADE: Config = {
    "process": {
        "user": {"uid": 1000, "gid": 1000},
        "args": ["/bin/sh", "-c", "true"],
        "env": ["PATH=/usr/bin", "HOME=/root", "TERM=screen", "MODEL=", "SLURM_JOB_ID=7"],
        "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1024, "soft": 1024}],
        "cwd": "/work",
    },
    "mounts": [{"destination": "/dev", "type": "tmpfs", "source": "tmpfs"}],
    "linux": {
        "resources": {"devices": [{"allow": False, "access": "rwm"}]},
        "cgroupsPath": "user.slice",
        "namespaces": [{"type": "pid"}, {"type": "user"}],
        "maskedPaths": ["/proc/kcore"],
    },
}
JOB = Job(2001, 2002)


def made(tmp_path: Path, job: Job, **more: Any) -> Config:
    return of_job({**MADE, "root": {"path": str(tmp_path)}, **more}, IMAGE, job)


def variables(tmp_path: Path, job: Job) -> dict[str, str]:
    return variables_of(made(tmp_path, job)["process"]["env"])


def destinations(config: Config) -> list[str]:
    return [one["destination"] for one in config["mounts"]]


def test_of_job_when_a_bundle_limits_itself_then_the_limits_of_the_job_hold(tmp_path: Path) -> None:
    found = made(tmp_path, JOB)
    assert "rlimits" not in found["process"]
    assert found["linux"].keys() == {"namespaces", "uidMappings", "gidMappings", "maskedPaths"}
    assert found["process"]["cwd"] == "/work"


def test_of_job_when_anybody_runs_a_bundle_then_its_root_is_that_user_and_nobody_else(tmp_path: Path) -> None:
    found = made(tmp_path, JOB)
    assert found["process"]["user"] == {"uid": 0, "gid": 0}
    assert found["linux"]["uidMappings"] == [{"containerID": 0, "hostID": 2001, "size": 1}]
    assert found["linux"]["gidMappings"] == [{"containerID": 0, "hostID": 2002, "size": 1}]
    assert [one["type"] for one in found["linux"]["namespaces"]] == ["pid", "user"]


def test_of_job_when_its_tasks_are_one_mpi_program_then_they_are_told_apart_as_on_the_node(tmp_path: Path) -> None:
    mounts = [*MADE["mounts"], {"destination": "/proc", "type": "proc"}, {"destination": "/dev/shm", "type": "tmpfs"}]
    found = made(tmp_path, JOB._replace(has_mpi=True), mounts=mounts)
    assert found["process"]["user"] == {"uid": 2001, "gid": 2002}
    assert found["linux"]["uidMappings"] == [{"containerID": 2001, "hostID": 2001, "size": 1}]
    assert [one["type"] for one in found["linux"]["namespaces"]] == ["user"]
    assert [(one["destination"], one["type"]) for one in found["mounts"]] == [
        ("/dev", "tmpfs"), ("/dev/shm", "bind"), ("/proc", "bind")
    ]  # fmt: skip
    assert "PMIX_MCA_gds=hash" in found["process"]["env"]


def test_of_job_when_it_has_gpus_then_these_are_in_the_container_and_counted_from_0(tmp_path: Path) -> None:
    job = JOB._replace(gpus=("/dev/nvidia1", "/dev/nvidia3"), others=("/dev/nvidiactl",))
    found = made(tmp_path, job)
    assert destinations(found) == ["/dev", "/dev/shm", "/dev/nvidia1", "/dev/nvidia3", "/dev/nvidiactl"]
    assert variables(tmp_path, job)["CUDA_VISIBLE_DEVICES"] == "0,1"


def test_of_job_when_slurm_says_which_gpus_are_visible_then_this_stays(tmp_path: Path) -> None:
    config = {**MADE, "process": {"env": ["CUDA_VISIBLE_DEVICES=MIG-1"]}}
    found = of_job({**config, "root": {"path": str(tmp_path)}}, {}, JOB._replace(gpus=("/dev/nvidia1",)))
    assert "CUDA_VISIBLE_DEVICES=MIG-1" in found["process"]["env"]


def test_of_job_when_it_has_no_gpu_then_nothing_of_gpus_is_there(tmp_path: Path) -> None:
    assert destinations(made(tmp_path, JOB)) == ["/dev", "/dev/shm"]
    assert not {"CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH"} & variables(tmp_path, JOB).keys()


def test_of_job_when_the_host_has_a_driver_then_it_is_found_behind_what_the_image_has(tmp_path: Path) -> None:
    driver = (("/usr/lib/libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1"),)
    job = JOB._replace(gpus=("/dev/nvidia0",), driver=driver)
    assert destinations(made(tmp_path, job))[-1] == "/usr/local/nvidia/lib64/libcuda.so.1"
    found = variables(tmp_path, job)
    assert found["PATH"] == "/opt/bin:/bin:/usr/local/nvidia/bin"
    assert found["LD_LIBRARY_PATH"] == "/usr/local/nvidia/lib64"


def test_of_job_when_the_bundle_is_somebody_elses_then_the_driver_is_below_dev(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = (("/usr/bin/nvidia-smi", "/usr/local/nvidia/bin/nvidia-smi"),)
    job = JOB._replace(gpus=("/dev/nvidia0",), driver=driver, home="/home/ann")
    monkeypatch.setattr("os.access", lambda *_: False)
    assert destinations(made(tmp_path, job))[-1] == "/dev/nvidia-driver/bin/nvidia-smi"
    assert "/home/ann" not in destinations(made(tmp_path, job))
    assert variables(tmp_path, job)["PATH"] == "/opt/bin:/bin:/dev/nvidia-driver/bin"


def test_of_job_when_image_and_job_set_a_variable_then_the_image_is_right(tmp_path: Path) -> None:
    found = variables(tmp_path, JOB)
    assert (found["PATH"], found["MODEL"], found["TERM"]) == ("/opt/bin:/bin", "small", "screen")
    assert found["SLURM_JOB_ID"] == "7"


def test_of_job_when_it_has_a_home_then_it_is_mounted_first_and_is_home(tmp_path: Path) -> None:
    job = JOB._replace(home="/home/ann", directories=("/tmp", "/scratch/7"))
    assert destinations(made(tmp_path, job)) == ["/home/ann", "/tmp", "/scratch/7", "/dev", "/dev/shm"]
    assert variables(tmp_path, job)["HOME"] == "/home/ann"
    assert variables(tmp_path, JOB)["HOME"] == "/root"


def test_of_job_when_the_bundle_mounts_something_there_then_the_bundle_is_right(tmp_path: Path) -> None:
    own = [{"destination": "/tmp/", "type": "bind", "source": "/big", "options": ["rbind"]}]
    found = made(tmp_path, JOB._replace(directories=("/tmp",)), mounts=own)
    assert [one["source"] for one in found["mounts"]] == ["/big"]


def test_of_job_when_it_is_a_batch_job_then_its_script_is_not_in_the_tmp_of_all(tmp_path: Path) -> None:
    process = {"args": ["/tmp/slurm/startup", "/tmp/slurm/x"], "env": []}
    mounts = [{"destination": "/tmp/slurm/startup", "type": "none", "source": "/var/spool/script"}]
    found = made(tmp_path, JOB, process=process, mounts=mounts)
    assert found["process"]["args"] == ["/dev/slurm-batch/startup", "/tmp/slurm/x"]
    assert destinations(found) == ["/dev/slurm-batch/startup"]
    assert moved("/tmp/slurmy") == "/tmp/slurmy"


def test_has_room_when_the_bundle_is_somebody_elses_then_only_for_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    assert has_room(str(tmp_path), "/home/ann")
    monkeypatch.setattr("os.access", lambda *_: False)
    assert not has_room(str(tmp_path), "/home/ann")
    assert has_room(str(tmp_path), "/home")
    assert has_room(str(tmp_path), "/dev/nvidia0")
