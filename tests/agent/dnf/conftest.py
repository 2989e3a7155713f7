"""A scratch root whose packages are rpm's, with a source of Slurm's packages; rpm and dnf are the real ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import rpm_packages
from rpm_packages import Repository, write_sources

from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.dnf import rpm_database, slurm_repository

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
