"""The files of NVIDIA's driver, from what ldconfig knows."""

from __future__ import annotations

from pathlib import Path

from slurmfab.on_hosts.programs.containers import driver

KNOWN = """\
1093 libs found in cache `/etc/ld.so.cache'
\tlibnvidia-ml.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libnvidia-ml.so.1
\tlibnvidia-ml.so.1 (libc6) => /lib/i386-linux-gnu/libnvidia-ml.so.1
\tlibcudart.so.12 (libc6,x86-64) => /usr/local/cuda/lib64/libcudart.so.12
\tlibcuda.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libcuda.so.1
\tlibcuda.so.1 (libc6,x86-64, OS ABI: Linux 2.3.99) => /opt/old/libcuda.so.1
\tlibcuda.so.1 (libc6) => /lib/i386-linux-gnu/libcuda.so.1
\tlibc.so.6 (libc6,x86-64, OS ABI: Linux 3.2.0) => /lib/x86_64-linux-gnu/libc.so.6
"""
ARM = "\tlibcuda.so.1 (libc6,AArch64) => /lib/aarch64-linux-gnu/libcuda.so.1\n"


def test_libraries_of_when_a_driver_is_installed_then_its_own_are_found_and_no_others() -> None:
    assert driver.libraries_of(KNOWN) == (
        ("libnvidia-ml.so.1", "/lib/x86_64-linux-gnu/libnvidia-ml.so.1"),
        ("libcuda.so.1", "/lib/x86_64-linux-gnu/libcuda.so.1"),
    )
    assert driver.libraries_of(ARM) == (("libcuda.so.1", "/lib/aarch64-linux-gnu/libcuda.so.1"),)


def test_files_when_there_is_no_driver_then_only_the_tools_that_are_there(tmp_path: Path) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.touch()
    found = driver.files((str(tool), str(tmp_path / "nvidia-none")))
    assert found[-1] == (str(tool), "/usr/local/nvidia/bin/nvidia-smi")
