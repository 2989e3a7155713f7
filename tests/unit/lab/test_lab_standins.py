"""The stand-in nvidia-smi answers like the real one where discovery asks."""

import subprocess

from slurmfab.lab import roots
from slurmfab.on_hosts.agent.facts import nvidia_gpus

MODELS = ("NVIDIA Lab Stand-in", "NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB")


def ask(tmp_path, count: int, *arguments: str) -> str:
    for number in range(count):
        (tmp_path / f"nvidia{number}").touch()
    (tmp_path / "nvidiactl").touch()
    (tmp_path / "lab-gpus").write_text(roots.gpu_models(MODELS))
    script = (roots.SHIPPED / "nvidia-smi").read_text()
    script = script.replace("/dev/nvidia", f"{tmp_path}/nvidia").replace("/etc/", f"{tmp_path}/")
    return subprocess.run(
        ["sh", "-c", script, "nvidia-smi", *arguments], check=True, capture_output=True, text=True
    ).stdout


def test_list_when_there_are_two_devices_then_there_is_one_line_each(tmp_path):
    lines = ask(tmp_path, 2, "-L").splitlines()
    assert [line.split(":")[0] for line in lines] == ["GPU 0", "GPU 1"]
    assert all("UUID: GPU-" in line for line in lines)


def test_list_when_a_device_is_gone_then_the_others_keep_their_models(tmp_path):
    ask(tmp_path, 3)
    (tmp_path / "nvidia0").unlink()
    lines = ask(tmp_path, 0, "-L").splitlines()
    assert [line.partition(" (")[0] for line in lines] == [f"GPU {n}: NVIDIA A100-SXM4-40GB" for n in (0, 1)]


def test_details_when_asked_for_then_they_have_model_slot_and_minor_number_of_each(tmp_path):
    said = nvidia_gpus.parse_details(ask(tmp_path, 2, "-q"))
    assert [(gpu["model"], gpu["bus"], gpu["minor"]) for gpu in said] == [
        ("NVIDIA Lab Stand-in", "0000:01:00.0", 0),
        ("NVIDIA A100-SXM4-40GB", "0000:02:00.0", 1),
    ]


def test_query_when_csv_without_header_and_units_then_it_is_plain_values(tmp_path):
    arguments = ("--query-gpu=index,memory.total,pci.bus_id", "--format=csv,noheader,nounits")
    assert ask(tmp_path, 2, *arguments).splitlines() == ["0, 16384, 00000000:01:00.0", "1, 16384, 00000000:02:00.0"]


def test_query_when_csv_then_the_first_line_names_the_fields(tmp_path):
    lines = ask(tmp_path, 1, "--query-gpu=index,memory.total", "--format=csv").splitlines()
    assert lines == ["index, memory.total", "0, 16384 MiB"]


def test_tool_when_asked_anything_else_then_it_says_that_it_is_a_stand_in(tmp_path):
    assert ask(tmp_path, 1).startswith("Stand-in for nvidia-smi")


def test_devices_when_two_gpus_then_tmpfiles_makes_them_and_the_control_device():
    assert roots.gpu_devices(2).splitlines() == [
        "c /dev/nvidia0 0666 root root - 195:0",
        "c /dev/nvidia1 0666 root root - 195:1",
        "c /dev/nvidiactl 0666 root root - 195:255",
    ]
