"""The checks of the network: who connects to whom, and which failures are a firewall's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from ruled_shells import unit

from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.firewall import Firewall
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.ports import Target, needed, ring
from slurmfab.commands.checks.results import Verdict
from slurmfab.commands.checks.shell import CommandResult
from slurmfab.commands.checks.test_network import script

Look = Callable[..., Verdict]
TRY = r"try\(\)"
"""The rule of the stand-in hosts for connections."""


@pytest.mark.parametrize(
    ("nodes", "starts"),
    [("n1 n2 n3", "n3 n1 n2"), ("n1 n2", "n2 n1"), ("n1", "ctl"), ("ctl", ""), ("", "")],
)
def test_each_node_is_tried_by_another_node_or_else_by_the_controller(nodes: str, starts: str) -> None:
    assert list(ring(nodes.split(), "ctl").values()) == starts.split()


def test_a_node_tries_each_slurmctld_srun_and_one_other_node(tmp_path: Path) -> None:
    text = """
cluster: x
controllers: [c1, c2]
nodes: [{hosts: "n[1-3]"}]
state_directory: /shared
slurm_conf: {SlurmctldPort: 7000-7003, SlurmdPort: 7100, SrunPortRange: 60001-60100}
"""
    cluster = loading.parse(text, str(tmp_path / "x.yaml"))
    starts = ring(("n1", "n2", "n3"), "c1")
    assert needed(cluster, "n1", starts) == (
        Target("c1", 7000, "slurmctld"), Target("c2", 7000, "slurmctld"), Target("c1", 60001, "srun"),
        Target("n2", 7100, "slurmd"),
    )  # fmt: skip
    assert needed(cluster, "c1", starts) == (
        Target("c2", 7000, "slurmctld"), *(Target(node, 7100, "slurmd") for node in ("n1", "n2", "n3")),
    )  # fmt: skip


def test_connections_are_tried_at_the_same_time_by_address() -> None:
    text = script([(Target("ctl", 6817, ""), "10.0.0.1"), (Target("n2", 6818, ""), "fd83::11")])
    assert text.endswith("try ctl 10.0.0.1 6817 & try n2 fd83::11 6818 & wait")


@pytest.mark.parametrize(
    ("host", "line", "words"),
    [
        pytest.param("n2", "n1 6818 124 ", "n2 cannot connect to slurmd on n1, port 6818 (no answer", id="silent"),
        pytest.param("n2", "n1 6818 1 No route to host", "(No route to host): a firewall", id="rejected"),
        pytest.param("ctl", "n1 6818 124 ", "ctl cannot connect to slurmd on n1, port 6818", id="from-the-controller"),
        pytest.param("n1", "ctl 6817 124 ", "n1 cannot connect to slurmctld on ctl, port 6817", id="slurmctld"),
        pytest.param("n1", "ctl 6817 0 ", "", id="open"),
    ],
)
def test_a_connection_that_fails_is_a_firewall_between_two_hosts(
    look: Look, shells: dict, host: str, line: str, words: str
) -> None:
    others = ("ctl 6817 0 \n", "n1 6818 0 \n", "n2 6818 0 \n")
    shells[host].rules[TRY] = f"{line}\n" + "".join(one for one in others if not line.startswith(one[:8]))
    verdict = look("network")
    found = verdict.having("failed")
    assert [result.host for result in found] == (["n1"] if words else [])
    if words:
        assert words in found[0].cause
        assert "TCP port" in found[0].repair


@pytest.mark.parametrize(("answer", "is_closed"), [("1 Connection refused", False), ("124 ", True)])
def test_ports_of_srun_are_closed_if_nobody_even_refuses(
    look: Look, shells: dict, known: Inventory, answer: str, is_closed: bool
) -> None:
    known.cluster.slurm_conf["SrunPortRange"] = "60001-60100"
    shells["n1"].rules[TRY] = f"ctl 6817 0 \nctl 60001 {answer}\nn2 6818 0 \n"
    shells["n2"].rules[TRY] = "ctl 6817 0 \nctl 60001 1 Connection refused\nn1 6818 0 \n"
    verdict = look("network")
    assert [result.host for result in verdict.having("failed")] == (["n1"] if is_closed else [])
    if is_closed:
        assert "TCP port 60001-60100" in verdict.having("failed")[0].repair


def test_a_slurmd_that_does_not_run_is_no_firewall(look: Look, shells: dict) -> None:
    shells["n1"].rules |= unit("slurmd", ActiveState="inactive")
    shells["n2"].rules[TRY] = "ctl 6817 0 \nn1 6818 1 Connection refused\n"
    verdict = look("network")
    assert verdict.having("failed") == ()
    assert [result.host for result in verdict.having("not run")] == ["n1", "n1"]  # from ctl, and from n2


RULES = """table inet slurmfab {
	chain begins {
		ip saddr { 10.0.0.0-10.0.0.255, 10.2.0.0/24 } accept
		tcp dport 22 ip saddr 10.9.0.0/16 accept
		tcp dport { 6817-6818, 60001-60100 } counter packets 0 bytes 0 reject with icmpx admin-prohibited
	}
}
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (RULES, ""),
        (RULES.replace("6817-6818", "6817"), "everybody reaches slurmd on n1, port 6818"),
        (RULES.replace("10.0.0.0-10.0.0.255, ", ""), "the rules on n1 do not let ctl in"),
        ("", "n1 has no rules of slurmfab's"),
    ],
    ids=["right", "open-port", "host-kept-out", "no-table"],
)
def test_rules_that_leave_a_port_open_or_a_host_out_are_told(
    look: Look, shells: dict, known: Inventory, text: str, words: str
) -> None:
    known.cluster.__dict__["firewall"] = Firewall()
    for shell in shells.values():
        shell.rules["nft list table"] = CommandResult(0 if text else 1, text.encode(), b"No such file or directory")
        shell.rules["systemctl is-enabled slurmfab-firewall"] = "enabled"
        shell.rules["systemctl is-active firewalld"] = CommandResult(3, b"inactive", b"")
    found = [one for one in look("network").having("failed") if one.host == "n1" and "strangers" in one.check]
    assert [words in one.cause for one in found] == ([True] if words else []), found


ZONE = "slurmfab (active)\n  target: ACCEPT\n  interfaces: \n  sources: 10.0.0.0/24 10.2.0.0/24\n  ports: \n"


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        ((ZONE, ZONE), ""),
        ((ZONE.replace("10.0.0.0/24 ", ""), ZONE), "firewalld on n1 does not let ctl in. Repair"),
        ((ZONE.replace("ACCEPT", "default"), ZONE), "firewalld on n1 does not let ctl in. Repair"),
        ((ZONE, ""), "firewalld on n1 does not let ctl in after its next start. Repair"),
    ],
    ids=["right", "host-kept-out", "other-target", "not-permanent"],
)
def test_a_firewalld_when_its_zone_does_not_let_a_host_in_then_that_is_told(
    look: Look, shells: dict, known: Inventory, shown: tuple[str, str], words: str
) -> None:
    now, later = shown
    known.cluster.__dict__["firewall"] = Firewall()
    for shell in shells.values():
        shell.rules["systemctl is-active firewalld"] = "active"
        shell.rules["firewall-cmd --info-zone"] = now
        shell.rules["firewall-cmd --permanent --info-zone"] = CommandResult(0 if later else 112, later.encode(), b"")
    found = [one for one in look("network").having("failed") if one.host == "n1" and "strangers" in one.check]
    assert [words in f"{one.cause} Repair: {one.repair}" for one in found] == ([True] if words else []), found
