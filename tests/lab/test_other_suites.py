"""A first deployment, checks and jobs on a suite on which the other lab tests are not played.

sid's systemd knows control groups of version 2 alone. A machine that uses its controllers with version 1 has none for
such hosts, so that nothing is shown there about limits of jobs.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import other_nspawn
import pytest
from lab_cluster import DeployedLab, succeeded
from stock import Stock

from slurmfab import lab
from slurmfab.base.errors import LabError
from slurmfab.lab import LabSpec

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
    checked = succeeded(bare.slurmfab("check-cluster"))
    assert "one job runs on all nodes at once" in checked.stdout


HAS_CGROUPS_V1 = Path("/sys/fs/cgroup/systemd").exists()
"""Whether this machine has its control groups in version 1, which systemd has given up with version 258."""


@pytest.fixture(params=SUITES)
def spec(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LabSpec]:
    """A lab that the systemd-nspawn of its own suite starts."""
    wanted = LabSpec(name=f"{Stock.name(request.param)}n", suite=request.param, nodes=1)
    other_nspawn.use(request.param, tmp_path / "bin", monkeypatch)
    yield wanted
    lab.down(wanted.name)


def test_a_lab_when_the_systemd_nspawn_of_a_suite_was_killed_then_starts_again_or_says_why_it_cannot(
    spec: LabSpec, tmp_path: Path
) -> None:
    if HAS_CGROUPS_V1:
        with pytest.raises(LabError, match=r"systemd-nspawn has ended.*legacy cgroup v1 hierarchy, refusing"):
            lab.up(spec, tmp_path)
        return
    lab.up(spec, tmp_path)
    running = other_nspawn.running(spec.name)
    assert [f"/{spec.suite}-" in words for words in running.values()] == [True, True]
    for pid in running:
        os.kill(pid, signal.SIGKILL)
    lab.down(spec.name)
    lab.up(spec, tmp_path)
    assert {host.state for host in lab.status(spec.name)} == {"answers"}
