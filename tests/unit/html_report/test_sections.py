"""Sections of a page: what each shows of its sources, and when it is left out."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import pytest
from made_pages import sources
from support import cluster

from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.checks.kept import CheckRun
from slurmfab.commands.checks.results import Result, Verdict
from slurmfab.commands.report import writing
from slurmfab.commands.report.node_views import Look, look_of
from slurmfab.commands.report.section import NOT_ASKED, Missing
from slurmfab.commands.report.sections import checks, hardware, nodes, picture
from slurmfab.commands.report.sections.checks import columns, findings, not_run
from slurmfab.core.status.cluster_state import Status
from slurmfab.core.status.snapshot import Node, Snapshot
from slurmfab.on_hosts.agent.nodes.states import state_of

SMALL = sources()


def node(state: str, cpus_used: int = 0, gpus: int = 0, gpus_used: int = 0) -> Node:
    return Node("n1", state_of({"State": state}), 8, cpus_used, gpus, gpus_used, 1000, 0, ("main",), "24.11.5")


@pytest.mark.parametrize(
    ("shown", "css"),
    [
        (node("IDLE"), "idle"),
        (node("MIXED", 4), "partly"),
        (node("ALLOCATED", 8), "full"),
        (node("MIXED", 4, 2, 2), "full"),
        (node("IDLE+DRAIN"), "drained"),
        (node("MIXED+DRAIN", 4), "draining"),
        (node("DOWN*"), "down"),
        (node("IDLE*"), "down"),
        (node("IDLE+POWERED_DOWN"), "asleep"),
        (node("DOWN+POWERED_DOWN"), "down"),
        (node("IDLE+REBOOT_ISSUED"), "away"),
        (node("UNKNOWN"), "unknown"),
        (None, "unknown"),
    ],
)
def test_node_when_in_a_state_then_it_has_its_look(shown: Node | None, css: str) -> None:
    look: Look = look_of(shown)
    assert (look.css, bool(look.sign), bool(look.word)) == (css, True, True)


def test_picture_when_there_are_switches_then_nodes_are_shown_by_switch() -> None:
    known = cluster(
        "cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: 'n[1-3]'}]\n"
        "topology:\n- {SwitchName: leaf1, Nodes: 'n[1-2]'}\n- {SwitchName: leaf2, Nodes: n3}\n"
        "- {SwitchName: spine, Switches: 'leaf[1-2]'}\n"
    )
    shown = replace(SMALL, inventory=Inventory(known, Lock(), SMALL.inventory.path))
    views = tuple(view for view in picture.views(shown) if view.is_node)
    groups = [(one.title, len(one.nodes)) for one in picture.groups(shown, views)]
    assert groups == [("Switch leaf1", 2), ("Switch leaf2", 1)]


def test_picture_when_nodes_are_out_of_service_then_they_are_told_by_reason() -> None:
    found = [(look.css, nodes, one.by) for look, nodes, one in picture.out_of_service(SMALL)]
    assert found == [("down", "cn0002", "slurm"), ("drained", "gpu006", "ann@desk")]


def test_page_when_it_is_about_checks_alone_then_it_has_no_picture_and_a_table_from_the_lock() -> None:
    assert not isinstance(SMALL.checks, Missing)
    shown = writing.of_checks(SMALL.inventory, SMALL.checks)
    assert picture.section(shown) is None
    table = nodes.section(shown)
    assert table is not None
    assert "were not asked" in table.note
    assert checks.section(shown) is not None


def test_checks_when_never_run_then_the_section_says_so_and_how_to_run_them() -> None:
    section = checks.section(replace(SMALL, checks=writing.NEVER_CHECKED))
    assert section is not None
    assert "report --check" in section.note
    assert checks.section(replace(SMALL, checks=NOT_ASKED)) is None


def test_checks_when_the_cluster_is_large_then_hosts_with_the_same_results_share_a_column() -> None:
    large = sources(200, 800)
    assert not isinstance(large.checks, Missing)
    shown, rest = columns(large.checks.verdict.results, large.inventory.cluster.hosts)
    assert [one.host for one in shown] == ["gpu003", "cn0004", "ctl1", "gpu001"]
    assert rest == ""


def test_checks_when_they_fail_alike_then_hosts_are_folded_with_one_repair() -> None:
    failed = [
        Result("munge", "key", "the key", f"n{n}", "failed", "it differs.", f"fab deploy --hosts n{n}") for n in (1, 2)
    ]
    [found] = findings(failed)
    assert (found.hosts, found.cause, found.repair) == ("n[1-2]", "it differs.", "fab deploy --hosts n[1-2]")


def test_checks_when_many_are_not_run_for_one_reason_then_it_is_told_once() -> None:
    left = [Result("g", name, name, host, "not run", f"{host} is off") for host in ("n1", "n2") for name in ("a", "b")]
    [found] = not_run(left)
    assert (found.hosts, found.cause, found.titles) == ("n[1-2]", "n[1-2] is off", ("a", "b"))


def test_hardware_when_nodes_are_alike_then_they_are_one_kind() -> None:
    assert [(one.nodes, one.size, one.gpu_words) for one in hardware.kinds_of(SMALL)] == [
        ("cn[0001-0018]", 18, ""),
        ("gpu[001-006]", 6, "8 × a100-sxm4-80gb"),
    ]


def test_head_when_all_is_well_then_every_statement_is_good() -> None:
    verdict = Verdict("lab", (Result("munge", "key", "the key", "n1", "passed"),), 1.0)
    status = Status("alpine", Snapshot(SMALL.status.seen.controllers, (node("IDLE"),)), {})  # type: ignore[union-attr]
    run = CheckRun(datetime(2026, 11, 23, tzinfo=timezone.utc), "ann@desk", verdict)
    well = replace(SMALL, silent={}, status=status, checks=run)
    assert {one.tone for one in writing.statements(well)} == {"good"}


@pytest.mark.parametrize(
    ("differing", "code"),
    [
        ({"silent": {}}, 0),
        ({}, 3),
        ({"silent": {}, "asleep": {"n1": "it is asleep"}}, 0),
        ({"silent": {}, "status": Status("alpine", Snapshot(), {"ctl1": "ctl1: no answer."})}, 3),
    ],
)
def test_exit_code_when_hosts_or_slurm_do_not_answer_is_3(differing: dict[str, object], code: int) -> None:
    assert writing.exit_code(replace(SMALL, **differing)) == code  # type: ignore[arg-type]
