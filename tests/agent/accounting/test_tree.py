"""An account tree compared with the output of real sacctmgr: differences, and the commands that remove them."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Any

import pytest
from account_trees import TREE, Recorded, tree
from slurm_output_files import VERSIONS

from slurmfab.on_hosts.agent.accounting.reading import ActualTree
from slurmfab.on_hosts.agent.accounting.tree import Commands, RestOfAccounts, difference, flatten, removals
from slurmfab.on_hosts.agent.core.resource import ResourceFailed, apply, compare


def commands(text: str, **other: str) -> list[str]:
    """The commands that change the recorded tree to that of a cluster file."""
    wanted, context = tree(text), Recorded(other=other)
    actual, changes = difference(wanted, wanted.read(context))
    return [" ".join(command) for command in Commands(wanted, actual, changes).all()]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_cluster_that_is_as_its_file_says_differs_in_nothing(version: str) -> None:
    assert compare(tree(version=version), Recorded(version=version)) == ()
    assert compare(tree(version=version, kind=RestOfAccounts), Recorded(version=version)) == ()


def test_a_difference_has_a_line_in_sacctmgrs_words() -> None:
    edited = TREE.replace("Priority: 1000", "Priority: 7").replace("Fairshare: 5", "Fairshare: 9")
    changes = {change.name: (change.actual, change.wanted) for change in compare(tree(edited), Recorded())}
    assert changes == {"qos high Priority": ("1000", "7"), "user bob in biology Fairshare": ("5", "9")}


def test_before_there_is_a_slurmdbd_a_plan_shows_what_is_to_be_made_and_no_defaults() -> None:
    nothing = ActualTree((), {}, {}, {}, {}, {}, ())
    wanted = tree("accounts: [{name: physics, MaxJobs: 3}]\n")
    state, actual = flatten(wanted.by_place()), flatten(wanted.actual_values(nothing))
    assert {name: value for name, value in state.items() if actual[name] != value} == {
        "cluster lab": "made",
        "account physics": "made",
        "account physics Parent": "root",
        "account physics MaxJobs": "3",
        "user slurm in root": "made",
        "user slurm DefaultAccount": "root",
    }


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("Priority: 1000", "Priority: 7", ["modify qos where name=high set Priority=7"]),
        ("    Priority: 1000\n", "", ["modify qos where name=high set Priority=0"]),
        (
            "cpu=5,mem=10250M,node=3",
            "cpu=6",
            ["modify account where name=theory cluster=lab set GrpTRES=cpu=6,mem=-1,node=-1"],
        ),
        (", MaxWall: 90", "", ["modify account where name=theory cluster=lab set MaxWall=-1"]),
        ("name: biology", "{name: biology, parent: theory}",
         ["modify account where name=biology cluster=lab set parent=theory"]),
        (
            ', QOS: "normal,high,low"}',
            ', QOS: "high,low"}',
            ["modify account where name=physics cluster=lab set QOS=high,low"],
        ),
        ("coordinators: ada, ", "", ["delete coordinator names=ada account=physics"]),
        ("accounts: [theory, physics]", "accounts: [physics, theory]",
         ["modify user where name=ada cluster=lab set DefaultAccount=physics"]),
        (
            "DefaultQOS: high, ",
            "",
            [
                "modify user where name=ada cluster=lab account=theory set DefaultQOS=-1",
                "modify user where name=ada cluster=lab account=physics set DefaultQOS=-1",
            ],
        ),
        (
            "accounts: biology, Fairshare: 5}",
            "accounts: biology, Fairshare: 5}\n  - {name: cleo, accounts: biology}\n  - {name: dan, accounts: biology}",
            [
                "add user cleo,dan account=biology cluster=lab",
                "modify user where name=cleo,dan cluster=lab set DefaultAccount=biology",
            ],
        ),
        (
            "name: biology",
            "name: biology\n  - {name: chemistry, parent: biology, description: Labs, MaxJobs: 4}",
            [
                "add account chemistry cluster=lab parent=biology Description=labs",
                "modify account where name=chemistry cluster=lab set MaxJobs=4",
            ],
        ),
    ],
)  # fmt: skip
def test_only_the_difference_is_commanded(old: str, new: str, expected: list[str]) -> None:
    assert old in TREE
    assert commands(TREE.replace(old, new)) == expected


def test_a_default_qos_goes_before_the_list_that_allows_it_and_the_new_one_comes_after_it() -> None:
    edited = TREE.replace('"normal,high,low"', '"low"').replace("DefaultQOS: high", "DefaultQOS: low")
    assert commands(edited) == [
        "modify user where name=ada cluster=lab account=theory set DefaultQOS=-1",
        "modify user where name=ada cluster=lab account=physics set DefaultQOS=-1",
        "modify account where name=physics cluster=lab set QOS=low",
        "modify user where name=ada cluster=lab account=theory set DefaultQOS=low",
        "modify user where name=ada cluster=lab account=physics set DefaultQOS=low",
    ]


def test_limits_of_gpus_wait_until_slurmdbd_has_heard_of_them() -> None:
    unheard = "cpu|\nmem|\nnode|\n"
    context = Recorded(other={"tres": unheard, "qos": "normal|0||cluster||00:00:00||1.000000" + "|" * 25 + "\n"})
    first = {change.name for change in compare(tree(), context)}
    assert "qos normal MaxTRESPerUser" not in first
    assert "qos normal MaxJobsPerUser" in first
    rest = {change.name: change.wanted for change in compare(tree(kind=RestOfAccounts), context)}
    assert rest == {"qos normal MaxTRESPerUser": "cpu=2,gres/gpu=1"}


def test_what_is_there_besides_is_a_remark_and_with_prune_a_difference() -> None:
    smaller = TREE.replace("  - {name: bob, accounts: biology, Fairshare: 5}\n", "").replace("  - name: biology\n", "")
    context = Recorded()
    assert compare(tree(smaller, kind=RestOfAccounts), context) == ()
    assert context.remark == (
        "not in the cluster file, left unchanged: user bob, account biology. To remove them: fab deploy --prune"
    )
    (change,) = compare(tree(smaller, kind=RestOfAccounts, prune=True), Recorded())
    assert (change.name, change.actual, change.wanted) == ("not in the cluster file", "user bob, account biology", "")


def test_a_file_without_a_section_says_nothing_of_what_slurmdbd_has_there() -> None:
    context = Recorded()
    assert compare(tree("", kind=RestOfAccounts), context) == ()
    assert context.remark == ""


@pytest.mark.parametrize(("clusters", "where"), [("lab\n", ""), ("lab\nother\n", " cluster=lab")])
def test_what_goes_stays_in_other_clusters(clusters: str, where: str) -> None:
    wanted = tree("qos: [{name: low}]\naccounts: [{name: physics}]\n", kind=RestOfAccounts)
    found = wanted.read(Recorded(other={"cluster": clusters}))
    told = [" ".join(one) for one in removals(wanted, found, wanted.undeclared(found))]
    assert told == [
        f"delete user where name=ada,bob{where}",
        f"delete account where name=theory{where}",
        f"delete account where name=biology{where}",
        "delete qos high",
    ]


def test_qos_of_a_slurmdbd_with_other_clusters_are_not_removed() -> None:
    wanted = tree("qos: [{name: low}]\n", kind=RestOfAccounts, prune=True)
    assert compare(wanted, Recorded(other={"cluster": "lab\nother\n"})) == ()


def test_a_coordinator_of_an_account_is_one_of_those_below_it_as_well() -> None:
    assert commands(TREE.replace("{name: theory, ", "{name: theory, coordinators: ada, ")) == []


def test_a_silent_slurmdbd_is_said_to_be_silent() -> None:
    class Silent(Recorded):
        def run(self, argv: Sequence[str], *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
            if argv[0] == "journalctl":
                said = b"slurmdbd: error: Database settings not recommended values\n" if "--output=cat" in argv else b""
                return subprocess.CompletedProcess(argv, 0, said, b"")
            words = b"sacctmgr: error: Sending PersistInit msg: Connection refused\n"
            return subprocess.CompletedProcess(argv, 1, b"", words)

    with pytest.raises(ResourceFailed, match="slurmdbd does not answer") as failed:
        tree().read(Silent())
    assert "slurmdbd's own log says: error: Database settings not recommended values. See" in str(failed.value)


def test_a_command_that_slurm_refuses_for_running_jobs_names_them() -> None:
    class Busy(Recorded):
        def run(self, argv: Sequence[str], *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
            if "delete" in argv:
                words = (
                    b" Error with request: Job(s) active, cancel job(s) before remove\n  JobID = 5  C = lab  U = bob\n"
                )
                return subprocess.CompletedProcess(argv, 1, words, b"")
            return super().run(argv)

    smaller = TREE.replace("  - {name: bob, accounts: biology, Fairshare: 5}\n", "")
    resource = tree(smaller, kind=RestOfAccounts, prune=True)
    with pytest.raises(ResourceFailed, match=r"jobs still run there.*JobID = 5"):
        resource.converge(Busy(), frozenset({"not in the cluster file"}))


FORGED = "biology\nphysics|mallory|uni|x\n3|physics|||root|3\n" + "physics".ljust(256) + " mallory"
"""A text with rows and records of other accounts."""

ADDED = ("Add Accounts", "carl", "sub")


@pytest.mark.parametrize("field", ["description", "organization"])
@pytest.mark.parametrize("text", [FORGED, FORGED * 9, "biology\tof the sea", "\x1b[2J"])
def test_a_text_with_a_line_break_when_read_forges_no_account_and_is_told_with_field_and_user(
    field: str, text: str
) -> None:
    texts = {"description": "sub", "organization": "sub", field: text}
    context = Recorded(
        more={
            "assoc": [["77", "sub", "", "", "physics"]],
            "account": [["sub", "ada", texts["organization"], texts["description"]]],
            "transactions": [["Add Associations", "carl", "id_assoc=77"], ADDED],
        },
        alone={("name=sub", field): f"{text}\n"},
    )
    outcome = apply(tree(), context)
    assert (outcome.status, context.commands) == ("ok", [])
    assert f": the {field} of account sub, set by carl. Ask who" in outcome.message
    apply(tree(TREE.replace("Priority: 1000", "Priority: 7")), context)
    assert context.commands[:1] == [["modify", "qos", "where", "name=high", "set", "Priority=7"]]
    found = tree().read(context)
    assert getattr(found.accounts["sub"], field) == text
    assert found.accounts["physics"].coordinators == {"ada"}
    assert {*found.accounts} == {"root", "physics", "theory", "biology", "sub"}


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (("ev\nil|root", "", "", "physics"), "the name of account ev\\nil|root"),
        (("physics", "no\none|Administrator", "", ""), "the name of user no\\none|Administrator in account physics"),
        (("biology", "bob", "p\n9|biology|bob||", ""), "the partition of user bob in account biology"),
    ],
)
def test_a_name_with_a_line_break_when_read_is_one_name_and_changes_nothing_else(
    place: tuple[str, ...], words: str
) -> None:
    more = {"assoc": [["77", *place]], "transactions": [["Add Associations", "carl", "id_assoc=77"]]}
    context = Recorded(more=more)
    assert compare(tree(), context) == ()
    outcome = apply(tree(), context)
    assert (outcome.status, context.commands) == ("ok", [])
    assert f"{words}, set by carl" in outcome.message


def test_more_texts_with_line_breaks_than_can_be_named_are_counted() -> None:
    rows = [[f"{number}", f"ev\nil{number}", "", "", "physics"] for number in range(100, 120)]
    assert tree().read(Recorded(more={"assoc": rows})).odd[-1] == "15 more"


def test_an_answer_of_another_length_is_refused() -> None:
    class Cut(Recorded):
        def run(self, argv: Sequence[str], *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
            done = super().run(argv)
            return subprocess.CompletedProcess(argv, 0, done.stdout[:-5] if argv[1] == "-n" else done.stdout, b"")

    with pytest.raises(ResourceFailed, match="other fields than it was asked for"):
        tree().read(Cut())
