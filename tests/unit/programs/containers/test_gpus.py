"""The GPUs of a job: from what Slurm says, as far as the job's limits allow, and their names in lists of the host."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurmfab.on_hosts.programs.containers import gpus

JOB = {"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1"}

YAML = """\
---
cdiVersion: 0.5.0
containerEdits:
  deviceNodes:
  - path: /dev/nvidiactl
devices:
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
    - hostPath: /dev/dri/card1
      path: /dev/dri/card1
  name: "0"
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia1
  name: GPU-4711
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
    - path: /dev/nvidia1
  name: all
kind: nvidia.com/gpu
"""


@pytest.fixture
def dev(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four GPUs, of which the limits of the job deny those with "denied" in their file."""
    for name in ("nvidia0", "nvidia1", "nvidia2", "nvidia10", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).write_text("")
    (tmp_path / "nvidia-caps").mkdir()
    (tmp_path / "nvidia-caps/nvidia-cap1").write_text("")
    monkeypatch.setattr(gpus, "is_allowed", lambda path: Path(path).exists() and Path(path).read_text() != "denied")
    return tmp_path


def names(dev: Path, **variables: str) -> list[str]:
    return [str(Path(path).relative_to(dev)) for path in gpus.of_job({**JOB, **variables}, str(dev))]


@pytest.mark.parametrize("name", ["SLURM_STEP_GPUS", "SLURM_JOB_GPUS"])
def test_gpus_when_slurm_names_them_then_are_these_whatever_cuda_counts(dev: Path, name: str) -> None:
    found = names(dev, **{name: "1,10", "CUDA_VISIBLE_DEVICES": "0,1"})
    assert found == ["nvidia1", "nvidia10", "nvidiactl", "nvidia-uvm"]


def test_gpus_when_the_limits_deny_one_then_it_is_none_of_the_jobs(dev: Path) -> None:
    (dev / "nvidia1").write_text("denied")
    assert names(dev, SLURM_STEP_GPUS="0,1") == ["nvidia0", "nvidiactl", "nvidia-uvm"]


def test_gpus_when_only_cuda_has_numbers_then_limits_decide_or_else_these(dev: Path) -> None:
    assert names(dev, CUDA_VISIBLE_DEVICES="2")[0] == "nvidia2"
    for other in ("nvidia0", "nvidia2", "nvidia10"):
        (dev / other).write_text("denied")
    assert names(dev, CUDA_VISIBLE_DEVICES="0")[0] == "nvidia1"
    assert names(dev) == []


@pytest.mark.parametrize(
    "variables",
    [{"SLURM_JOB_ID": ""}, {"SLURMD_NODENAME": ""}, {"SLURM_STEP_GPUS": ""}, {"SLURM_STEP_GPUS": "7"}],
)
def test_gpus_when_outside_of_a_job_or_without_any_then_are_none(dev: Path, variables: dict[str, str]) -> None:
    there = {"SLURM_STEP_GPUS": "0"} if "SLURM_STEP_GPUS" not in variables else {}
    assert names(dev, **there, **variables) == []


def test_gpus_when_a_part_of_one_then_come_with_its_capability(dev: Path) -> None:
    found = names(dev, SLURM_STEP_GPUS="0", CUDA_VISIBLE_DEVICES="MIG-1234")
    assert found == ["nvidia0", "nvidia-caps/nvidia-cap1", "nvidiactl", "nvidia-uvm"]


@pytest.mark.parametrize("form", ["nvidia.yaml", "nvidia.json"])
def test_names_when_a_list_has_each_gpu_then_are_those(tmp_path: Path, form: str) -> None:
    entries = [("0", ["0"]), ("GPU-4711", ["1"]), ("all", ["0", "1"])]
    devices = [
        {"name": name, "containerEdits": {"deviceNodes": [{"path": f"/dev/nvidia{number}"} for number in numbers]}}
        for name, numbers in entries
    ]
    text = YAML if form == "nvidia.yaml" else json.dumps({"kind": "nvidia.com/gpu", "devices": devices})
    (tmp_path / form).write_text(text)
    files = ("/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl")
    assert gpus.named_devices(files, [str(tmp_path)]) == ("nvidia.com/gpu=0", "nvidia.com/gpu=GPU-4711")
    assert gpus.named_devices(("/dev/nvidia1",), [str(tmp_path)]) == ("nvidia.com/gpu=GPU-4711",)


@pytest.mark.parametrize("text", ["", "kind: amd.com/gpu\ndevices:\n- name: x\n", "{", "[]", '{"kind": 1}'])
def test_names_when_a_list_lacks_a_gpu_or_is_another_then_are_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.yaml").write_text(text)
    (tmp_path / "a.json").write_text(text)
    assert gpus.named_devices(("/dev/nvidia0",), [str(tmp_path), str(tmp_path / "missing")]) == ()
