"""Whose word the place of a node is: each tells its own, and a map of the fabric is not that of one node alone."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from json_shapes import assert_fits
from support import FakeHosts, cluster, host_facts, run_over

from slurmfab.base.exit_codes import FAILURE, SOMETHING_TO_DO
from slurmfab.cluster.inventory.lock import HostLock, Lock
from slurmfab.commands.topology import showing
from slurmfab.commands.topology.showing import Proposed
from slurmfab.core.engine.session import Output
from slurmfab.hosts.session import Line

TEXT = """\
cluster: lab
addresses: {c1: 10.0.0.1, "n[1-4]": "10.0.0.[2-5]"}
controllers: [c1]
nodes: [{hosts: "n[1-4]"}]
"""
NODES = ("n1", "n2", "n3", "n4")
HONEST = {"n1": "leaf1", "n2": "leaf1", "n3": "leaf2", "n4": "leaf2"}
FALSE = {"n1": "evil-a", "n2": "evil-b", "n3": "evil-a", "n4": "evil-c"}


def lldp(name: str) -> dict[str, Any]:
    return {"lldp": [["eno1", name]] if name else []}


def fabric(places: Mapping[str, str]) -> dict[str, Any]:
    """What a host answers that sees these nodes at switches."""
    ids = {name: f"S-{number:x}" for number, name in enumerate(dict.fromkeys(places.values()))}
    links = [[ids[name], f"H-{number:x}", f"{node} mlx5_0"] for number, (node, name) in enumerate(places.items())]
    return {"has_tool": True, "switches": [[one, name] for name, one in ids.items()], "links": links}


class Seeing(FakeHosts):
    """Hosts that tell their neighbours."""

    said: Mapping[str, Mapping[str, Any]]

    def call(self, host: str, request: Mapping[str, Any], *_: Any) -> tuple[Line, ...]:
        self.requests.append((host, request))
        nothing: dict[str, Any] = {"has_tool": False, "lldp": [], "switches": [], "links": []}
        told = {**nothing, **self.said.get(host, {})}
        return ({"neighbours": told if request["fabric"] else {**told, "switches": [], "links": []}},)


def proposed(tmp_path: Path, capsys: pytest.CaptureFixture[str], **said: Mapping[str, Any]) -> tuple[Proposed, str]:
    """What is proposed for a controller and four nodes that say this, and what is printed."""
    path = tmp_path / "cluster.yaml"
    path.write_text(TEXT)
    hosts = Seeing({name: host_facts(name) for name in ("c1", *NODES)})
    hosts.said = said
    lock = Lock(hosts={name: HostLock(hostname=name) for name in ("c1", *NODES)})
    run = run_over(hosts, cluster(TEXT), lock=lock, path=path)
    found = showing.proposed(run, "", Output(), writes=False)
    assert_fits("topology", found)
    return found, capsys.readouterr().out


def places(found: Proposed) -> dict[str, str]:
    return {one.node: "-".join(one.switches) for one in found.places}


OWN = {name: lldp(switch) for name, switch in HONEST.items()}
LIES: Mapping[str, Mapping[str, Any]] = {
    "all are elsewhere": fabric(FALSE),
    "one is left out": fabric({name: switch for name, switch in FALSE.items() if name != "n1"}),
    "a blank description": {**fabric(FALSE), "links": [["S-0", "H-1", " "]]},
    "no ID of InfiniBand": {**fabric(FALSE), "links": [["S-0", "x", "n1"]]},
    "a long description": {**fabric(FALSE), "links": [["S-0", "H-1", "n1 " * 9999]]},
}


@pytest.mark.parametrize("lie", LIES)
def test_a_map_of_one_node_when_nodes_tell_of_their_switches_then_they_are_where_they_say(
    lie: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, text = proposed(tmp_path, capsys, **{**OWN, "n2": {**LIES[lie], **OWN["n2"]}})
    assert (places(found), found.exit_code) == (HONEST, SOMETHING_TO_DO)
    assert "n[1-4]: LLDP there" in text
    assert "evil" not in text


@pytest.mark.parametrize("lie", ["all are elsewhere", "no ID of InfiniBand", "a long description"])
def test_a_map_that_does_not_count_is_told_with_the_name_of_its_host(
    lie: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, text = proposed(tmp_path, capsys, **{**OWN, "n2": {**LIES[lie], **OWN["n2"]}})
    (remark,) = found.remarks
    assert remark.startswith("n2: ")
    assert "does not count" in remark
    assert remark in text


def test_a_map_of_the_controller_when_nodes_tell_of_other_switches_then_it_counts_for_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = {name: lldp("management") for name in NODES}
    found, text = proposed(tmp_path, capsys, **other, c1=fabric(HONEST))
    assert places(found) == HONEST
    assert {(one.source, one.by) for one in found.places} == {("ibnetdiscover", ("c1",))}
    assert "n[1-4]: ibnetdiscover of c1\n" in text
    found, _ = proposed(tmp_path, capsys, **{**other, "n2": fabric(FALSE)}, c1=fabric(HONEST))
    assert places(found) == HONEST


@pytest.mark.parametrize("liar", NODES)
def test_a_map_that_most_of_several_hosts_tell_then_counts_for_all_and_not_that_of_one_other(
    liar: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = {name: {**fabric(HONEST), **lldp("management")} for name in NODES}
    found, text = proposed(tmp_path, capsys, **{**said, liar: fabric(FALSE)})
    assert places(found) == HONEST
    assert "management" not in text
    asked = liar != "n4"  # three hosts are asked, as each asks every switch
    assert (f"{liar}: where its ibnetdiscover sees n[1-4] does not count" in text) == asked


def test_a_map_of_one_node_when_others_say_nothing_then_is_taken_and_its_word_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, text = proposed(tmp_path, capsys, n1=lldp("leaf7"), n2=fabric(HONEST))
    assert places(found) == {**HONEST, "n1": "leaf7"}
    assert "n1: LLDP there" in text
    assert "n2: ibnetdiscover there" in text
    assert "n[3-4]: ibnetdiscover of n2 alone, as nothing is seen from there" in text


def test_maps_of_two_nodes_when_they_differ_then_each_is_where_it_says_and_the_others_are_not_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, text = proposed(tmp_path, capsys, n1=fabric(HONEST), n2=fabric(FALSE))
    assert (places(found), found.exit_code) == ({"n1": "leaf1", "n2": "evil-b"}, FAILURE)
    assert "n3: hosts with ibnetdiscover do not agree where it is (leaf2 by n1; evil-a by n2)." in text
    assert [*found.unknown] == ["n3", "n4"]


def test_the_json_of_it_says_whose_word_each_place_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, _ = proposed(tmp_path, capsys, **OWN)
    out = io.StringIO()
    monkeypatch.setattr("sys.stdout", out)
    replace(Output(), json="-").write_json(found)
    told = json.loads(out.getvalue())
    assert told["places"][0] == {"node": "n1", "switches": ["leaf1"], "source": "lldp", "by": ["n1"]}
