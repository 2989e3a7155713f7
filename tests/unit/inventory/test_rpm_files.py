"""Packages of rpm beside the cluster file: what is read of them, and what is refused."""

from __future__ import annotations

from pathlib import Path

import made_rpms
import pytest

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory import rpm_files


def test_a_package_when_read_then_it_tells_name_version_and_what_it_needs(tmp_path: Path) -> None:
    path = made_rpms.saved(tmp_path, "slurm-slurmd", "24.11.5-1.el9", "x86_64", "slurm", "slurm-libs(x86-64)")
    found = rpm_files.package_in(path)
    assert (found.name, found.version, found.file_name) == ("slurm-slurmd", "24.11.5-1.el9", path.name)
    assert found.depends == (("libc.so.6",), ("slurm",), ("slurm-libs",))
    assert (found.is_for("x86_64"), found.is_for("aarch64")) == (True, False)
    assert found.installed_bytes == 4000
    assert rpm_files.package_in(made_rpms.saved(tmp_path, "a", "1-1", "noarch")).is_for("aarch64")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is not a package of rpm, or it is damaged"),
        (b"!<arch>\n" + bytes(200), "it is not a package of rpm"),
        (made_rpms.rpm("slurm")[:200], "it is damaged"),
        (made_rpms.LEAD + made_rpms.HEADER + b"\xff" * 8, "it is damaged"),
        (made_rpms.rpm("../slurm"), "it is damaged"),
        (made_rpms.rpm("slurm", "-"), "it is damaged"),
        (made_rpms.rpm("slurm", source=""), "it is a package of sources; build it"),
    ],
)
def test_a_file_that_is_no_package_when_read_then_it_is_refused(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "slurm.rpm"
    path.write_bytes(content)
    with pytest.raises(InputError, match=why):
        rpm_files.package_in(path)
