"""A scratch root whose packages are rpm's, with a source of Slurm's packages; rpm and dnf are the real ones."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import rpm_packages
from rpm_packages import Given, Repository, write_sources

from slurmfab.cluster.slurm.platform import EL_SMD
from slurmfab.on_hosts.agent.core.resource import Context, apply
from slurmfab.on_hosts.agent.dnf import rpm_database, slurm_repository
from slurmfab.on_hosts.agent.dnf.dnf_packages import DnfPackages

EVERYWHERE = "%_dbpath /var/lib/rpm\n"
"""Debian's rpm has its database in root's home, unless it is told where Enterprise Linux has it."""


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    missing = rpm_packages.lacking()
    if missing or os.getuid() != 0:
        pytest.skip(f"needs root and {', '.join(missing)} (make tool-packages)")
    return rpm_packages.make(tmp_path_factory.mktemp("packages"))


@pytest.fixture
def el(tmp_path: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch) -> Context:
    """The context of a root that has the source of Slurm's packages as slurmfab writes it, and a site's own beside."""
    home = tmp_path / "home"
    home.mkdir()
    (home / ".rpmmacros").write_text(EVERYWHERE)
    monkeypatch.setenv("HOME", str(home))
    context = Context(str(tmp_path / "root"))
    for folder in (slurm_repository.FOLDER, "/etc/pki/rpm-gpg", "/var/lib/rpm", "/var/log"):
        Path(context.path(folder)).mkdir(parents=True)
    Path(context.path(rpm_database.RPM)).parent.mkdir(parents=True)
    Path(context.path(rpm_database.RPM)).touch()
    write_sources(context, repository.folder, repository.key)
    return context


@pytest.fixture(scope="session")
def filled() -> dict[tuple[str, ...], Path]:
    """Copies of roots with packages, by the names of these."""
    return {}


@pytest.fixture
def given(
    el: Context, repository: Repository, filled: dict[tuple[str, ...], Path], tmp_path_factory: pytest.TempPathFactory
) -> Given:
    """A function that has packages in the root; dnf installs them for the first test that wants them."""

    def have(*names: str) -> None:
        if names in filled:
            shutil.copytree(filled[names], el.root, symlinks=True, dirs_exist_ok=True)
            write_sources(el, repository.folder, repository.key)
            return
        apply(DnfPackages(names, slurm=EL_SMD.slurm_packages, slurm_version="24.11.*"), el)
        filled[names] = tmp_path_factory.mktemp("root")
        shutil.copytree(el.root, filled[names], symlinks=True, dirs_exist_ok=True)

    return have
