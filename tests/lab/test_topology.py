"""Switches that hosts see, proposed and written: lldpctl is a stand-in, as labs have no switches."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from lab_cluster import DeployedLab, ended, succeeded
from lab_user import words_of
from lying_agent import honest_again, make_liar
from stock import Stock, in_turn

pytestmark = pytest.mark.lab

LLDPCTL = """cat >/usr/sbin/lldpctl <<'END'
#!/bin/sh
# STAND-IN for lldpctl: prints one neighbour, in the form of `lldpctl -f json0`.
echo '{"lldp": [{"interface": [{"name": "eth0", "chassis": [{"name": [{"value": "NAME"}]}]}]}]}'
END
chmod 755 /usr/sbin/lldpctl"""


@pytest.fixture(scope="module", params=in_turn("topology"))
def cluster(request: pytest.FixtureRequest, stock: Stock) -> Iterator[DeployedLab]:
    with stock.copy(request.param, nodes=2) as made:
        made.deploy()
        yield made


def test_switches_when_a_node_sees_none_then_that_is_said(cluster: DeployedLab) -> None:
    cluster.on("n1", LLDPCTL.replace("NAME", "leaf1.example.org"))
    done = ended(cluster.slurmfab("topology"), 1)
    assert "n2: no switch is seen from here" in words_of(done)


def test_switches_when_every_node_sees_one_then_they_are_shown_written_and_taken_by_slurm(cluster: DeployedLab) -> None:
    cluster.on("n2", LLDPCTL.replace("NAME", "leaf2"))
    before = cluster.inventory_path.read_text()
    shown = cluster.slurmfab("topology")
    assert (shown.returncode, cluster.inventory_path.read_text()) == (4, before)
    assert "+  - SwitchName: leaf1" in shown.stdout
    succeeded(cluster.slurmfab("topology", "--write"))
    assert cluster.slurmfab("topology").returncode == 0
    cluster.deploy()
    assert "SwitchName=fabric Level=1" in cluster.on("ctl", "scontrol show topology")


FABRIC = """
def lie(told):
    if "neighbours" in told:
        links = [["S-1", "H-1", "n1 mlx5_0"], ["S-2", "H-2", LINK]]
        told["neighbours"].update(has_tool=True, switches=[["S-1", "evil-a"], ["S-2", "evil-b"]], links=links)
        return told
"""


@pytest.mark.parametrize("link", ["n2 mlx5_0", " "], ids=["all places", "a blank"])
def test_switches_when_a_node_tells_of_a_fabric_of_its_own_making_then_each_node_is_where_it_says(
    cluster: DeployedLab, link: str
) -> None:
    for node, switch in (("n1", "leaf1"), ("n2", "leaf2")):
        cluster.on(node, LLDPCTL.replace("NAME", switch))
    make_liar(cluster, "n2", FABRIC.replace("LINK", repr(link)))
    try:
        done = cluster.slurmfab("topology", "--json", "-")
    finally:
        honest_again(cluster, "n2")
    assert "Traceback" not in done.stderr, words_of(done)
    told = json.loads(done.stdout)
    assert [(one["node"], *one["switches"], *one["by"]) for one in told["places"]] == [
        ("n1", "leaf1", "n1"),
        ("n2", "leaf2", "n2"),
    ]
    (remark,) = told["remarks"]
    assert remark.startswith("n2: where its ibnetdiscover sees ")
    assert "evil" not in done.stderr
