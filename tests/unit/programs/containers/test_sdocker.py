"""sdocker: the call of Podman that it makes of a call of docker's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slurmfab.on_hosts.programs.containers import gpus, sdocker

JOB = {"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1", "SLURM_STEP_GPUS": "1", "CUDA_VISIBLE_DEVICES": "0"}


@pytest.fixture(autouse=True)
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node whose job has the GPU 1, with the user in a directory outside of the home."""
    for name in ("home", "home/in", "data", "scratch"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(gpus, "is_allowed", lambda path: path == "/dev/nvidia1")
    monkeypatch.setattr(gpus, "control_files", lambda _: ("/dev/nvidiactl",))
    monkeypatch.setattr(gpus, "named_devices", lambda _: ())
    monkeypatch.setattr(sdocker, "driver_files", lambda: ["--volume=/usr/lib/libcuda.so.1:/x:ro"])
    monkeypatch.setattr(sdocker, "CLOSED", ("/usr",))
    monkeypatch.chdir(tmp_path / "data")
    return tmp_path


def call(node: Path, line: str, **variables: str) -> list[str]:
    environment = {"HOME": str(node / "home"), "SCRATCH": str(node / "scratch"), **variables}
    return [word.replace(str(node), "") for word in sdocker.command(line.split(), environment, "SCRATCH")]


def test_run_when_in_a_job_then_has_its_gpus_its_directories_and_the_habits(node: Path) -> None:
    assert call(node, "run -it --name x image:1 python -v /a:/b", **JOB) == [
        *("/usr/bin/podman", "run", "--init", "--rm", "--label=slurmfab.job", "--userns=keep-id", "--ipc=host"),
        *("--volume=/home:/home", "--volume=/data:/data", "--volume=/scratch:/scratch", "--workdir=/data"),
        *("--env=CUDA_VISIBLE_DEVICES", "--env=SLURMD_NODENAME", "--env=SLURM_JOB_ID", "--env=SLURM_STEP_GPUS"),
        "--env=SCRATCH",
        *("--device=/dev/nvidia1", "--device=/dev/nvidiactl", "--volume=/usr/lib/libcuda.so.1:/x:ro"),
        *("-it", "--name", "x", "image:1", "python", "-v", "/a:/b"),
    ]


def test_run_when_srun_has_started_an_mpi_program_then_its_tasks_find_each_other(node: Path) -> None:
    found = call(node, "run image", SLURM_JOB_ID="7", PMIX_RANK="0", PMIX_NAMESPACE="x", OMPI_MCA_btl="self")
    own = found.index("--env=OMPI_MCA_btl")
    assert {*sdocker.OF_MPI, "--env=PMIX_NAMESPACE", "--env=PMIX_RANK"} < set(found)
    assert found.index(sdocker.OF_MPI[1]) < own, "what the job says counts"


def test_run_when_a_task_speaks_with_the_server_of_pmi_2_then_its_container_does() -> None:
    words = sdocker.command(["run", "image"], {"PMI_FD": "9"}, has_socket=True)
    assert words[-3:] == ["--preserve-fds=1", "--env=PMI_FD=3", "image"]
    assert words.index("--env=PMI_FD") < words.index("--env=PMI_FD=3"), "what the container has counts"


@pytest.mark.parametrize(("number", "said"), [("{}", "True hello"), ("99", "False"), ("none", "False"), ("", "False")])
def test_the_socket_of_pmi_2_when_it_is_open_then_is_the_first_file_that_is_passed_on(number: str, said: str) -> None:
    reads, writes = os.pipe()
    os.write(writes, b"hello")
    script = (
        "import os, sys; from slurmfab.on_hosts.programs.containers import pmi\n"
        "kept = pmi.keep_socket({'PMI_FD': sys.argv[1]}); print(kept, os.read(3, 5).decode() if kept else '')"
    )
    words = [sys.executable, "-c", script, number.format(reads)]
    done = subprocess.run(words, pass_fds=(reads,), capture_output=True, text=True, check=True)
    os.close(reads)
    os.close(writes)
    assert done.stdout.strip() == said


def test_run_when_the_job_has_a_directory_for_temporary_files_then_it_is_there_but_not_for_mpi(node: Path) -> None:
    (node / "temporary").mkdir()
    variables = {"SLURM_JOB_ID": "7", "TMPDIR": str(node / "temporary")}
    assert {"--volume=/temporary:/temporary", "--env=TMPDIR"} < set(call(node, "run image", **variables))
    assert "--env=TMPDIR" not in call(node, "run image", PMIX_RANK="0", **variables)


def test_run_when_outside_of_a_job_then_has_no_gpu(node: Path) -> None:
    assert not [word for word in call(node, "run image", SLURM_JOB_ID="7") if "--device" in word or "cuda" in word]


@pytest.mark.parametrize(
    ("options", "lacks"),
    [
        ("--init", "--init"),
        ("--rm=false", "--rm"),
        ("--userns host", "--userns=keep-id"),
        ("--shm-size=1g", "--ipc=host"),
        ("-w /x", "--workdir=/data"),
        ("-v /other:/home", "--volume=/home:/home"),
        ("-v/other:/home:ro", "--volume=/home:/home"),
        ("--volume=/other:/data/", "--volume=/data:/data"),
        ("--mount type=bind,src=/other,dst=/scratch", "--volume=/scratch:/scratch"),
    ],
)
def test_run_when_the_user_says_otherwise_then_the_user_is_right(node: Path, options: str, lacks: str) -> None:
    options = options.replace("/home", f"{node}/home").replace("/data", f"{node}/data")
    found = call(node, f"run {options.replace('dst=/scratch', f'dst={node}/scratch')} image")
    assert lacks not in found[: found.index("--env=X") if "--env=X" in found else -len(options.split()) - 1]
    assert found[-1] == "image"


@pytest.mark.parametrize("words", ["--gpus all", "--gpus=2", "--runtime=nvidia", "--runtime nvidia"])
def test_run_when_gpus_are_asked_for_then_they_are_the_jobs(node: Path, words: str) -> None:
    found = call(node, f"run {words} -e A=1 image --gpus 3", **JOB)
    assert found[-5:] == ["-e", "A=1", "image", "--gpus", "3"]
    assert "--device=/dev/nvidia1" in found
    assert words.split(maxsplit=1)[0] not in found[:-5]


def test_run_when_in_the_home_or_a_directory_of_the_system_then_it_is_mounted_once_or_not(
    node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(node / "home/in")
    found = call(node, "run image")
    assert [word for word in found if word.startswith("--volume")] == [
        "--volume=/home:/home",
        "--volume=/scratch:/scratch",
    ]
    assert "--workdir=/home/in" in found
    monkeypatch.chdir("/usr/lib")
    assert not [word for word in call(node, "run image") if "/usr" in word and word != "/usr/bin/podman"]


@pytest.mark.parametrize("line", ["", "images", "build -t x .", "pull --quiet image"])
def test_other_commands_are_podmans(node: Path, line: str) -> None:
    assert call(node, line, **JOB) == ["/usr/bin/podman", *line.split()]


@pytest.mark.parametrize("name", ["bash", "podman", "conmon"])
def test_podman_when_a_job_was_ended_then_forgets_its_containers_unless_others_run(tmp_path: Path, name: str) -> None:
    uid = os.getuid()
    (tmp_path / "proc/77").mkdir(parents=True)
    (tmp_path / "proc/77/comm").write_text(f"{name}\n")
    kept = tmp_path / "run" / str(uid)
    for one in ("libpod/tmp", "containers", "mine"):
        (kept / one).mkdir(parents=True)
    forgets = sdocker.forget_ended(uid, str(tmp_path / "run/%d"), str(tmp_path / "proc"))
    assert forgets == (name == "bash")
    assert (kept / "libpod").exists() != forgets
    assert (kept / "mine").exists()
    (tmp_path / "proc/77/comm").write_text("bash\n")
    sdocker.forget_ended(uid, str(tmp_path / "run/%d"), str(tmp_path / "proc"))
    assert not sdocker.forget_ended(uid, str(tmp_path / "run/%d"), str(tmp_path / "proc"))
