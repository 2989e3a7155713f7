"""A plain change, again and again: every daemon that it restarts comes back, at whatever moment.

`CHANGES=500 pytest tests/lab/test_many_changes.py` plays more than those of every run. The first change of a lab comes
as soon as its first deployment has ended. On every second lab, jobs run meanwhile. A failure shows the daemons' logs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from lab_cluster import AS_SLURM, DeployedLab
from lab_user import words_of
from stock import Stock
from suites import OLDEST

pytestmark = pytest.mark.lab

CHANGES = int(os.environ.get("CHANGES", "6"))
ON_A_LAB = 12
"""How many changes are made on one lab."""

NODES = ("n1", "n2", "n3")
LOGS = (
    "journalctl --output=short-precise --no-pager --lines=60 --unit=slurmd --unit=slurmctld; "
    "tail -n 60 /var/log/slurm*/slurm*d.log; systemctl status --no-pager --full slurmd slurmctld"
)
JOBS = f"{AS_SLURM}sbatch --parsable --nodes=3 --ntasks-per-node=1 --mem=50 -o /dev/null --wrap 'srun sleep 3600'"


@pytest.fixture
def hosts(request: pytest.FixtureRequest, stock: Stock) -> Iterator[DeployedLab]:
    with stock.copy(OLDEST, nodes=len(NODES)) as made:
        made.deploy()
        if request.param % 2:
            made.on("ctl", JOBS)
        yield made


@pytest.mark.parametrize("hosts", range(-(-CHANGES // ON_A_LAB)), indirect=True)
def test_a_value_that_is_changed_again_and_again_takes_effect_each_time(hosts: DeployedLab) -> None:
    text = hosts.inventory_path.read_text()
    for number in range(min(CHANGES, ON_A_LAB)):
        hosts.inventory_path.write_text(f"{text}slurm_conf: {{KillWait: {40 + number}}}\n")
        done = hosts.slurmfab("deploy")
        logs = "" if done.returncode == 0 else "\n".join(hosts.on(name, LOGS, check=False) for name in ("ctl", *NODES))
        assert done.returncode == 0, f"change {number}: {words_of(done)}\n{logs}"
        assert f"KillWait                = {40 + number} sec" in hosts.on("ctl", "scontrol show config")
