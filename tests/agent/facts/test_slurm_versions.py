"""Slurm's programs tell their versions, and are asked again when one was replaced."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurmfab.cluster.facts import from_answer
from slurmfab.on_hosts.agent.facts import facts, slurm_versions

PROGRAMS = ("/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/sbin/slurmdbd", "/usr/bin/scontrol")


@pytest.fixture(autouse=True)
def run_directory(root: Path) -> None:
    (root / "run").mkdir(exist_ok=True)


def program(root: Path, path: str, says: str, code: int = 0) -> Path:
    """A program that notes that it was run, and says its version."""
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\necho run >> {root}/runs\necho '{says}'\nexit {code}\n")
    file.chmod(0o755)
    return file


def runs(root: Path) -> int:
    """How often programs were run."""
    return len((root / "runs").read_text().splitlines())


@pytest.mark.parametrize(
    ("says", "expected"),
    [
        ("slurm-wlm 24.11.5", "24.11.5"),
        ("slurm 25.11.0-0rc1", "25.11.0-0rc1"),
        ("slurm 26.05.5+ours~1", "26.05.5+ours~1"),
    ],
)
def test_a_program_tells_its_version_once_until_it_is_replaced(root: Path, says: str, expected: str) -> None:
    program(root, "/usr/sbin/slurmd", says)
    for _ in range(3):
        assert slurm_versions.read(str(root), PROGRAMS) == {"slurmd": expected}
    assert runs(root) == 1
    (root / "usr/sbin/slurmd").unlink()
    assert slurm_versions.read(str(root), PROGRAMS) == {}
    program(root, "/usr/sbin/slurmd", "slurm-wlm 26.05.5")
    assert slurm_versions.read(str(root), PROGRAMS) == {"slurmd": "26.05.5"}


def test_a_link_is_as_new_as_what_it_leads_to(root: Path) -> None:
    old = program(root, "/usr/sbin/slurmctld-wlm", "slurm-wlm 24.11.5")
    (root / "usr/sbin/slurmctld").symlink_to("slurmctld-wlm")
    assert slurm_versions.read(str(root), PROGRAMS) == {"slurmctld": "24.11.5"}
    program(root, "/new", "slurm-wlm 24.11.6").rename(old)
    assert slurm_versions.read(str(root), PROGRAMS) == {"slurmctld": "24.11.6"}


def test_a_program_that_tells_nothing_has_no_version_until_it_tells_one(root: Path) -> None:
    broken = program(root, "/usr/sbin/slurmd", "slurm 24.11.5", code=127)
    program(root, "/usr/bin/scontrol", "hello")
    (root / "usr/sbin/slurmdbd").write_text("no program")
    assert slurm_versions.read(str(root), PROGRAMS) == {}
    status = broken.stat()
    broken.write_text(broken.read_text().replace("exit 127", "exit   0"))
    os.utime(broken, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert slurm_versions.read(str(root), PROGRAMS) == {"slurmd": "24.11.5"}


def test_a_command_gets_a_slurm_conf_to_tell_its_version(root: Path) -> None:
    file = program(root, "/usr/bin/scontrol", "slurm 24.11.5")
    file.write_text("#!/bin/sh\ngrep -q ClusterName= $SLURM_CONF && echo slurm 24.11.5\n")
    assert slurm_versions.read(str(root), PROGRAMS) == {"scontrol": "24.11.5"}


@pytest.mark.parametrize("damaged", [b"", b"[]", b'{"/usr/sbin/slurmd": []}', b'{"/usr/sbin/slurmd'])
def test_a_damaged_memory_is_as_none(root: Path, damaged: bytes) -> None:
    program(root, "/usr/sbin/slurmd", "slurm-wlm 24.11.5")
    slurm_versions.read(str(root), PROGRAMS)
    (root / "run/slurmfab-agent/slurm-versions.json").write_bytes(damaged)
    assert slurm_versions.read(str(root), PROGRAMS) == {"slurmd": "24.11.5"}


@pytest.mark.parametrize(
    ("programs", "expected"),
    [
        ({"/usr/sbin/slurmd": "slurm 26.05.5", "/usr/bin/scontrol": "slurm 24.11.5"}, "26.05.5"),
        ({"/usr/bin/scontrol": "slurm 25.11.2"}, "25.11.2"),
        ({}, ""),
    ],
)
def test_facts_have_the_versions_that_programs_tell(root: Path, programs: dict[str, str], expected: str) -> None:
    for path, says in programs.items():
        program(root, path, says)
    host = from_answer("n1", facts.read({"root": str(root), "slurm_programs": PROGRAMS}), 0.0)
    assert host.slurm_version == expected
    assert set(host.slurm_versions) == {path.rpartition("/")[2] for path in programs}


def test_facts_know_plugins_of_each_kind_of_packages(root: Path) -> None:
    for path in ("slurm-wlm/gpu_nvml.so", "slurm/gpu_nvidia.so", "elsewhere/gpu_rsmi.so"):
        file = root / "usr/lib/x86_64-linux-gnu" / path
        file.parent.mkdir(parents=True)
        file.touch()
    answer = facts.read({"root": str(root), "plugin_directories": ["slurm-wlm", "slurm"]})
    assert answer["gpu_plugins"] == ["nvidia", "nvml"]
