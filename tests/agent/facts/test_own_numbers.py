"""The numbers that a host has itself, which entries of a directory do not get."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from local_agent import Agent

from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.facts.facts import subordinate
from slurmfab.on_hosts.agent.facts.own_numbers import own_numbers
from slurmfab.on_hosts.agent.identities.powerful_users import named_without_entry

POWERFUL = ("sudo", "docker")


@pytest.fixture
def root(root: Path) -> Path:
    """A scratch root whose own users are the system's, and not whoever plays this, who may be a person."""
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    return root


def test_users_groups_and_ranges_of_subordinate_ids_are_told_from_1000_on(root: Path) -> None:
    (root / "etc").mkdir(exist_ok=True)
    (root / "etc/passwd").write_text(
        "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\nbad name:x:1001:1::/:/bin/sh\n+:x:1002::::\n"
    )
    (root / "etc/group").write_text("docker:x:999:\nhpc:x:20000:ann\nbroken:x:many:\n")
    (root / "etc/subuid").write_text("ann:100000:65536\nroot:0:10\nend:4294967290:100\nbroken:1\n")
    (root / "etc/subgid").write_text("ann:100000:65536\n")
    assert own_numbers(str(root), ()) == [
        ["uid", 1000, 1000, "ann"],
        ["uid", 1001, 1001, "bad name"],
        ["gid", 20000, 20000, "hpc"],
        ["uid", 100000, 165535, "subordinate to ann"],
        ["uid", 4294967290, 4294967295, "subordinate to end"],
        ["gid", 100000, 165535, "subordinate to ann"],
    ]
    assert own_numbers(str(root / "nowhere"), ()) == []


def test_ranges_of_subordinate_ids_are_told_where_they_have_numbers_of_people(root: Path) -> None:
    (root / "etc").mkdir(exist_ok=True)
    (root / "etc/subuid").write_text(
        "ann:100000:65536\nbob:20000:1000\nroot:0:10\neve:50000:99999\nbroken:1\nold:7:0\n"
    )
    (root / "etc/subgid").write_text("bob:20000:1000\nzoe:1:2000\n")
    assert subordinate(str(root)) == [[1, 2000], [20000, 20999], [50000, 60000]]
    assert subordinate(str(root / "nowhere")) == []


def test_names_that_a_host_gives_rights_to_and_has_not_are_told_with_the_number_0(root: Path) -> None:
    (root / "etc/group").write_text("sudo:x:27:alice,root\nvideo:x:44:vera\nops:x:2000:olga,ann smith\n")
    (root / "etc/doas.conf").write_text(
        'permit doug\npermit :ops\npermit :netdev\npermit ":gq uo"\npermit quo\\ te\npermit 020697\npermit :20699\n'
        "permit 998\npermit 99999999999\n"
    )
    assert own_numbers(str(root), POWERFUL) == [
        ["uid", 0, 0, "alice"],
        ["uid", 0, 0, "ann smith"],
        ["uid", 0, 0, "doug"],
        ["uid", 0, 0, "olga"],
        ["uid", 0, 0, "quo te"],
        ["gid", 0, 0, "gq uo"],
        ["gid", 0, 0, "netdev"],
        ["uid", 20697, 20697, "a rule of sudo or doas"],
        ["gid", 20699, 20699, "a rule of sudo or doas"],
        ["gid", 2000, 2000, "ops"],
    ]


@pytest.mark.parametrize(
    ("member", "told"),
    [
        ({"userid": 20698}, [("uid", 20698, "a rule of sudo or doas")]),
        ({"usergid": 20699}, [("gid", 20699, "a rule of sudo or doas")]),
        ({"nonunixgid": 20699}, [("gid", 20699, "a rule of sudo or doas")]),
        ({"userid": "0020697"}, [("uid", 20697, "a rule of sudo or doas")]),
        ({"userid": 998}, []),
        ({"usergroup": "gq uo"}, [("gid", 0, "gq uo")]),
        ({"nonunixgroup": "domain admins"}, [("gid", 0, "domain admins")]),
        ({"username": 'quo "te'}, [("uid", 0, 'quo "te')]),
        ({"username": "two\nlines"}, []),
    ],
)
def test_whom_a_rule_of_sudo_names_without_being_of_the_host_then_is_told_by_number_or_name(
    root: Path, member: dict[str, object], told: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "etc/sudoers").touch()
    rules = json.dumps({"User_Specs": [{"User_List": [member]}]})
    monkeypatch.setattr(Context, "must", lambda *_, **__: rules)
    assert named_without_entry(str(root), POWERFUL) == told


def test_rules_of_sudo_when_a_plugin_tells_of_groups_then_names_are_told_all_the_same(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "etc/sudoers").touch()
    rules = {"Defaults": [{"Options": [{"group_plugin": "x"}]}], "User_Specs": [{"User_List": [{"usergroup": "ops"}]}]}
    monkeypatch.setattr(Context, "must", lambda *_, **__: json.dumps(rules))
    assert named_without_entry(str(root), POWERFUL) == [("gid", 0, "ops")]


@pytest.mark.parametrize("place", ["etc/sudoers", "etc/doas.conf"])
def test_facts_of_a_host_when_its_rules_cannot_be_read_then_are_refused_with_the_file(
    root: Path, agent: Agent, place: str
) -> None:
    (root / "etc/sudoers").write_text("bob ALL = = oops\n")
    (root / "etc/doas.conf").write_text('permit setenv { A="}" } bob\n' if "doas" in place else "permit doug\n")
    for program in ("sudo", "cvtsudoers") if "sudo" in place else ():
        (root / "usr/bin").mkdir(parents=True, exist_ok=True)
        (root / "usr/bin" / program).touch(mode=0o755)
    (line,) = agent.ask({"op": "facts", "root": str(root), "own_numbers": POWERFUL})
    assert f"the rules in /{place} cannot be read, so nobody knows whom they name" in str(line)
    (line,) = agent.ask({"op": "facts", "root": str(root)})
    assert "facts" in line


def test_facts_of_a_host_when_asked_for_its_numbers_then_have_those_names(root: Path, agent: Agent) -> None:
    (root / "etc/doas.conf").write_text("permit doug\n")
    (line,) = agent.ask({"op": "facts", "root": str(root), "own_numbers": POWERFUL})
    assert line["facts"]["own_numbers"] == [["uid", 0, 0, "doug"]]
    (line,) = agent.ask({"op": "facts", "root": str(root)})
    assert line["facts"]["own_numbers"] == []
