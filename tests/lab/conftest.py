"""Deployed clusters that test files share."""

from __future__ import annotations

import pytest
from lab_cluster import DeployedLab
from stock import Stock
from suites import SUITES


@pytest.fixture(scope="module", params=SUITES)
def deployed_lab(request: pytest.FixtureRequest, stock: Stock) -> DeployedLab:
    """A deployed cluster: a controller and three compute nodes, two with stand-in GPUs; tests must leave it intact."""
    return stock.deployed(request.param, gpus=("n1:2", "n2:2"))


@pytest.fixture(scope="module", params=SUITES)
def restarted_lab(request: pytest.FixtureRequest, stock: Stock) -> DeployedLab:
    """A deployed cluster whose hosts share a directory, for tests that restart hosts and daemons."""
    return stock.deployed(request.param, shared=("/shared",))
