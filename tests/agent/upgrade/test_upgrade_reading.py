"""What a host has of Slurm, as an upgrade needs to know it, read in a scratch root."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.slurm.state_versions import TITLE
from slurmfab.on_hosts.agent.upgrade import reading

PLUGINS = "usr/lib/x86_64-linux-gnu/slurm-wlm"
STATUS = """\
Package: slurmctld
Status: install ok installed
Source: slurm-wlm
Version: 24.11.5-4+deb13u1

Package: libslurm42t64
Status: hold ok installed
Source: slurm-wlm (24.11.5-4)
Version: 24.11.5-4+deb13u1

Package: slurmd
Status: deinstall ok config-files
Source: slurm-wlm
Version: 24.11.5-4

Package: munge
Status: install ok installed
Version: 0.5.16
"""
REQUEST = {
    "names": ["slurmctld", "slurmd"],
    "programs": "/usr/sbin",
    "plugins": ["/usr/lib/*/slurm-wlm"],
    "paths": ["/var/cache/apt/archives"],
}


def write(root: Path, path: str, content: bytes | str) -> None:
    """Write a file in the scratch root."""
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_bytes(content if isinstance(content, bytes) else content.encode())


def test_packages_programs_plugins_and_state_are_told(root: Path, context: Context) -> None:
    write(root, "var/lib/dpkg/status", STATUS)
    write(root, "usr/sbin/slurmctld", b"\x7fELF\0usage\x0024.11.5\0more\x00")
    write(root, "usr/sbin/slurmd", b"\x7fELF\x0024.11.5\0and\x0023.11.1\0")
    for name in ("mpi_pmix", "job_submit_ours", "libslurmfull"):
        write(root, f"{PLUGINS}/{name}.so", b"")
    write(root, "var/lib/dpkg/info/slurmctld.list", f"/.\n/{PLUGINS}/mpi_pmix.so\n")
    write(root, "etc/slurm/plugstack.conf", "include plugstack.conf.d/*.conf\nrequired /opt/ours.so a=1\n")
    write(root, "etc/slurm/plugstack.conf.d/x.conf", "optional mpi_pmix.so\n")
    job_list = struct.pack(">I", len(TITLE)) + TITLE + struct.pack(">HQI", 10752, 1, 1)
    write(root, "var/lib/slurm/slurmctld/job_state", job_list)
    found = reading.read({**REQUEST, "state": "/var/lib/slurm/slurmctld"}, context)
    assert found["packages"] == {"libslurm42t64": "24.11.5-4+deb13u1", "slurmctld": "24.11.5-4+deb13u1"}
    assert found["held"] == ["libslurm42t64"]
    assert found["programs"] == {"slurmctld": "24.11.5"}  # slurmd has two versions in it, so that none is certain
    assert found["running"] == {}
    assert found["plugins"] == ["job_submit_ours", "mpi_pmix"]
    assert found["foreign"] == ["job_submit_ours"]
    assert found["spank"] == [[f"/{PLUGINS}/mpi_pmix.so", False, True], ["/opt/ours.so", True, False]]
    assert found["state"] == "24.11"
    assert found["free"]["/var/cache/apt/archives"] > 0


@pytest.mark.parametrize("state", ["unpacked", "half-configured"])
def test_a_package_whose_installation_was_interrupted_then_has_the_version_of_before(
    root: Path, context: Context, state: str
) -> None:
    status = f"Status: install ok {state}\nVersion: 26.05.5-1\nConfig-Version: 24.11.5-4\n"
    write(root, "var/lib/dpkg/status", f"Package: slurmctld\n{status}")
    assert reading.read(REQUEST, context)["packages"] == {"slurmctld": "24.11.5-4"}


def test_a_read_when_dpkg_runs_then_waits_until_it_has_ended(
    root: Path, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter((True, True, False))
    write(root, "var/lib/dpkg/status", STATUS)
    monkeypatch.setattr("slurmfab.on_hosts.agent.packages.unfinished.is_locked", lambda _: next(answers))
    assert reading.read(REQUEST, context)["packages"]
    assert next(answers, None) is None


def test_a_host_without_slurm_has_nothing(root: Path, context: Context) -> None:
    write(root, "var/lib/dpkg/status", "Package: munge\nStatus: install ok installed\nVersion: 1\n")
    found = reading.read(REQUEST, context)
    assert {name: found[name] for name in ("packages", "programs", "plugins", "spank", "state")} == {
        "packages": {},
        "programs": {},
        "plugins": [],
        "spank": [],
        "state": "",
    }
