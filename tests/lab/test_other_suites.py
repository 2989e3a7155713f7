"""A first deployment, checks and jobs on a suite on which the other lab tests are not played.

sid's systemd knows control groups of version 2 alone. A machine that uses its controllers with version 1 has none for
such hosts, so that nothing is shown there about limits of jobs.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lab_cluster import DeployedLab
from stock import Stock

pytestmark = pytest.mark.lab

SUITES = ("sid",)


@pytest.fixture(scope="module", params=SUITES)
def bare(request: pytest.FixtureRequest, stock: Stock) -> Iterator[DeployedLab]:
    with stock.bare(request.param, nodes=2) as made:
        yield made


def test_a_suite_when_it_is_deployed_to_then_checks_and_jobs_succeed_and_nothing_is_left_to_do(
    bare: DeployedLab,
) -> None:
    assert bare.deploy()["steps"]
    assert bare.deploy()["steps"] == []
    checked = bare.slurmfab("check-cluster")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "one job runs on all nodes at once" in checked.stdout
