"""Slurm's files in a directory that all hosts share, on real Slurm: links, changes, taken back, rolled back, given up.

One lab goes through all of it, in this order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from lab_cluster import AS_SLURM, DeployedLab, ended, succeeded
from stock import Stock, in_turn

pytestmark = pytest.mark.lab

KEY = "slurm_conf_directory: /shared/slurm/etc\n"
HOSTS = ("ctl", "n1", "n2")
PLACES = "cd /etc/slurm && for name in slurm.conf cgroup.conf; do readlink -f $name; done | xargs"
LINKED = "/shared/slurm/etc/slurm.conf /shared/slurm/etc/cgroup.conf"
OWN = "/etc/slurm/slurm.conf /etc/slurm/cgroup.conf"
KILL_WAIT = "scontrol show config | sed -n 's/^KillWait *= \\([0-9]*\\).*/\\1/p'"
TREE = "SwitchName=leaf Nodes=n[1-2]\n"
TOPOLOGY = "slurm_files: {topology.conf: topology.conf}\n"


@dataclass
class Shared:
    """A cluster, and what its file says beside the key."""

    lab: DeployedLab
    text: str

    def writes(self, *more: str) -> None:
        self.lab.inventory_path.write_text("".join((self.text, *more)))

    def deploy(self, *more: str) -> None:
        """Deploy with this in the cluster file, twice: the second time nothing differs."""
        self.writes(*more)
        self.lab.deploy()
        assert self.lab.deploy()["steps"] == []

    def places(self) -> set[str]:
        return {self.lab.on(host, PLACES) for host in HOSTS}

    def conf(self) -> set[str]:
        return {self.lab.on(host, "cat /etc/slurm/slurm.conf") for host in HOSTS}

    def check(self) -> None:
        assert [one for one in self.lab.checks("configuration,slurmd,slurmctld") if one["outcome"] == "failed"] == []


@pytest.fixture(scope="module", params=in_turn("shared_directory"))
def shared(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Shared]:
    with stock.copy(request.param, nodes=2, shared=("/shared",)) as lab:
        lab.deploy()
        yield Shared(lab, lab.inventory_path.read_text())


def test_files_when_the_key_is_set_then_lie_in_the_shared_directory_with_links_on_all_hosts(shared: Shared) -> None:
    assert shared.places() == {OWN}
    shared.writes(KEY)
    shown = shared.lab.slurmfab("plan").stdout
    assert "slurm.conf: a file of its own -> a link to /shared/slurm/etc/slurm.conf" in shown, shown
    shared.deploy(KEY)
    assert shared.places() == {LINKED}
    assert len(shared.conf()) == 1
    shared.check()


def test_a_setting_when_it_is_changed_then_all_hosts_read_it_through_the_same_links(shared: Shared) -> None:
    shared.deploy(KEY, "slurm_conf: {KillWait: 77}\n")
    assert shared.places() == {LINKED}
    assert all("KillWait=77" in text for text in shared.conf())
    assert shared.lab.on("n1", KILL_WAIT) == "77"
    assert shared.lab.on("ctl", AS_SLURM + "srun -N2 --mem=50 hostname | sort | xargs") == "n1 n2"
    shared.check()


def test_a_rollback_then_brings_back_the_file_in_the_shared_directory(shared: Shared) -> None:
    succeeded(shared.lab.slurmfab("rollback"))
    assert shared.places() == {LINKED}
    assert not any("KillWait=77" in text for text in shared.conf())
    assert shared.lab.on("n1", KILL_WAIT) != "77"
    assert shared.lab.deploy()["steps"] == []


def test_files_of_the_site_then_lie_there_too_and_refused_ones_are_taken_back(shared: Shared) -> None:
    place = shared.lab.inventory_path.parent / "topology.conf"
    place.write_text(TREE)
    setting = "slurm_conf: {TopologyPlugin: topology/tree}\n"
    shared.deploy(KEY, setting, TOPOLOGY)
    assert shared.lab.on("n2", "readlink -f /etc/slurm/topology.conf") == "/shared/slurm/etc/topology.conf"
    place.write_text("SwitchName=a Switches=nothing-known\n")
    ended(shared.lab.slurmfab("deploy"), 1)
    assert shared.lab.on("n1", "systemctl is-active slurmd; cat /etc/slurm/topology.conf") == f"active\n{TREE}".strip()
    assert shared.lab.on("ctl", "systemctl is-active slurmctld") == "active"
    place.write_text(TREE)
    shared.deploy(KEY, setting, TOPOLOGY)
    shared.check()
    shared.deploy(KEY)
    assert shared.lab.on("n2", "ls /etc/slurm /shared/slurm/etc | grep -c topology || :") == "0"


def test_a_file_of_a_hosts_own_when_it_takes_a_links_place_then_is_named_and_replaced(shared: Shared) -> None:
    shared.lab.on("n2", "cd /etc/slurm && cp slurm.conf own && mv own slurm.conf")
    done = shared.lab.slurmfab("check-cluster", "--only", "configuration")
    assert "slurm.conf in /etc/slurm is no link to a file in /shared/slurm/etc" in done.stdout, done.stdout
    shared.deploy(KEY)
    assert shared.places() == {LINKED}


def test_files_when_the_key_is_removed_then_are_each_hosts_own_and_a_rollback_brings_the_links(shared: Shared) -> None:
    shared.deploy()
    assert shared.places() == {OWN}
    shared.check()
    succeeded(shared.lab.slurmfab("rollback"))
    assert shared.places() == {LINKED}
    assert shared.lab.deploy()["steps"] == []
    assert shared.lab.inventory_path.read_text() == f"{shared.text}{KEY}"
