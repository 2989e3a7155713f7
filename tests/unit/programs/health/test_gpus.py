"""Missing and broken GPUs, with files in place of devices, the kernel's log and nvidia-smi."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from slurmfab.on_hosts.programs.health import gpus
from slurmfab.on_hosts.programs.health.gpus import missing_devices, smi_causes, xid_causes


def left(most: float) -> float:
    return max(most, 60)


def soon(most: float) -> float:
    """No time to wait for a program that hangs."""
    return min(most, 0.5)


def kernel_log(place: Path, *lines: str) -> str:
    """A file in the form of /dev/kmsg."""
    path = place / "kmsg"
    path.write_text("".join(f"4,{number},{number * 1000},-;{line}\n" for number, line in enumerate(lines, 1)))
    return str(path)


def test_a_gpu_when_its_device_file_is_gone_or_no_device_then_that_is_a_cause(tmp_path: Path) -> None:
    (tmp_path / "nvidia1").write_text("")
    found = missing_devices(["/dev/null", f"{tmp_path}/nvidia0", f"{tmp_path}/nvidia1"])
    assert list(found.values()) == [f"GPU {tmp_path}/nvidia0 is gone", f"GPU {tmp_path}/nvidia1 is gone"]


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        pytest.param(
            "NVRM: Xid (PCI:0000:18:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            {"xid 0000:18:00 79": "GPU 0000:18:00: Xid 79, it has fallen off the bus"},
            id="off-the-bus",
        ),
        pytest.param(
            "NVRM: Xid (PCI:0000:3b:00): 95, pid=2, Uncontained: FBHUB",
            {"xid 0000:3b:00 95": "GPU 0000:3b:00: Xid 95, an uncontained ECC error"},
            id="uncontained",
        ),
        pytest.param("NVRM: Xid (PCI:0000:18:00): 13, pid=77, Graphics SM Warp Exception", {}, id="a-programs-fault"),
        pytest.param("NVRM: Xid (PCI:0000:18:00): 31, pid=77, MMU Fault", {}, id="a-page-fault"),
        pytest.param("NVRM: Xid (PCI:0000:18:00): 43, pid=77, Ch 00000008", {}, id="a-channel"),
        pytest.param("NVRM: Xid (PCI:0000:18:00): 45, pid=77, Ch 00000008", {}, id="a-job-that-was-ended"),
        pytest.param("NVRM: Xid (PCI:0000:18:00): 63, Row Remapper: New row marked", {}, id="a-record"),
        pytest.param(
            "NVRM: Xid (PCI:0000:18:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
            {"xid 0000:18:00 154": "GPU 0000:18:00: Xid 154, it needs a reset"},
            id="needs-a-reset",
        ),
        pytest.param("systemd[1]: NVRM: nothing of the kind", {}, id="something-else"),
    ],
)
def test_an_xid_when_it_takes_a_reset_then_it_is_a_cause_and_a_programs_own_fault_is_none(
    tmp_path: Path, line: str, cause: dict[str, str]
) -> None:
    assert xid_causes({}, kernel_log(tmp_path, "Linux version 6", line, "eth0: link up")) == cause


def test_an_xid_when_the_kernel_has_forgotten_it_then_it_still_counts(tmp_path: Path) -> None:
    memory: dict[str, Any] = {}
    found = xid_causes(memory, kernel_log(tmp_path, "NVRM: Xid (PCI:0000:18:00): 79, off the bus"))
    assert xid_causes(memory, kernel_log(tmp_path, "eth0: link up")) == found != {}


def test_an_xid_when_somebody_had_it_forgotten_then_only_later_ones_count(tmp_path: Path) -> None:
    old = "NVRM: Xid (PCI:0000:18:00): 79, off the bus"
    path = kernel_log(tmp_path, old)
    memory = {"xids_after": gpus.latest(path)}
    assert xid_causes(memory, path) == {}
    assert list(xid_causes(memory, kernel_log(tmp_path, old, old.replace("79", "48")))) == ["xid 0000:18:00 48"]


def test_a_log_when_there_is_none_then_there_are_no_errors() -> None:
    assert (xid_causes({}, "/no/such/file"), gpus.latest("/no/such/file")) == ({}, -1)


def smi(place: Path, script: str) -> str:
    """A program in place of nvidia-smi that records each call."""
    path = place / "nvidia-smi"
    path.write_text(f'#!/bin/sh\necho "$1" >> {place}/asked\n{script}\n')
    path.chmod(0o755)
    return str(path)


ROWS = "case $1 in --query-remapped-rows*) printf '00000000:18:00.0, {}\\n00000000:3B:00.0, No, No\\n';; esac"
PAGES = "case $1 in --query-gpu*) printf '00000000:18:00.0, {}\\n';; *) exit 2;; esac"


@pytest.mark.parametrize(
    ("script", "causes"),
    [
        pytest.param(ROWS.format("No, No"), [], id="well"),
        pytest.param(ROWS.format("0, 0"), [], id="well-in-numbers"),
        pytest.param(ROWS.format("[N/A], [N/A]"), [], id="no-such-thing"),
        pytest.param(
            ROWS.format("Yes, No"), ["GPU 00000000:18:00.0: a bad memory row waits for a reset"], id="waiting"
        ),
        pytest.param(
            ROWS.format("1, 1"), ["GPU 00000000:18:00.0: a bad memory row could not be replaced"], id="failed"
        ),
        pytest.param(PAGES.format("Yes"), ["GPU 00000000:18:00.0: bad memory pages wait for a reset"], id="pages"),
        pytest.param(PAGES.format("No"), [], id="no-pages"),
        pytest.param("echo Stand-in for nvidia-smi: 2 device files", [], id="says-something-else"),
        pytest.param("exit 9", ["nvidia-smi: the driver is not loaded"], id="no-driver"),
        pytest.param("exit 15", ["nvidia-smi: a GPU has fallen off the bus"], id="gpu-lost"),
    ],
)
def test_memory_that_waits_for_a_reset_is_a_cause(tmp_path: Path, script: str, causes: list[str]) -> None:
    assert list(smi_causes({}, 0, left, smi(tmp_path, script)).values()) == causes


def test_nvidia_smi_when_it_was_asked_within_the_hour_then_it_is_not_asked_again(tmp_path: Path) -> None:
    memory: dict[str, Any] = {}
    program = smi(tmp_path, ROWS.format("Yes, No"))
    found = smi_causes(memory, 1000, left, program)
    assert smi_causes(memory, 4000, left, program) == found
    assert len((tmp_path / "asked").read_text().split()) == 1
    smi_causes(memory, 5000, left, program)
    assert len((tmp_path / "asked").read_text().split()) == 2


def test_nvidia_smi_when_it_hangs_twice_then_that_is_a_cause_and_it_is_not_asked_again_meanwhile(
    tmp_path: Path,
) -> None:
    memory: dict[str, Any] = {}
    # Who waits for its end gets an answer, and another cause.
    late = 'import time; time.sleep(60); print("00000000:18:00.0, Yes, No")'
    program = smi(tmp_path, f"exec {sys.executable} -c '{late}'")
    assert smi_causes(memory, 0, soon, program) == {}
    assert smi_causes(memory, 0, soon, program) == {"smi": "nvidia-smi does not answer"}
    memory["smi"]["stuck"] = [os.getpid(), gpus.start_of(os.getpid())]
    assert smi_causes(memory, 1, left, "/no/such/program") == {"smi": "nvidia-smi does not answer"}
    memory["smi"]["stuck"] = [os.getpid(), "0"]
    assert smi_causes(memory, 2, left, smi(tmp_path, ROWS.format("No, No"))) == {}


def test_nvidia_smi_when_there_is_none_then_it_is_not_missed() -> None:
    assert smi_causes({}, 0, left, "/no/such/program") == {}
