"""UIDs and GIDs of people: what is said, decided, there, or free; and every conflict at once."""

from __future__ import annotations

import dataclasses

import pytest
from support import cluster, facts_of, host_facts, prepared

from slurmfab.base.errors import IdConflict
from slurmfab.cluster.facts import Account, HostFacts
from slurmfab.cluster.inventory import people_ids
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.inventory.people_ids import (
    CANDIDATES,
    choose,
    decide,
    former,
    names_of,
    refuse_partial,
    still_leaving,
)
from slurmfab.core.plan.pinned import pin

HEAD = 'cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: "n[1-2]"}]\n'
ANN = cluster(HEAD + "users: [{name: ann}]\n")
SYSTEM = {"slurm.uid": 64030, "slurm.gid": 64030, "munge.uid": 450, "munge.gid": 450}


def having(name: str, **people: int) -> HostFacts:
    """A host with these people, each with a group of the same number."""
    accounts = {user: Account(number, number, f"/home/{user}", "/bin/sh") for user, number in people.items()}
    taken = {number: user for user, number in people.items()}
    return host_facts(
        name, accounts=accounts, groups=dict(people), uids={0: "root", **taken}, gids={0: "root", **taken}
    )


@pytest.mark.parametrize(
    ("users", "facts", "pinned", "expected"),
    [
        ("{name: ann}", {"c1": {}, "n1": {}}, {}, (2000, 2000)),
        ("{name: ann}", {"c1": {"bob": 2000}, "n1": {"eve": 2001}}, {}, (2002, 2002)),
        ("{name: ann}", {"c1": {}, "n1": {"ann": 1001}}, {}, (1001, 1001)),
        ("{name: ann}", {"c1": {}}, {"ann.uid": 2007, "ann.gid": 2008}, (2007, 2008)),
        ("{name: ann, uid: 3000}", {"c1": {}}, {}, (3000, 3000)),
        ("{name: ann, uid: 3000, gid: 3100}", {"c1": {}}, {}, (3000, 3100)),
        ("{name: ann, uid: 3000}", {"c1": {}}, {"ann.uid": 2000, "ann.gid": 3000}, (3000, 3000)),
        ("{name: ann}", {"c1": {}}, {"bob.uid": 2000, "bob.gid": 2001}, (2002, 2002)),
        ("{name: ann}, {name: bob, uid: 2000}", {"c1": {}}, {}, (2001, 2001)),
    ],
    ids=["first", "first free on all", "the hosts' own", "the lock's", "the file's", "both said", "file before lock",
         "never that of somebody who has left", "never what the file says of another"],
)  # fmt: skip
def test_a_persons_numbers_are_the_files_then_the_locks_then_the_hosts_then_the_first_free(
    users: str, facts: dict[str, dict[str, int]], pinned: dict[str, int], expected: tuple[int, int]
) -> None:
    wanted = cluster(f"{HEAD}users: [{users}]\n")
    chosen = choose(wanted, {host: having(host, **people) for host, people in facts.items()}, pinned)
    assert (chosen["ann.uid"], chosen["ann.gid"]) == expected


@pytest.mark.parametrize("number", [65534, 65535, 100005, 1 << 31, (1 << 32) - 1])
def test_a_number_that_one_host_has_and_that_is_no_persons_is_not_the_clusters_and_the_host_is_told(
    number: int,
) -> None:
    facts = {"c1": having("c1"), "n1": having("n1", ann=number), "n2": having("n2")}
    with pytest.raises(IdConflict) as conflict:
        choose(ANN, facts, {}, "c1")
    assert f"n1: user ann has UID {number} there, but the cluster uses 2000." in str(conflict.value)
    assert [one.hosts for one in conflict.value.objections] == [("n1",), ("n1",)]


@pytest.mark.parametrize("others", [("c1",), ("n2",)], ids=["the controller", "most hosts"])
def test_a_high_number_that_the_controller_or_most_hosts_have_stays(others: tuple[str, ...]) -> None:
    facts = {host: having(host, **({"ann": 100005} if host in ("n1", *others) else {})) for host in ("c1", "n1", "n2")}
    assert choose(ANN, facts, {}, "c1")["ann.uid"] == 100005


