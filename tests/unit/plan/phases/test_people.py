"""What hosts have of people: a table of clusters, locks and facts, and the resources that follow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support import cluster, facts_of, prepared

from slurmfab.cluster.facts import Account
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.core.plan.phases import people
from slurmfab.core.plan.pinned import pin
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.people.person import Person
from slurmfab.on_hosts.agent.people.removed_person import RemovedPerson
from slurmfab.on_hosts.agent.people.sudo_rules import SudoRules

HEAD = 'cluster: lab\ncontrollers: [c1]\nlogin: [l1]\nnodes: [{hosts: "n[1-2]"}]\n'
ANN = Account(2000, 2000, "/home/ann", "/bin/bash")
USERS = """\
users:
  - {name: ann, groups: [ml, video, render], sudo: true, comment: Ann Example}
  - {name: bob, uid: 3000, home: /data/bob, shell: /bin/zsh}
"""


def plan_input(text: str, lock: Lock | None = None, *, prune: bool = False, **differing: Any) -> PlanInput:
    wanted = cluster(HEAD + text)
    facts = facts_of(wanted, prepared, **differing)
    return PlanInput(wanted, pin(wanted, lock or Lock(), facts), facts, prune=prune)


def of_kind(wanted: PlanInput, host: str, kind: type[Any]) -> list[Any]:
    return [one for one in people.resources(wanted, host) if isinstance(one, kind)]


def test_each_person_is_a_group_a_user_a_home_and_keys_on_every_host() -> None:
    wanted = plan_input(USERS, groups={"slurm": 64030, "munge": 450, "video": 44})
    ids = [one.id for one in people.resources(wanted, "n2")]
    assert ids == [
        "group:ml", "group:render", "group:ann", "group:bob",
        "person:ann", "person-home:/home/ann", "authorized-keys:ann",
        "person:bob", "person-home:/data/bob", "authorized-keys:bob",
    ]  # fmt: skip
    assert [one.id for one in people.resources(wanted, "c1")] == ids


def test_somebody_is_in_a_group_of_the_system_where_the_host_has_it() -> None:
    wanted = plan_input(USERS, groups={"slurm": 64030, "munge": 450, "video": 44, "render": 105})
    facts = {**wanted.facts, "c1": replace(wanted.facts["c1"], groups={"video": 44})}
    there, elsewhere = (of_kind(replace(wanted, facts=facts), host, Person)[0] for host in ("n1", "c1"))
    assert (there.groups, elsewhere.groups) == (("ml", "video", "render"), ("ml", "video"))
    assert there.managed == ("ml", "render", "video")


def test_people_are_no_concern_of_slurmfab_where_a_directory_service_has_them() -> None:
    wanted = plan_input("users: [{name: ann}]\nunix_users: false\n")
    assert people.resources(wanted, "c1") == people.sudo(wanted, "c1") == ()


def test_without_people_there_is_nothing_to_see_to() -> None:
    assert people.resources(plan_input(""), "c1") == people.sudo(plan_input(""), "c1") == ()


def test_sudo_is_for_controllers_and_login_hosts_and_needs_no_password() -> None:
    wanted = plan_input(USERS)
    (rules,) = people.sudo(wanted, "l1")
    assert isinstance(rules, SudoRules)
    assert (rules.content, rules.mode) == ("ann ALL=(ALL:ALL) NOPASSWD: ALL\n", 0o440)
    assert people.sudo(wanted, "c1") == (rules,)
    assert [one.id for one in people.sudo(wanted, "n1")] == ["absent:/etc/sudoers.d/slurmfab"]
    assert [people.packages(wanted, host) for host in ("c1", "n1")] == [("sudo",), ()]


def test_the_sudo_rules_go_when_nobody_has_any_more() -> None:
    before = plan_input(USERS).lock
    wanted = plan_input("", before)
    assert [one.id for one in people.sudo(wanted, "c1")] == ["absent:/etc/sudoers.d/slurmfab"]


LEFT = Lock(ids={"ann.uid": 2000, "ann.gid": 2000})
SYSTEM = prepared("c1").accounts
ACCOUNTS = {**SYSTEM, "ann": ANN}


@pytest.mark.parametrize(
    ("lock", "prune", "differing", "may"),
    [
        (LEFT, False, {"accounts": ACCOUNTS}, [False]),
        (LEFT, True, {"accounts": ACCOUNTS}, [True]),
        (replace(LEFT, leaving=("ann",)), False, {"accounts": ACCOUNTS}, [True]),
        (LEFT, True, {"accounts": ACCOUNTS, "busy_uids": (0, 2000)}, [False]),
        (LEFT, True, {"accounts": {**SYSTEM, "ann": replace(ANN, uid=4000)}}, []),
        (LEFT, True, {}, []),
    ],
    ids=["reported", "pruned", "on the way out", "something runs elsewhere", "somebody else", "gone"],
)
def test_who_is_not_in_the_file_any_more_stays_unless_that_is_wanted_and_nothing_runs(
    lock: Lock, prune: bool, differing: dict[str, Any], may: list[bool]
) -> None:
    wanted = plan_input("", lock, prune=prune, **differing)
    assert [one.may for one in of_kind(wanted, "n1", RemovedPerson)] == may


def test_what_somebody_runs_on_a_host_keeps_them_on_all_others_and_that_host_looks_itself() -> None:
    idle = plan_input("", LEFT, prune=True, accounts=ACCOUNTS)
    facts = {**idle.facts, "n1": replace(idle.facts["n1"], busy_uids=(0, 2000))}
    wanted = replace(idle, facts=facts)
    assert [one.may for host in ("n1", "n2") for one in of_kind(wanted, host, RemovedPerson)] == [True, False]


def test_what_somebody_runs_on_one_host_leaves_no_account_open_and_the_others_say_where_it_is() -> None:
    idle = plan_input("", LEFT, prune=True, accounts=ACCOUNTS)
    facts = {**idle.facts, "n1": replace(idle.facts["n1"], busy_uids=(0, 2000))}
    for pruned, told in ((True, [(True, ""), (True, "n1")]), (False, [(False, ""), (False, "")])):
        wanted = replace(idle, facts=facts, prune=pruned)
        found = [one for host in ("n1", "n2") for one in of_kind(wanted, host, RemovedPerson)]
        assert [(one.closes, one.elsewhere) for one in found] == told


def test_slurmdbd_forgets_who_is_on_the_way_out_and_nobody_else() -> None:
    lock = replace(LEFT, leaving=("ann",))
    wanted = plan_input("database: c1\n", lock, accounts=ACCOUNTS)
    assert [one.id for one in people.forgotten(wanted, "c1")] == ["associations-gone:ann"]
    assert people.forgotten(wanted, "n1") == people.forgotten(plan_input("database: c1\n", LEFT), "c1") == ()
