"""Who reaches the cluster's ports: the rules of each host, as nft reads them, and what hosts have to reach."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
from typing import Any

import pytest
from support import THREE_HOSTS, prepared_input

from slurmfab.base.errors import InputError
from slurmfab.core.plan.phases import firewall, packages
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.plan.preflight.firewall import refuse_unfit
from slurmfab.on_hosts.agent.core.host_paths import FIREWALL_RULES
from slurmfab.on_hosts.agent.files import firewalld_zone
from slurmfab.on_hosts.agent.files.firewall_rules import FirewallRules
from slurmfab.on_hosts.agent.files.firewalld_zone import FirewalldZone
from slurmfab.on_hosts.agent.nodes.connections import Connections
from slurmfab.on_hosts.agent.services.login_guard import LoginGuard

ADDRESSES = 'addresses: {c1: 10.0.0.1, "n[1-2]": "10.0.0.[2-3]"}\n'


def wanted(more: str, hosts: str = THREE_HOSTS, **facts: Any) -> PlanInput:
    return prepared_input(hosts + more, **facts)


def rules(known: PlanInput, host: str) -> str:
    guard, found = firewall.resources(known, host)
    assert guard == LoginGuard(proved=False)
    assert isinstance(found, FirewallRules)
    return found.by_path()[FIREWALL_RULES].text


def test_without_the_key_nothing_is_planned_but_the_removal_of_what_is_there() -> None:
    assert firewall.resources(wanted(""), "n1") == ()
    assert firewall.connections(wanted(""), "n1") == ()
    gone = firewall.resources(wanted("firewall: none\n", owned=("firewall",)), "n1")
    assert gone == (LoginGuard(proved=False), FirewallRules("firewall", ()))
    assert firewall.resources(wanted("firewall: checked\n"), "n1") == ()


def test_the_ports_of_a_host_are_closed_to_all_but_members_and_ssh_stays_open_to_all() -> None:
    text = rules(wanted("firewall: managed\n"), "n1")
    assert "tcp dport { 6818 } counter reject" in text
    assert "ip saddr { " in text
    assert "22" not in text
    assert "flush" not in text
    assert "nftables" in packages.wanted(wanted("firewall: managed\n"), "n1")
    assert "nftables" not in packages.wanted(wanted("firewall: checked\n"), "n1")


def test_ssh_is_for_admins_on_every_host_and_for_users_where_they_log_in() -> None:
    named = "firewall: {admins: [10.9.0.0/16, 'fd99::/64'], users: 10.8.0.0/16, trusted: 10.7.0.1}\n"
    known = wanted(named)
    assert "tcp dport { 22 } ip saddr { 10.9.0.0/16 } accept" in rules(known, "n1")
    assert "tcp dport { 22 } ip6 saddr { fd99::/64 } accept" in rules(known, "n1")
    assert "tcp dport { 22 } ip saddr { 10.8.0.0/15 } accept" in rules(known, "c1"), "there is no login host"
    assert "10.7.0.1 } accept" in rules(known, "n1")
    admins = wanted("firewall: {admins: 10.9.0.0/16}\n")
    assert "22" in rules(admins, "n1")
    assert "dport { 22 }" not in rules(admins, "c1"), "users come from everywhere"


def test_a_host_when_firewalld_is_at_work_then_its_zone_lets_members_in_and_it_has_no_rules_of_nftables() -> None:
    known = wanted("firewall: {trusted: 10.7.0.0/24}\n", services={"firewalld": "active"})
    (zone,) = firewall.zone(known, "n1")
    assert firewall.resources(known, "n1") == ()
    assert isinstance(zone, FirewalldZone)
    assert "10.7.0.0/24" in zone.sources
    assert {*zone.sources} == {one for some in firewall.friends(known).values() for one in some}
    text = zone.by_path()[firewalld_zone.PATH].text
    assert text.startswith('<?xml version="1.0" encoding="utf-8"?>\n<zone target="ACCEPT">\n')
    assert re.findall('<source address="(.*)"/>', text) == [*zone.sources]
    assert "nftables" not in packages.wanted(known, "n1")


def test_a_host_when_firewalld_has_come_or_gone_then_the_other_kind_of_rules_goes() -> None:
    come = wanted("firewall: managed\n", services={"firewalld": "active"}, owned=("firewall",))
    assert firewall.resources(come, "n1") == (LoginGuard(proved=False), FirewallRules("firewall", ()))
    assert firewall.zone(come, "n1") != ()
    gone = wanted("firewall: managed\n", owned=("firewall", "firewalld"))
    assert firewall.zone(gone, "n1") == (FirewalldZone("firewalld", ()),)
    assert rules(gone, "n1")
    none = wanted("firewall: none\n", owned=("firewalld",))
    assert (firewall.resources(none, "n1"), firewall.zone(none, "n1")) == ((), (FirewalldZone("firewalld", ()),))


@pytest.mark.needs_root("only root may ask nft")
@pytest.mark.skipif(not shutil.which("nft"), reason="nft is of Debian's package nftables")
@pytest.mark.parametrize("host", ["c1", "n1"])
def test_nft_takes_the_rules(host: str) -> None:
    known = wanted(
        "firewall: {admins: [10.9.0.0/16, 'fd99::/64'], users: 10.8.0.0/16}\ndatabase: c1\nmonitoring: true\n"
        "slurm_conf: {SrunPortRange: 7000-8000}\n"
    )
    text = rules(known, host)
    done = subprocess.run(["nft", "--check", "-f", "-"], input=text, text=True, capture_output=True, check=False)
    if "Operation not permitted" in done.stderr:
        pytest.skip("the kernel lets no nft in here")
    assert (done.returncode, done.stderr) == (0, ""), text


def test_each_host_tries_what_it_needs_of_those_in_the_run() -> None:
    known = wanted("firewall: checked\ndatabase: c1\n")
    (ctl,) = firewall.connections(known, "c1")
    assert isinstance(ctl, Connections)
    assert [(host, port, daemon) for host, _, port, daemon in ctl.targets] == [
        ("n1", 6818, "slurmd"), ("n2", 6818, "slurmd"),
    ]  # fmt: skip
    assert ctl.nodes == ("n1", "n2"), "what the controller does not reach is their failure"
    (node,) = firewall.connections(known, "n1")
    assert isinstance(node, Connections)
    assert [(host, port) for host, _, port, _ in node.targets] == [("c1", 6817), ("n2", 6818)]
    assert node.nodes == ("n2",), "a controller that is not reached is the node's own failure"
    alone = dataclasses.replace(known, facts={host: known.facts[host] for host in ("c1", "n1")})
    (node,) = firewall.connections(alone, "n1")
    assert isinstance(node, Connections)
    assert [host for host, *_ in node.targets] == ["c1"]


@pytest.mark.parametrize(
    ("more", "facts", "why"),
    [
        (
            "{admins: 10.9.0.0/16, users: 10.8.0.0/16}",
            {"services": {"firewalld": "active"}},
            "c1,n.1-2.: firewall: admins: firewalld is at work there and decides.*disable --now firewalld",
        ),
        ("managed", {"ufw": True}, "ufw disable.*firewall: checked"),
        (
            "{admins: 10.9.0.0/16}",
            {"way": ("10.0.5.1",)},
            "n.1-2.: .*from 10.0.5.1, which is in no network of admins",
        ),
    ],
)
def test_what_would_shut_hosts_or_the_deployer_out_is_refused(more: str, facts: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=f"(?s){why}.*Nothing was changed"):
        refuse_unfit(wanted(f"firewall: {more}\n", **facts))


@pytest.mark.parametrize(
    ("more", "facts"),
    [
        ("checked", {"services": {"firewalld": "active"}}),
        ("managed", {"services": {"firewalld": "inactive"}, "way": ("10.0.5.1",)}),
        ("managed", {"services": {"firewalld": "active"}}),
        ("{admins: 10.9.0.0/16}", {"way": ("10.9.0.7",)}),
        ("{admins: 10.9.0.0/16}", {"way": ("10.0.5.1", "10.0.6.1")}),
    ],
)
def test_what_may_be_there_is_not_refused(more: str, facts: dict[str, Any]) -> None:
    refuse_unfit(wanted(f"firewall: {more}\n", **facts))


@pytest.mark.parametrize(
    ("ranges", "found"),
    [
        ([], []),
        ([(22, 22)], [(22, 22)]),
        ([(6818, 6818), (6817, 6820), (22, 22)], [(22, 22), (6817, 6820)]),
        ([(1, 5), (5, 9)], [(1, 9)]),
        ([(1, 5), (6, 9)], [(1, 5), (6, 9)]),
        ([(1, 9), (2, 3), (4, 12)], [(1, 12)]),
    ],
)
def test_ranges_of_ports_that_overlap_are_one(ranges: list[tuple[int, int]], found: list[tuple[int, int]]) -> None:
    assert firewall.merged(ranges) == found


def test_a_host_without_ports_of_the_cluster_has_no_rule_for_none() -> None:
    hosts = THREE_HOSTS.replace("addresses: {", "addresses: {l1: 10.0.0.9, ").replace(
        "controllers:", "login: [l1]\ncontrollers:"
    )
    known = wanted("firewall: managed\n", hosts)
    assert "dport {  }" not in rules(known, "l1")
    assert "dport {  }" not in rules(known, "n1")
