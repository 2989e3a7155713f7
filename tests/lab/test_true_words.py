"""What a cluster says of itself when it was deployed thrice, when each daemon was killed, and after a power cut.

Nothing fails but what is broken, and what is told of it is so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from lab_cluster import DeployedLab, eventually, succeeded
from lab_user import words_of
from stock import Stock, in_turn

from slurmfab import lab

pytestmark = pytest.mark.lab

SERVER = "n2"
"""The file server, which is the login host as well."""

KEYS = """\
login: [n2]
database: ctl
mounts: [{{path: /data, source: "root@{0}:/srv/brick", type: sshfs, options: [{1}]}}]
"""
OPTIONS = "allow_other, IdentityFile=/shared/key, StrictHostKeyChecking=accept-new"
SERVES = (
    "mkdir -p /srv/brick /root/.ssh; ssh-keygen -q -t ed25519 -N '' -f /shared/key; "
    "cat /shared/key.pub >>/root/.ssh/authorized_keys"
)
KILLED = (
    "systemctl kill --signal=KILL --kill-whom=main {0}; "
    "until [ $(systemctl show --property=NRestarts --value {0}) = 1 ]; do sleep 0.1; done; "
    "until systemctl --quiet is-active {0}; do sleep 0.1; done"
)
TRUE_MEANWHILE = (
    "is its server up?",
    "is not mounted",
    "unexpectedly rebooted",
    "has not registered since slurmctld started",
    "slurmctld once (code=exited, status=1/FAILURE; fatal: It appears you don't have any association data",
    "slurmctld once (code=exited, status=1/FAILURE; fatal: You are running with a database but for some reason",
)
"""What checks may say of hosts that have come back before the file server; the last two, since slurmctld comes back
before its database, and may not have saved yet what it knows of accounts."""

DAEMONS = (("munge", "n1"), ("slurmd", "n1"), ("munge", "ctl"), ("slurmdbd", "ctl"), ("slurmctld", "ctl"))


@pytest.fixture(scope="module", params=in_turn("true_words"))
def hosts(request: pytest.FixtureRequest, stock: Stock) -> Iterator[DeployedLab]:
    with stock.copy(request.param, database=True, nodes=2, shared=("/shared",)) as made:
        made.on(SERVER, SERVES)
        text = made.inventory_path.read_text().replace("hosts: n[1-2]", "hosts: n1")
        made.inventory_path.write_text(text + KEYS.format(made.lab.host(SERVER).address, OPTIONS))
        yield made


def failures(hosts: DeployedLab) -> dict[str, dict[str, Any]]:
    """The failed checks that follow from no other one, by group, name and host."""
    checks = hosts.checks()
    return {
        f"{one['group']}.{one['check']}/{one['host']}": one
        for one in checks
        if one["outcome"] == "failed" and not one.get("because")
    }


def unexplained(hosts: DeployedLab) -> dict[str, str]:
    """The causes of failed checks that do not say what is so while the file server is off; it is named itself."""
    found = failures(hosts)
    assert f"reachable.host_is_reachable/{SERVER}" in found, found
    return {
        name: one["cause"]
        for name, one in found.items()
        if one["host"] != SERVER and not any(words in one["cause"] for words in TRUE_MEANWHILE)
    }


def test_three_deployments_in_a_row_change_something_once_and_leave_nothing_red(hosts: DeployedLab) -> None:
    for number in range(3):
        done = succeeded(hosts.slurmfab("deploy"))
        assert ("nothing changed" in words_of(done)) == (number > 0), words_of(done)
        if not number:
            hosts.until("ctl", "sinfo -h -n n1 -p main -o %t", "idle", patience=120)
        assert failures(hosts) == {}


def test_each_daemon_that_was_killed_is_told_once_and_nothing_else(hosts: DeployedLab) -> None:
    for unit, host in DAEMONS:
        hosts.on(host, KILLED.format(unit))
    hosts.until("ctl", "scontrol ping | grep -c 'is UP'; sinfo -h -n n1 -p main -o %t", "1\nidle", patience=120)
    hosts.until("ctl", "sacctmgr -nP show cluster format=ControlPort", "6817", patience=120)
    found = failures(hosts)
    assert set(found) == {"daemons.no_daemon_has_crashed/ctl", "daemons.no_daemon_has_crashed/n1"}, found
    for unit, host in DAEMONS:
        assert f"{unit} once (code=killed, status=9/KILL)" in found[f"daemons.no_daemon_has_crashed/{host}"]["cause"]
    hosts.deploy()
    assert failures(hosts) == {}


def test_a_power_cut_when_the_file_server_is_last_to_come_back_is_told_as_that_and_is_over_with_it(
    hosts: DeployedLab,
) -> None:
    for host in ("ctl", "n1", SERVER):
        lab.kill_host(hosts.lab, host)
    for host in ("ctl", "n1"):
        lab.start_host(hosts.lab, host)
    hosts.until("ctl", "scontrol ping | grep -c 'is UP'", "1", patience=150)
    hosts.until("n1", "systemctl is-active slurmd", "active", patience=150)
    eventually(lambda: unexplained(hosts) == {}, lambda: str(unexplained(hosts)), 150)
    lab.start_host(hosts.lab, SERVER)
    hosts.until(SERVER, "systemctl is-active ssh", "active", patience=150)
    eventually(lambda: hosts.slurmfab("deploy").returncode == 0, "deploy mends what the cut has left", 150)
    eventually(lambda: failures(hosts) == {}, lambda: str(failures(hosts)), 150)
