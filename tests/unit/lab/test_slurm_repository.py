"""The lab's signed apt repositories: what is in them, and that gpg agrees with the signature."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import made_debs
import pytest

from slurmfab.base.errors import LabError
from slurmfab.cluster.inventory import repository_key
from slurmfab.lab import slurm_repository

pytestmark = pytest.mark.skipif(
    shutil.which("gpg-agent") is None or shutil.which("dpkg-deb") is None, reason="needs gpg, gpg-agent and dpkg-deb"
)


def test_a_repository_has_lists_by_architecture_with_a_signature(tmp_path: Path) -> None:
    debs = [
        made_debs.saved(tmp_path / "slurmd_26.05.5-1_amd64.deb", Package="slurmd", Version="26.05.5-1"),
        made_debs.saved(tmp_path / "libx_1%3a2-3_arm64.deb", Package="libx", Version="1:2-3", Architecture="arm64"),
        made_debs.saved(tmp_path / "doc_1_all.deb", Package="doc", Version="1", Architecture="all"),
    ]
    made = slurm_repository.make(debs, tmp_path / "made")
    dist = made / "dists/newer"
    amd64, arm64 = ((dist / f"main/binary-{name}/Packages").read_text() for name in ("amd64", "arm64"))
    assert [slurm_repository.field(entry, "Package") for entry in amd64.split("\n\n")] == ["slurmd", "doc"]
    assert "Filename: pool/libx_2-3_arm64.deb\n" in arm64, "apt reads %3a as a colon"
    digest = hashlib.sha256(amd64.encode()).hexdigest()
    assert f" {digest} {len(amd64.encode())} main/binary-amd64/Packages\n" in (dist / "Release").read_text()
    key = (made / slurm_repository.KEY).read_bytes()
    assert repository_key.as_text(repository_key.public_keys(key)).encode() == key
    ring = tmp_path / "ring.gpg"
    ring.write_bytes(repository_key.public_keys(key))
    verified = ["gpgv", "--keyring", str(ring), str(dist / "InRelease")]
    if shutil.which("gpgv"):
        assert subprocess.run(verified, check=False, capture_output=True).returncode == 0


def test_what_is_no_package_is_refused(tmp_path: Path) -> None:
    (tmp_path / "slurmd_1_amd64.deb").write_bytes(b"no package")
    with pytest.raises(LabError, match="dpkg-deb"):
        slurm_repository.make([tmp_path / "slurmd_1_amd64.deb"], tmp_path / "made")
