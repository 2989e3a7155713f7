"""The shipped scripts, run here with stand-ins for the programs that they start; lab tests have real ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from slurmfab.cluster.inventory.shipped_jobs import SHIPPED
from slurmfab.commands.accept.queue import figure_in
from slurmfab.commands.accept.wanted import SHIPPED_SCRIPTS

NCCL = """\
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
   536870912     134217728     float     sum      -1   3047.3  176.18  176.20      0   3041.9  176.49  176.50      0
  8589934592    2147483648     float     sum      -1    45667  188.10  188.10      0    45594  188.40  188.40      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 182.3
"""
HPCC = """\
Begin of Summary section.
Success=1
HPL_Tflops=1.23e-05
StarSTREAM_Triad=10.44
RandomlyOrderedRingLatency_usec=4358.1
RandomlyOrderedRingBandwidth_GBytes=0.188706
End of Summary section.
"""
FIO = ";".join(["3", "fio-3.33", "part", "0", "0", "1", "512000", "4000", *["0"] * 39, "256000", "2000", *["0"] * 70])


def program(directory: Path, name: str, script: str) -> None:
    """A stand-in for a program."""
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def ran(tmp_path: Path, name: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A shipped script that has run."""
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    tools = tmp_path / "tools"
    return subprocess.run(
        [sys.executable if name == "memory" else "sh", str(SHIPPED_SCRIPTS / name)],
        env={"PATH": f"{tools}:/usr/bin:/bin", "HOME": str(home), "TMPDIR": str(tmp_path), **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    directory = tmp_path / "tools"
    directory.mkdir()
    return directory


def figures(name: str, output: str) -> dict[str, float]:
    return {key: figure_in(output, one.pattern) for key, one in SHIPPED[name].figures.items()}


def test_nccl_runs_one_process_on_one_node_and_one_for_each_gpu_on_several(tmp_path: Path, tools: Path) -> None:
    program(tools, "all_reduce_perf", f"echo alone $*; cat <<'END'\n{NCCL}END")
    program(tools, "srun", 'echo srun "$@"')
    one = ran(tmp_path, "nccl", SLURM_GPUS_ON_NODE="4", SLURM_JOB_NUM_NODES="1")
    assert one.stdout.startswith("alone -b 512M -e 8G -f 2 -g 4\n"), one.stderr
    assert figures("nccl", one.stdout) == {"busbw": 188.1, "average": 182.3}
    two = ran(tmp_path, "nccl", SLURM_GPUS_ON_NODE="4", SLURM_JOB_NUM_NODES="2", ARGUMENTS="-b 8M", MPI="pmi2")
    assert two.stdout.startswith("srun --mpi=pmi2 --ntasks=8 --ntasks-per-node=4 ")
    assert two.stdout.endswith("all_reduce_perf -b 8M -g 1\n")
    image = ran(tmp_path, "nccl", SLURM_GPUS_ON_NODE="4", SLURM_JOB_NUM_NODES="1", IMAGE="nvcr.io#nvidia/x:1")
    assert image.stdout.startswith("srun --nodes=1 --ntasks=1 ")
    assert image.stdout.endswith("--container-image=nvcr.io#nvidia/x:1 all_reduce_perf -b 512M -e 8G -f 2 -g 4\n")


def test_nccl_is_built_once_in_the_users_home_where_it_is_not_installed(tmp_path: Path, tools: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "Makefile").write_text("all:\n")
    program(tools, "make", 'cd "$2" && echo built >>made && mkdir -p build && '
            "printf '#!/bin/sh\\necho ran\\n' >build/all_reduce_perf && chmod 755 build/all_reduce_perf")  # fmt: skip
    for _ in range(2):
        done = ran(tmp_path, "nccl", SOURCE=str(source))
        assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr
    assert (tmp_path / "home/.cache/slurmfab-nccl-tests/made").read_text() == "built\n"
    program(tools, "make", "echo no nvcc >&2; exit 2")
    (tmp_path / "home/.cache/slurmfab-nccl-tests/build/all_reduce_perf").unlink()
    done = ran(tmp_path, "nccl", SOURCE=str(source))
    assert done.returncode == 1
    assert "no nvcc\nnccl-tests could not be built; see " in done.stderr


@pytest.mark.parametrize("name", ["nccl", "hpcc", "fio", "ring"])
@pytest.mark.usefixtures("tools")
def test_a_program_that_is_not_there_is_told_with_the_exit_code_of_a_shell(tmp_path: Path, name: str) -> None:
    done = ran(tmp_path, name, PATH="/nowhere:" + str(tmp_path / "few"))
    assert done.returncode == 127, done.stderr


@pytest.fixture(autouse=True)
def _few(tmp_path: Path) -> None:
    """A directory with nothing but the tools that scripts may rely on."""
    few = tmp_path / "few"
    few.mkdir()
    for name in ("sh", "uname", "mktemp", "id", "nproc", "dirname"):
        (few / name).symlink_to(Path("/usr/bin") / name)


def test_hpcc_gets_a_grid_of_its_tasks_and_tells_wrong_results(tmp_path: Path, tools: Path) -> None:
    program(tools, "hpcc", "")
    program(tools, "mpirun", f"echo mpirun $*; cp hpccinf.txt {tmp_path}/input; cat >hpccoutf.txt <<'END'\n{HPCC}END")
    done = ran(tmp_path, "hpcc", SLURM_NTASKS="12", SLURM_JOB_NUM_NODES="2", N="768", NB="64")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("N 768, NB 64, grid 3 x 4 on 2 nodes\nmpirun -n 12 hpcc\n")
    found = figures("hpcc", done.stdout)
    assert found == {"hpl": 1.23e-05, "stream": 10.44, "ring_latency": 4358.1, "ring_bandwidth": 0.188706}
    lines = (tmp_path / "input").read_text().splitlines()
    assert [line.split()[0] for line in (lines[5], lines[7], lines[10], lines[11])] == ["768", "64", "3", "4"]
    assert lines[31].startswith("#####")
    wrong = HPCC.replace("Success=1", "Success=0")
    program(tools, "mpirun", f"cat >hpccoutf.txt <<'END'\n{wrong}END")
    done = ran(tmp_path, "hpcc", SLURM_NTASKS="7", SLURM_JOB_NUM_NODES="1")
    assert done.returncode == 1
    assert "grid 1 x 7 on 1 nodes" in done.stdout
    assert "no Success=1" in done.stderr


def test_fio_measures_in_a_directory_of_its_own_and_leaves_nothing_there(tmp_path: Path, tools: Path) -> None:
    program(tools, "fio", f"echo '{FIO}'; echo $* >>{tmp_path}/calls")
    done = ran(tmp_path, "fio", SIZE="4M", DIRECT="0")
    assert done.returncode == 0, done.stderr
    assert figures("fio", done.stdout) == {"write": 262.1, "read": 524.3, "random_write": 2000, "random_read": 4000}
    assert list((tmp_path / "home").iterdir()) == []
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len(calls) == 4
    assert all("--size=4M --direct=0" in call for call in calls)
    done = ran(tmp_path, "fio", DIRECTORY="/nowhere")
    assert done.returncode == 1
    assert "cannot write to /nowhere on" in done.stderr


def test_memory_is_measured_with_nothing_but_python(tmp_path: Path) -> None:
    done = ran(tmp_path, "memory", MIB="1", DURATION="0.1")
    assert done.returncode == 0, done.stderr
    assert figures("memory", done.stdout)["copy"] > 0
