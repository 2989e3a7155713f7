"""`fab rehearse` on a cluster of a lab: the twin is like it, has no way out, and the cluster is not touched."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from lab_cluster import DeployedLab
from lab_cluster import report as report_of
from lab_user import snapshots
from stock import Stock, in_turn

from slurmfab import lab as labs
from slurmfab.commands.rehearse.rehearsing import lab_name
from slurmfab.commands.rehearse.stage import DOOR, packet_counts
from slurmfab.lab.layout import LabLayout

pytestmark = pytest.mark.lab

LOGINS = "journalctl --unit ssh --unit ssh.socket --unit 'ssh@*' --grep Accepted --quiet | wc -l"
CONNECT = "timeout 3 bash -c 'exec 3<>/dev/tcp/{address}/{port}' 2>&1"


@pytest.fixture(scope="module", params=in_turn("twin"))
def cluster(request: pytest.FixtureRequest, stock: Stock) -> Iterator[DeployedLab]:
    with stock.copy(request.param, nodes=3) as lab:
        lab.deploy()
        text = lab.inventory_path.read_text()
        lab.inventory_path.write_text(f"{text}slurm_conf: {{SlurmdTimeout: 111}}\n")
        lab.deploy()
        try:
            yield lab
        finally:
            labs.down(lab_name(lab.inventory_path))


def change(lab: DeployedLab, setting: str) -> None:
    """Give the cluster file another setting of slurm.conf."""
    lab.inventory_path.write_text(
        f"{lab.inventory_path.read_text().partition('slurm_conf:')[0]}slurm_conf: {{{setting}}}\n"
    )


def rehearsed(lab: DeployedLab, *words: str) -> tuple[int, dict[str, Any], str]:
    done = lab.slurmfab("rehearse", "--json", "-", "--cluster", str(lab.inventory_path), *words, cluster=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


def test_a_change_when_it_is_rehearsed_then_the_report_says_what_the_plan_does_and_the_cluster_is_not_touched(
    cluster: DeployedLab,
) -> None:
    change(cluster, "SlurmdTimeout: 123")
    files, logins = snapshots(cluster, "ctl", "n1", "n2", "n3"), {}
    for host in ("n1", "n2", "n3"):
        logins[host] = cluster.on(host, LOGINS, check=False)
    code, told, shown = rehearsed(cluster, "--keep", "deploy")
    assert (code, told["found"], told["look_at"]) == (0, [], []), shown
    assert sorted(told["twin"]) == ["ctl", "n1", "n2"]
    assert told["twin"]["n1"] == ["n3"]
    assert snapshots(cluster, "ctl", "n1", "n2", "n3") == files
    assert logins == {host: cluster.on(host, LOGINS, check=False) for host in logins}
    assert refuses_all_others(cluster)
    assert cluster.slurmfab("plan", "--save", "tonight.json").returncode == 4
    done = cluster.slurmfab("deploy", "--plan", "tonight.json", "--json", "-")
    assert re.search(r"Rehearsed \S+ \S+ UTC: went well\.\n", done.stderr), done.stderr
    report = report_of(done)
    changes = {(step["phase"], one["id"]) for step in report["steps"] for one in step["outcomes"]}
    assert {(step["phase"], one["id"]) for step in told["steps"] for one in step["outcomes"]} == changes


def refuses_all_others(cluster: DeployedLab) -> bool:
    """Whether neither the twin's hosts nor the namespace of commands reach a host of the real cluster, or this one."""
    twin = labs.load(lab_name(cluster.inventory_path))
    before = packet_counts(twin.spec)
    for host in cluster.lab.hosts:
        script = CONNECT.format(address=host.address, port=22)
        assert labs.run(twin, "ctl", ["sh", "-c", script]).returncode != 0
        namespace = LabLayout(twin.name).host(DOOR).namespace
        assert subprocess.run(["nsenter", f"--net=/run/netns/{namespace}", "sh", "-c", script], check=False).returncode
    counts = packet_counts(twin.spec)
    assert counts["beyond"] >= before["beyond"] + len(cluster.lab.hosts)
    for place in twin.hosts[0].address, twin.hosts[1].address:
        assert labs.run(twin, "ctl", ["sh", "-c", CONNECT.format(address=place, port=22)]).returncode == 0
    return True


def test_a_change_that_no_slurmctld_takes_when_it_is_rehearsed_then_its_cause_comes_first_and_the_exit_code_is_1(
    cluster: DeployedLab,
) -> None:
    change(cluster, "JobSubmitPlugins: nonsense")
    code, told, shown = rehearsed(cluster, "deploy")
    assert code == 1, shown
    assert "nonsense" in "\n".join(told["found"]), told["found"]
    assert lab_name(cluster.inventory_path) not in labs.names()


def test_a_deployment_when_it_is_killed_and_a_node_loses_its_power_then_the_next_run_completes_it(
    cluster: DeployedLab,
) -> None:
    change(cluster, "SlurmdTimeout: 130")
    code, told, shown = rehearsed(cluster, "--kill", "1", "--power-cut", "n1", "deploy")
    assert len(told["attempts"]) == 3, shown
    assert told["attempts"][-1]["exit_code"] == 0, shown
    assert (code, told["found"]) == (0, []), shown