def test_a_number_that_is_subordinate_to_somebody_is_neither_taken_from_one_host_nor_given() -> None:
    ranges = dataclasses.replace(having("n2"), subordinate=((2000, 2999), (5000, 5999)))
    assert choose(ANN, {"c1": having("c1"), "n2": ranges}, {}, "c1")["ann.uid"] == 3000
    with pytest.raises(IdConflict, match="n1: user ann has UID 5001 there, but the cluster uses 3000"):
        choose(ANN, {"c1": having("c1"), "n1": having("n1", ann=5001), "n2": ranges}, {}, "c1")


@pytest.mark.parametrize("number", [65534, 65535, 1 << 31, (1 << 32) - 1])
def test_a_number_in_the_lock_that_nobody_can_have_is_chosen_anew(number: int) -> None:
    known = {**SYSTEM, "ann.uid": number, "ann.gid": number}
    facts = {"c1": having("c1"), "n1": having("n1")}
    assert decide(ANN, known, facts, controller="c1") == {**SYSTEM, "ann.uid": 2000, "ann.gid": 2000}
    with pytest.raises(IdConflict, match="no UID or GID was chosen yet"):
        refuse_partial(ANN, ["c1", "n1"], known, {**SYSTEM, "ann.uid": 2000, "ann.gid": 2000})


def test_numbers_that_were_chosen_once_stay_when_others_come_and_go() -> None:
    first = pin(ANN, Lock(), facts_of(ANN, prepared))
    both = cluster(HEAD + "users: [{name: bob}, {name: ann}]\n")
    second = pin(both, first, facts_of(both, prepared))
    gone = pin(cluster(HEAD + "users: [{name: bob}]\n"), second, facts_of(both, prepared))
    assert (first.ids["ann.uid"], second.ids["ann.uid"], second.ids["bob.uid"]) == (2000, 2000, 2001)
    assert gone.ids == second.ids
    assert former(cluster(HEAD), gone.ids) == ("ann", "bob")


@pytest.mark.parametrize(
    ("users", "facts", "told"),
    [
        ("{name: ann, uid: 3000}", {"n1": having("n1", ann=1001)}, [
            "n1: user ann has UID 1001 there, but the cluster uses 3000.",]),
        ("{name: ann, uid: 3000, gid: 1001}", {"n1": having("n1", bob=3000), "n2": having("n2", bob=3000)},
         ["n[1-2]: UID 3000, wanted for ann, belongs to bob there."]),
        ("{name: ann}", {"c1": having("c1", ann=1001), "n1": having("n1", ann=1002)}, [
            "n1: user ann has UID 1002 there, but the cluster uses 1001.",
            "n1: group ann has GID 1002 there, but the cluster uses 1001."]),
        ("{name: ann}", {"n1": host_facts("n1", accounts={"ann": Account(2000, 100, "/", "/")}, gids={100: "users"})},
         ["n1: user ann has the primary group users (GID 100) there, but the cluster uses a group ann (GID 2000): "
          "groupadd -g 2000 ann; usermod -g ann ann."]),
        ("{name: certbot}", {"n1": having("n1", certbot=120)},
         ["n1: certbot is a system user there (UID 120)."]),
        ("{name: ann, groups: [ml]}", {"c1": host_facts("c1", groups={"ml": 1500}, gids={1500: "ml"}),
                                       "n1": host_facts("n1", groups={"ml": 1600}, gids={1600: "ml"})},
         ["n1: group ml has GID 1600 there, but the cluster uses 1500."]),
    ],
    ids=["another number", "somebody else's", "hosts disagree", "shared primary group", "daemon", "further group"],
)  # fmt: skip
def test_conflicts_are_told_with_host_name_and_both_numbers(
    users: str, facts: dict[str, HostFacts], told: list[str]
) -> None:
    with pytest.raises(IdConflict) as conflict:
        choose(cluster(f"{HEAD}users: [{users}]\n"), facts, {})
    assert str(conflict.value).splitlines() == [*told, people_ids.WAY_OUT]


def test_conflicts_of_daemons_and_people_are_told_at_once() -> None:
    facts = {"n1": host_facts("n1", uids={64030: "carol", 3000: "bob"})}
    with pytest.raises(IdConflict) as conflict:
        decide(cluster(HEAD + "users: [{name: ann, uid: 3000}]\n"), {}, facts)
    assert "UID 64030, wanted for slurm, belongs to carol" in str(conflict.value)
    assert "UID 3000, wanted for ann, belongs to bob" in str(conflict.value)


