"""Labs for tests: started once for a suite of Debian, deployed once, and always taken down."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from lab_cluster import DeployedLab

from slurmfab import lab
from slurmfab.lab import LabSpec

SUITES = ("bookworm", "trixie")
"""Slurm 22.05 and 24.11: before and after `scontrol reconfigure` learned to add nodes."""

WORKER = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
"""Which of the processes this is that share the test files among them: each has labs of its own."""

Start = Callable[[LabSpec], DeployedLab]


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts a lab and deploys to it, or gives the one that is up since an earlier test file asked for it."""
    labs: dict[str, DeployedLab] = {}
    with ExitStack() as stack:

        def started(spec: LabSpec) -> DeployedLab:
            if spec.name not in labs:
                directory = tmp_path_factory.mktemp(spec.name)
                labs[spec.name] = stack.enter_context(contextmanager(deployed)(spec, directory))
            return labs[spec.name]

        yield started


@pytest.fixture(scope="module", params=SUITES)
def deployed_lab(request: pytest.FixtureRequest, start: Start) -> DeployedLab:
    """A deployed cluster: a controller, three compute nodes, two of them with stand-in GPUs; tests leave it whole."""
    suite = request.param
    return start(LabSpec(name=f"q{WORKER}{suite[:1]}", suite=suite, nodes=3, gpus=("n1:2", "n2:2")))


@pytest.fixture(scope="module", params=SUITES)
def restarted_lab(request: pytest.FixtureRequest, start: Start) -> DeployedLab:
    """A deployed cluster with a directory that all hosts share, for tests that restart hosts and daemons."""
    suite = request.param
    return start(LabSpec(name=f"b{WORKER}{suite[:1]}", suite=suite, nodes=3, shared=("/shared",)))


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
