"""Content of slurmdbd as sections of a cluster file: valid, reproducible and minimal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from account_trees import HEAD, TREE, Recorded, tree
from slurm_output_files import VERSIONS

from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.accounts import export as accounts_export
from slurmfab.on_hosts.agent.accounting.reading import read
from slurmfab.on_hosts.agent.core.resource import compare


def known(text: str) -> Inventory:
    return Inventory(loading.parse(HEAD + text, "c.yaml"), Lock(), Path("c.yaml"))


def found(version: str = "24.11", **other: str) -> dict[str, Any]:
    """The agent's answer about the recorded database."""
    fields = tree(version=version)
    request = {"cluster": "lab", "conf": "", "qos_keys": fields.qos_keys, "keys": fields.keys}
    return read(request, Recorded(version=version, other=other))


@pytest.mark.parametrize("version", VERSIONS)
def test_deploying_the_exported_sections_changes_nothing(version: str) -> None:
    exported = accounts_export.text(known(""), found(version))
    assert compare(tree(exported, version=version), Recorded(version=version)) == ()


def test_the_sections_have_only_values_that_differ_from_slurms_defaults() -> None:
    assert (
        accounts_export.text(known(""), found())
        == """\
# QOS, accounts and users of lab in slurmdbd, without Slurm's default values.
unix_users: false     # these users exist on the hosts already
qos:
  - name: high
    Priority: 1000
    Preempt: "low,normal"
    PreemptMode: requeue
    Flags: "DenyOnLimit,OverPartQOS"
    GrpTRES: "cpu=100,mem=10G"
    MaxWall: 1-00:00:00
  - {name: low, GraceTime: 60, UsageFactor: 0.5}
  - {name: normal, MaxTRESPerUser: "cpu=2,gres/gpu=1", MaxJobsPerUser: 10}
accounts:
  - {name: biology}
  - name: physics
    description: "the physics people"
    organization: uni
    coordinators: [ada]
    QOS: "high,low,normal"
  - {name: theory, parent: physics, Fairshare: 10, GrpTRES: "cpu=5,mem=10250M,node=3", MaxWall: 01:30:00}
users:
  - name: ada
    accounts: [theory, physics]
    associations: {physics: {MaxJobs: 5}}
    DefaultQOS: high
    AdminLevel: Operator
  - {name: bob, accounts: [biology], Fairshare: 5}
"""
    )


def test_users_that_slurmfab_makes_keep_their_properties_in_the_file() -> None:
    people = TREE.replace("{name: bob, ", "{name: bob, uid: 4001, sudo: yes, ")
    exported = accounts_export.text(known(people), found())
    assert "unix_users" not in exported
    assert "{name: bob, uid: 4001, sudo: true, accounts: [biology], Fairshare: 5}" in exported


def test_limits_of_the_whole_cluster_are_those_of_the_account_root() -> None:
    rows = "root||||1" + "|" * 13 + "9|||high,normal|\nroot|root|||1" + "|" * 17 + "\n"
    exported = accounts_export.text(known(""), found(assoc=rows))
    assert '  - {name: root, MaxJobs: 9, QOS: "high,normal"}\n' in exported
    changes = compare(tree(exported), Recorded(other={"assoc": rows}))
    assert [change.name for change in changes if change.name.startswith("account root")] == []


def test_entries_that_a_cluster_file_cannot_have_are_left_out_with_a_comment() -> None:
    rows = "root||||1||||||||||||||||normal|\n" + "".join(
        f"{row}{'|' * 17}\n" for row in ("a b|||root|1", "bio|||root|1", "bio|J.Doe|||1", "bio|ann|gpu||1")
    )
    exported = accounts_export.text(known(""), found(assoc=rows))
    assert exported.endswith(
        "# Left out, because such a name is not valid in a cluster file: a b\n"
        "# Left out, because such a name is not valid in a cluster file: J.Doe\n"
        "# Left out: ann in bio, for the partition gpu alone\n"
    )


def test_texts_with_line_breaks_when_exported_add_no_entry_to_the_file() -> None:
    evil = "x\nusers: [{name: evil, sudo: true}]"
    names = [["77", evil, "", "", "physics"], ["78", "sub", "", "", evil], ["79", evil, "bob", "", ""],
             ["80", "physics", evil, "", ""], ["81", "physics", "bob", evil, ""]]  # fmt: skip
    more = {"assoc": names, "account": [["sub", evil, evil, evil]]}
    request = {"cluster": "lab", "conf": "", "qos_keys": tree().qos_keys, "keys": tree().keys}
    exported = accounts_export.text(known(""), read(request, Recorded(more=more)))
    assert not [line for line in exported.splitlines() if line.startswith("users: [")]
    shown = yaml.safe_load(exported)
    assert {one["name"] for one in shown["users"]} == {"ada", "bob"}
    (sub,) = (one for one in shown["accounts"] if one["name"] == "sub")
    assert (sub["parent"], sub["description"], sub.get("coordinators")) == ("physics", evil, None)
