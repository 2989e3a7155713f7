"""The stand-in for Enterprise Linux in labs: what its RPMs are made of."""

from __future__ import annotations

import subprocess
from pathlib import Path

from slurmfab.cluster.slurm.platform import EL, EL_OPENHPC, EL_SMD
from slurmfab.lab import el_standin

CONTROL = "Package: {name}\nVersion: 24.11.5-4\nArchitecture: amd64\nMaintainer: x <x@example.org>\nDescription: x\n"


def deb(place: Path, name: str, *paths: str) -> None:
    """Make a package of Debian's with files whose content is a path of the plugins."""
    tree = place / name
    for path in paths:
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_bytes(b"\0/usr/lib/x86_64-linux-gnu/slurm-wlm\0")
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(CONTROL.format(name=name))
    argv = ["dpkg-deb", "--root-owner-group", "--build", str(tree), str(place / f"{name}_1%3a24.11.5-4_amd64.deb")]
    subprocess.run(argv, check=True, capture_output=True)


def test_packages_when_prepared_then_names_and_places_are_those_of_the_platform(tmp_path: Path) -> None:
    debs = tmp_path / "debs"
    deb(debs, "slurmd", "usr/sbin/slurmd-wlm", "usr/sbin/slurmstepd-wlm")
    deb(debs, "slurm-wlm-mysql-plugin", "usr/lib/x86_64-linux-gnu/slurm-wlm/accounting_storage_mysql.so")
    deb(debs, "slurm-wlm-basic-plugins", "usr/lib/x86_64-linux-gnu/slurm-wlm/auth_munge.so")
    (tmp_path / "made").mkdir()
    el_standin.prepare(debs, tmp_path / "made")
    slurm = tmp_path / "made/packages/slurm"
    assert {path.stem for path in slurm.glob("*.spec")} <= {*EL_SMD.slurm_packages}
    assert (slurm / "slurm/usr/lib64/slurm/auth_munge.so").read_bytes().startswith(b"\0/usr/lib64/slurm\0")
    assert (slurm / "slurm-slurmdbd/usr/lib64/slurm/accounting_storage_mysql.so").exists()
    node = (slurm / "slurm-slurmd.spec").read_text()
    assert "Version: 24.11.5\n" in node
    assert "Requires: slurm = %{version}-%{release}\n" in node
    for path in (EL_SMD.program("slurmd"), "/usr/sbin/slurmstepd", "/usr/lib/systemd/system/slurmd.service"):
        assert f'\n"{path}"\n' in node
    for one, (name, packages) in ((EL, el_standin.SLURMS["el"]), (EL_OPENHPC, el_standin.SLURMS["el-openhpc"])):
        assert {path.stem for path in (tmp_path / "made/packages" / name).glob("*.spec")} == {*packages}
        assert {one.core, *one.daemon_packages.values()} <= {*packages} <= {*one.slurm_packages}
    openhpc = (tmp_path / "made/packages/openhpc/slurm-ohpc.spec").read_text()
    assert "useradd --system --uid 202 --gid slurm --home-dir /etc/slurm" in openhpc
    munge = (tmp_path / "made/packages/system/munge.spec").read_text()
    assert '%config(noreplace) "/etc/sysconfig/munge"' in munge
    assert "%dir %attr(0700, munge, munge) /etc/munge" in munge
