"""The stand-in for SchedMD's packages: what is packed anew from Debian's, and what is not."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from slurmfab.cluster.slurm.platform import DEBIAN, DEBIAN_SMD
from slurmfab.lab import smd_standin

pytestmark = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is missing")

ARCH = "usr/lib/x86_64-linux-gnu"
PATH = b"\0/usr/lib/x86_64-linux-gnu/slurm-wlm\0"
DEBIANS: Mapping[str, tuple[str, Mapping[str, bytes]]] = {
    "slurm-wlm-basic-plugins": (
        "libc6 (>= 2.38), libhwloc15, adduser | systemd-sysusers",
        {
            f"{ARCH}/slurm-wlm/libslurmfull.so": b"..\0slurm-wlm\0" + PATH,
            f"{ARCH}/slurm-wlm/spank_pbs.so": b"",
            "etc/slurm/plugstack.conf": b"",
            "usr/lib/sysusers.d/slurm.conf": b"u slurm",
        },
    ),
    "slurm-wlm-mysql-plugin": ("libmariadb3", {f"{ARCH}/slurm-wlm/accounting_storage_mysql.so": b""}),
    "slurm-wlm-hdf5-plugin": ("libhdf5-310", {f"{ARCH}/slurm-wlm/acct_gather_profile_hdf5.so": b""}),
    "libslurm42t64": ("libc6", {f"{ARCH}/libslurm.so.42.0.0": b""}),
    "slurm-client": ("libc6, slurm-wlm-basic-plugins, munge, ucf", {"usr/bin/sinfo": PATH}),
    "slurmctld": ("libc6", {"usr/sbin/slurmctld-wlm": PATH, "etc/logrotate.d/slurmctld": b"", "etc/init.d/x": b""}),
    "slurmd": ("libpam0g", {"usr/sbin/slurmd-wlm": PATH, "usr/sbin/slurmstepd-wlm": PATH}),
    "slurmdbd": ("libc6", {"usr/sbin/slurmdbd": PATH}),
    "libpam-slurm-adopt": ("libc6, libslurm42t64", {f"{ARCH}/security/pam_slurm_adopt.so": b""}),
    "munge": ("libc6", {"usr/sbin/munged": b""}),
}


def debians(folder: Path, version: str) -> Path:
    """A directory with Debian's packages, as far as this test needs them."""
    for name, (depends, files) in DEBIANS.items():
        tree = folder / "trees" / name
        control = f"Package: {name}\nVersion: {version}\nArchitecture: amd64\nMaintainer: a <a@b.c>\n"
        for path, content in {**files, "DEBIAN/control": f"{control}Depends: {depends}\nDescription: x\n"}.items():
            file = tree / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content if isinstance(content, bytes) else content.encode())
            file.chmod(0o755 if "bin/" in path else 0o644)
        subprocess.run(["dpkg-deb", "-Znone", "--build", str(tree), str(folder)], check=True, capture_output=True)
    return folder


def field(deb: Path, name: str) -> str:
    """A field of a package."""
    return subprocess.run(["dpkg-deb", "-f", str(deb), name], check=True, capture_output=True, text=True).stdout.strip()


def unpacked(debs: Mapping[str, Path], place: Path) -> dict[str, Path]:
    """The files of all packages by their paths, as a host has them."""
    for deb in debs.values():
        subprocess.run(["dpkg-deb", "-x", str(deb), str(place)], check=True)
    return {path.relative_to(place).as_posix(): path for path in place.rglob("*") if not path.is_dir()}


def packed(tmp_path: Path, version: str) -> dict[str, Path]:
    """The packages of the stand-in by name, from Debian's of a version."""
    made = smd_standin.pack(debians(tmp_path / "debian", version), tmp_path / "smd")
    return {deb.name.partition("_")[0]: deb for deb in made}


def test_pack_when_debians_packages_are_there_then_the_files_have_schedmds_places_and_nothing_else_is_there(tmp_path):
    debs = packed(tmp_path, "24.11.5-4+deb13u1")
    assert debs.keys() <= {*DEBIAN_SMD.slurm_packages}
    assert debs.keys() >= {*DEBIAN_SMD.packages_of(("controller", "compute", "database"))} - {"munge", "openssh-client"}
    files = unpacked(debs, tmp_path / "host")
    units = [f"usr/lib/systemd/system/{daemon}.service" for daemon in ("slurmctld", "slurmd", "slurmdbd")]
    assert sorted(files) == sorted(
        [
            *units,
            *(f"etc/default/{daemon}" for daemon in ("slurmctld", "slurmd", "slurmdbd")),
            *(f"usr/sbin/{daemon}" for daemon in ("slurmctld", "slurmd", "slurmdbd", "slurmstepd")),
            "usr/bin/sinfo",
            f"{ARCH}/libslurm.so.42.0.0",
            f"{ARCH}/slurm/libslurmfull.so",
            f"{ARCH}/slurm/accounting_storage_mysql.so",
            "usr/lib/security/pam_slurm_adopt.so",
        ]
    )
    assert all(b"wlm" not in path.read_bytes() for path in files.values())
    assert len(files["usr/bin/sinfo"].read_bytes()) == len(PATH)
    assert files["usr/sbin/slurmd"].stat().st_mode & 0o111
    assert [("User=slurm\n" in files[unit].read_text()) for unit in units] == [True, False, True]
    assert all(files[unit].read_text().count("STAND-IN") for unit in units)


def test_pack_when_debians_packages_are_there_then_the_relations_are_schedmds(tmp_path):
    debs = packed(tmp_path, "24.11.5-4+deb13u1")
    version = "24.11.5-0standin1"
    assert {field(deb, "Version") for deb in debs.values()} == {version}
    assert all("STAND-IN" in field(deb, "Description") for deb in debs.values())
    assert field(debs["slurm-smd"], "Depends") == "munge, libc6 (>= 2.38), libhwloc15, libmariadb3"
    assert field(debs["slurm-smd-client"], "Depends") == f"slurm-smd (= {version}), munge, libc6"
    assert field(debs["slurm-smd-libpam-slurm-adopt"], "Depends") == "libc6"
    conflicts = {name for deb in debs.values() for name in field(deb, "Conflicts").split(", ")}
    assert {*DEBIAN.telling, DEBIAN.pam} <= conflicts


def test_pack_when_slurm_is_newer_then_munge_is_recommended_and_pams_module_is_with_the_architecture(tmp_path):
    debs = packed(tmp_path, "26.05.5-1")
    assert "munge" not in field(debs["slurm-smd-slurmd"], "Depends")
    assert field(debs["slurm-smd-slurmd"], "Recommends") == "munge"
    assert f"{ARCH}/security/pam_slurm_adopt.so" in unpacked(debs, tmp_path / "host")


def test_pack_when_there_is_no_slurm_then_it_says_so(tmp_path):
    with pytest.raises(FileNotFoundError, match="slurm-wlm-basic-plugins"):
        smd_standin.pack(tmp_path, tmp_path / "smd")


def test_write_index_when_there_are_packages_then_apt_can_read_where_they_are(tmp_path):
    debs = packed(tmp_path, "24.11.5-4")
    smd_standin.write_index(tmp_path / "smd")
    entries = (tmp_path / "smd/Packages").read_text().strip().split("\n\n")
    assert len(entries) == len(debs)
    deb = debs["slurm-smd"]
    assert f"Filename: ./{deb.name}\nSize: {deb.stat().st_size}\nSHA256: " in entries[-1] + entries[0]
