"""Packages beside the cluster file: what each says of itself, and what is refused, with the line there."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import made_debs
import pytest
from support import THREE_HOSTS

from slurmfab.base.errors import ClusterFileError, InputError
from slurmfab.cluster.inventory import deb_files, loading
from slurmfab.cluster.inventory.loading import Inventory

NAME = "debs/enroot_3.5.0-1_amd64.deb"


def inventory(folder: Path, packages: str = f"{{compute: [{NAME}]}}") -> Inventory:
    path = folder / "cluster.yaml"
    path.write_text(f"{THREE_HOSTS}packages: {packages}\n")
    return loading.load(path)


@pytest.mark.parametrize("suffix", made_debs.PACK)
def test_a_package_says_what_it_is_however_its_control_file_is_packed(tmp_path: Path, suffix: str) -> None:
    path = made_debs.saved(tmp_path / NAME, suffix=suffix, Version="1:3.5.0-1", Depends="curl (>= 7), jq | gojq:any")
    (found,) = deb_files.read(inventory(tmp_path)).values()
    assert (found.name, found.version, found.architecture) == ("enroot", "1:3.5.0-1", "amd64")
    assert found.file_name == "enroot_1%3a3.5.0-1_amd64.deb"
    assert found.depends == (("curl",), ("jq", "gojq"))
    assert found.installed_bytes == 7 << 10
    assert (found.is_for("amd64"), found.is_for("arm64")) == (True, False)
    content = path.read_bytes()
    assert found.digest() == hashlib.sha256(content).hexdigest()
    assert b"".join(data for _, data in found.pieces(100)) == content
    assert found.index_entry().startswith(
        "Package: enroot\nVersion: 1:3.5.0-1\nArchitecture: amd64\nInstalled-Size: 7\n"
    )


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "it cannot be read: No such file"),
        (b"", "it is not a Debian package, or it is damaged"),
        (b"!<arch>\n" + b"x" * 100, "it is not a Debian package"),
        (made_debs.ar({"debian-binary": b"2.0\n", "data.tar": b"x"}), "it is not a Debian package"),
        (made_debs.ar({"control.tar.xz": b"no xz"}), "its control.tar is damaged"),
        (made_debs.ar({"control.tar.gz": b"no gz"}), "its control.tar is damaged"),
        (made_debs.ar({"control.tar": b"no tar"}), "it is not a Debian package"),
        (made_debs.ar({"control.tar.lzo": b""}), "compressed in an unknown way"),
        (made_debs.ar({"control.tar": made_debs.tar("a: b", "./md5sums")}), "it is not a Debian package"),
        (made_debs.ar({"control.tar": made_debs.tar("Package: a b\n")}), 'its Package is "a b"'),
        (made_debs.ar({"control.tar": made_debs.tar("Package: enroot\n")}), 'its Version is ""'),
        (
            made_debs.ar({"control.tar": made_debs.tar(made_debs.control(Package="other"))}),
            'this is the package "other"; rename the file: dpkg-name ' + NAME,
        ),
        (
            made_debs.ar({"control.tar.xz": made_debs.PACK[".xz"](bytes(deb_files.LARGEST_CONTROL + 1))}),
            "its control.tar is too large",
        ),
    ],
)
def test_what_is_no_such_package_is_refused_with_the_line(tmp_path: Path, content: bytes | None, reason: str) -> None:
    known = inventory(tmp_path)
    (tmp_path / "debs").mkdir()
    if content is not None:
        (tmp_path / NAME).write_bytes(content)
    with pytest.raises(InputError) as refused:
        deb_files.read(known)
    first = str(refused.value).splitlines()[0]
    assert first.startswith(f"{known.path}:5: packages: {NAME}: ")
    assert reason in first


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    known = inventory(tmp_path)
    (tmp_path / "debs").mkdir()
    os.mkfifo(tmp_path / NAME)
    with pytest.raises(InputError, match="it is not a regular file"):
        deb_files.read(known)


@pytest.mark.parametrize(
    ("packages", "reason"),
    [
        ("{all: [enroot.deb]}", "is not the path of a package such as"),
        ("{all: ['a b_1_all.deb']}", "is not the path of a package such as"),
        ("{all: [a/enroot_1_all.deb, b/enroot_2_all.deb]}", '"enroot" is listed twice'),
        ("{all: [enroot_1_all.deb], compute: [enroot_2_all.deb]}", "are for the same host"),
        ("{all: [debs/munge_0.5_amd64.deb]}", "slurmfab installs munge where the roles of hosts need it"),
    ],
)
def test_paths_that_are_wrong_by_themselves_are_refused_with_the_cluster_file(packages: str, reason: str) -> None:
    with pytest.raises(ClusterFileError, match=reason):
        loading.parse(f"{THREE_HOSTS}packages: {packages}\n", "cluster.yaml")
