"""Lines that look like errors and that healthy daemons write: those of real daemons are in the list of such lines.

A line that is missing there would be quoted as the cause of a failure that has another one.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lab_cluster import AS_SLURM, DeployedLab, succeeded
from stock import Stock, in_turn

from slurmfab.on_hosts.agent.services.daemon_log import causes

pytestmark = pytest.mark.lab

KEYS = "database: ctl\naccounts: [{name: physics}]\nusers: [{name: ada, uid: 3000, accounts: physics}]\n"
DAEMONS = (("slurmdbd", "ctl"), ("slurmctld", "ctl"), ("slurmd", "n1"))
"""The daemons in the order of their start, each with a host of it."""

FRESH = "for log in /var/log/slurm*/*.log; do : >$log; done; date +@%s"
"""Empties the logs, and prints the time."""

WRITTEN = "journalctl _SYSTEMD_UNIT={0}.service --since={1} --output=cat --no-pager; cat /var/log/slurm*/{0}.log"
NODES = ("n1", "n2", "n3")
JOB = f"{AS_SLURM} srun -N3 hostname | sort | xargs"


@pytest.fixture(scope="module", params=in_turn("healthy_lines"))
def hosts(request: pytest.FixtureRequest, stock: Stock) -> Iterator[DeployedLab]:
    with stock.copy(request.param, database=True, nodes=len(NODES)) as made:
        made.inventory_path.write_text(made.inventory_path.read_text() + KEYS)
        yield made


def written(hosts: DeployedLab, since: dict[str, str]) -> dict[str, list[str]]:
    """The lines of each daemon that would be quoted as causes."""
    return {
        daemon: causes(hosts.on(host, WRITTEN.format(daemon, since[host])).splitlines()) for daemon, host in DAEMONS
    }


def test_a_first_start_writes_no_error_that_the_list_has_not(hosts: DeployedLab) -> None:
    since = {host: hosts.on(host, FRESH) for host in ("ctl", *NODES)}
    hosts.deploy()
    hosts.until("ctl", JOB, " ".join(NODES))
    assert written(hosts, since) == {daemon: [] for daemon, _ in DAEMONS}


def test_a_later_start_writes_no_error_that_the_list_has_not(hosts: DeployedLab) -> None:
    hosts.on("ctl", "systemctl stop slurmctld slurmdbd")
    for node in NODES:
        hosts.on(node, "systemctl stop slurmd")
    since = {host: hosts.on(host, FRESH) for host in ("ctl", *NODES)}
    hosts.on("ctl", "systemctl start slurmdbd && until sacctmgr -n show cluster; do sleep 0.2; done")
    hosts.on("ctl", "systemctl start slurmctld && until scontrol ping | grep 'is UP'; do sleep 0.2; done")
    for node in NODES:
        hosts.on(node, "systemctl start slurmd")
    hosts.until("ctl", "sinfo -h -N -p main -t idle -o %N | xargs", " ".join(NODES), patience=120)
    assert hosts.on("ctl", JOB) == " ".join(NODES)
    succeeded(hosts.slurmfab("check-cluster"))
    assert written(hosts, since) == {daemon: [] for daemon, _ in DAEMONS}
