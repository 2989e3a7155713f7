"""Labs for tests: started once for a suite of Debian, deployed once, and always taken down."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_cluster import DeployedLab

from slurmfab import lab
from slurmfab.lab import LabSpec

SUITES = ("bookworm", "trixie")
"""Slurm 22.05 and 24.11: before and after `scontrol reconfigure` learned to add nodes."""


@pytest.fixture(scope="session", params=SUITES)
def deployed_lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedLab]:
    """A deployed cluster: a controller, three compute nodes, two of them with stand-in GPUs; tests leave it whole."""
    suite = request.param
    spec = LabSpec(name=f"q{suite[:1]}", suite=suite, nodes=3, gpus=("n1:2", "n2:2"))
    yield from deployed(spec, tmp_path_factory.mktemp(suite))


def deployed(spec: LabSpec, directory: Path) -> Iterator[DeployedLab]:
    """Start a lab, deploy to it, and take it down in the end."""
    lab.down(spec.name)
    try:
        started = lab.up(spec, directory)
        cluster = DeployedLab(started, started.cluster_file)
        cluster.deploy()
        yield cluster
    finally:
        lab.down(spec.name)


@pytest.fixture(scope="session", params=SUITES)
def restarted_lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedLab]:
    """A deployed cluster with a directory that all hosts share, for tests that restart hosts and daemons."""
    suite = request.param
    spec = LabSpec(name=f"b{suite[:1]}", suite=suite, nodes=3, shared=("/shared",))
    yield from deployed(spec, tmp_path_factory.mktemp(f"restarted-{suite}"))