def test_a_number_of_somebody_who_has_left_is_not_given_to_another_even_when_the_file_says_so() -> None:
    with pytest.raises(IdConflict, match="UID 2000 is wanted for ann and bob"):
        choose(cluster(HEAD + "users: [{name: ann, uid: 2000}]\n"), {}, {"bob.uid": 2000, "bob.gid": 2001})


def test_a_group_that_no_host_has_is_made_with_one_number_and_one_of_the_system_is_left_to_it() -> None:
    wanted = cluster(HEAD + "users: [{name: ann, groups: [ml, video, bob]}, {name: bob}]\n")
    facts = {"c1": host_facts("c1", groups={"video": 44}), "n1": host_facts("n1", groups={"video": 39})}
    chosen = choose(wanted, facts, SYSTEM)
    assert {key for key in chosen if key.endswith(".gid")} == {"ann.gid", "bob.gid", "ml.gid"}
    assert len(set(chosen.values())) == 3


def test_nothing_is_chosen_where_a_directory_service_has_the_people() -> None:
    assert choose(cluster(HEAD + "users: [{name: ann}]\nunix_users: false\n"), {}, {}) == {}


def test_hosts_are_asked_about_those_who_are_there_those_who_have_left_and_all_groups() -> None:
    wanted = cluster(HEAD + "users: [{name: ann, groups: [ml]}]\n")
    pinned = {**SYSTEM, "bob.uid": 2001, "bob.gid": 2001, "old.gid": 2002}
    assert names_of(wanted, pinned) == (("ann", "bob"), ("ml", "old"))


def test_a_new_number_is_not_chosen_when_only_some_hosts_were_asked() -> None:
    with pytest.raises(IdConflict, match=r"ann: no UID or GID was chosen yet, and it must be free on n\[1-2\] too"):
        refuse_partial(ANN, {"c1"}, SYSTEM, {**SYSTEM, "ann.uid": 2000, "ann.gid": 2000})


@pytest.mark.parametrize(
    ("asked", "before", "file"),
    [
        ({"c1", "n1", "n2"}, SYSTEM, "{name: ann}"),
        ({"c1"}, {**SYSTEM, "ann.uid": 2000, "ann.gid": 2000}, "{name: ann}"),
        ({"c1"}, SYSTEM, "{name: ann, uid: 2000}"),
    ],
    ids=["all were", "it was chosen before", "it is said"],
)
def test_some_hosts_alone_may_be_asked_when_nothing_is_to_be_chosen(
    asked: set[str], before: dict[str, int], file: str
) -> None:
    refuse_partial(cluster(f"{HEAD}users: [{file}]\n"), asked, before, {**SYSTEM, "ann.uid": 2000, "ann.gid": 2000})


@pytest.mark.parametrize(
    ("facts", "left"),
    [
        ({"c1": having("c1"), "n1": having("n1", ann=2000), "n2": having("n2")}, ("ann",)),
        ({"c1": having("c1"), "n1": having("n1")}, ("ann",)),
        ({"c1": having("c1"), "n1": having("n1"), "n2": having("n2")}, ()),
    ],
    ids=["one host has the account", "one host is silent", "nobody has it"],
)
def test_somebody_is_on_the_way_out_until_no_host_has_the_account(
    facts: dict[str, HostFacts], left: tuple[str, ...]
) -> None:
    lock = Lock(ids={**SYSTEM, "ann.uid": 2000, "ann.gid": 2000}, leaving=("ann",))
    assert still_leaving(cluster(HEAD), lock, facts) == left
    assert still_leaving(ANN, lock, facts) == ()


def test_one_host_that_says_that_all_numbers_are_taken_is_in_the_way_of_the_next_user_alone() -> None:
    facts = {
        "c1": host_facts("c1"),
        "n1": host_facts("n1"),
        "n2": host_facts("n2", uids=dict.fromkeys(CANDIDATES, "x")),
    }
    with pytest.raises(IdConflict, match="n2: no number from 2000 to 59999 is free for another user") as refused:
        choose(cluster(f"{HEAD}users: [{{name: ann}}]\n"), facts, {}, "c1")
    assert [one.hosts for one in refused.value.objections] == [("n2",)]
