"""One UID and one GID for slurm and for munge on all hosts, or a conflict before anything is changed."""

from __future__ import annotations

import dataclasses

import pytest
from support import host_facts

from slurmfab.base.errors import IdConflict
from slurmfab.cluster.facts import Account, HostFacts
from slurmfab.cluster.inventory.system_ids import CANDIDATES, WAY_OUT, choose, move, refuse_partial_move


def having(name: str, **users: tuple[int, int]) -> HostFacts:
    """A host on which these users exist with this UID and GID, each with a group of its own name."""
    return host_facts(
        name,
        accounts={user: Account(*numbers, "/", "/bin/sh") for user, numbers in users.items()},
        groups={user: gid for user, (_, gid) in users.items()},
        uids={uid: user for user, (uid, _) in users.items()},
        gids={gid: user for user, (_, gid) in users.items()},
    )


def numbers(slurm: int, munge: int) -> dict[str, int]:
    return {"slurm.uid": slurm, "slurm.gid": slurm, "munge.uid": munge, "munge.gid": munge}


def test_untouched_hosts_get_the_distributions_number_for_slurm_and_the_first_free_one_for_munge() -> None:
    assert choose({"n1": host_facts("n1")}, {}, {}) == numbers(64030, CANDIDATES[0])


def test_a_number_for_munge_is_free_on_every_host_as_uid_and_as_gid() -> None:
    hosts = {"n1": host_facts("n1", uids={450: "alice"}), "n2": host_facts("n2", gids={451: "lab"})}
    assert choose(hosts, {}, {})["munge.uid"] == 452


def test_what_all_hosts_agree_on_is_kept() -> None:
    hosts = {name: having(name, slurm=(800, 801), munge=(802, 803)) for name in ("n1", "n2")}
    assert choose(hosts, {}, {}) == {"slurm.uid": 800, "slurm.gid": 801, "munge.uid": 802, "munge.gid": 803}


def test_a_host_without_the_users_gets_the_others_numbers() -> None:
    hosts = {"n1": having("n1", slurm=(800, 800), munge=(802, 802)), "n2": host_facts("n2")}
    assert choose(hosts, {}, {}) == numbers(800, 802)


@pytest.mark.parametrize("number", [1001, 65534, 65535, 100005, 1 << 31, (1 << 32) - 1])
def test_a_number_that_one_host_has_and_that_is_no_system_users_is_not_the_clusters(number: int) -> None:
    hosts = {"c1": host_facts("c1"), "n1": having("n1", munge=(number, number)), "n2": host_facts("n2")}
    with pytest.raises(IdConflict) as conflict:
        choose(hosts, {}, {}, controller="c1")
    assert f"n1: user munge has UID {number} there, but the cluster uses 450." in str(conflict.value)
    assert {one.hosts for one in conflict.value.objections} == {("n1",)}


@pytest.mark.parametrize("others", [("c1",), ("n2",)], ids=["the controller", "most hosts"])
def test_a_number_of_a_person_that_the_controller_or_most_hosts_have_stays(others: tuple[str, ...]) -> None:
    two = {host: having(host, slurm=(1001, 1001)) for host in ("n1", *others)}
    hosts = {**{host: host_facts(host) for host in ("c1", "n1", "n2")}, **two}
    assert choose(hosts, {}, {}, controller="c1")["slurm.uid"] == 1001


def test_the_lock_wins_over_what_hosts_have_and_the_cluster_file_over_the_lock() -> None:
    assert choose({"n1": host_facts("n1")}, {}, numbers(700, 701)) == numbers(700, 701)
    assert choose({"n1": host_facts("n1")}, {"slurm": 600}, numbers(700, 701)) == {
        **numbers(700, 701),
        "slurm.uid": 600,
        "slurm.gid": 600,
    }


@pytest.mark.parametrize(
    ("host", "words"),
    [
        (having("n1", slurm=(1001, 64030)), "n1: user slurm has UID 1001 there, but the cluster uses 64030."),
        (having("n1", slurm=(64030, 1001)), "n1: group slurm has GID 1001 there, but the cluster uses 64030."),
        (host_facts("n1", uids={64030: "alice"}), "n1: UID 64030, wanted for slurm, belongs to alice there."),
        (host_facts("n1", gids={64030: "lab"}), "n1: GID 64030, wanted for slurm, belongs to lab there."),
    ],
)
def test_a_conflict_names_host_user_and_both_numbers(host: HostFacts, words: str) -> None:
    with pytest.raises(IdConflict) as conflict:
        choose({"n1": host, "n2": host_facts("n2")}, {"slurm": 64030}, {})
    assert words in str(conflict.value).splitlines()


def test_all_conflicts_are_told_at_once_with_hosts_folded_and_the_way_out_at_the_end() -> None:
    hosts = {name: having(name, slurm=(1001, 1001), munge=(1002, 1002)) for name in ("n1", "n2", "n3")}
    with pytest.raises(IdConflict) as conflict:
        choose(hosts, {"slurm": 600, "munge": 601}, {})
    *told, way_out = str(conflict.value).splitlines()
    assert told == [
        "n[1-3]: user slurm has UID 1001 there, but the cluster uses 600.",
        "n[1-3]: group slurm has GID 1001 there, but the cluster uses 600.",
        "n[1-3]: user munge has UID 1002 there, but the cluster uses 601.",
        "n[1-3]: group munge has GID 1002 there, but the cluster uses 601.",
    ]
    assert "Nothing was changed" in way_out
    assert "ids: {slurm: NUMBER, munge: NUMBER}" in way_out


def test_hosts_that_disagree_are_a_conflict_and_no_host_is_picked_in_silence() -> None:
    with pytest.raises(IdConflict, match="n2: user slurm has UID 900 there"):
        choose({"n1": having("n1", slurm=(64030, 64030)), "n2": having("n2", slurm=(900, 900))}, {}, {})


def test_one_number_for_both_users_is_a_conflict() -> None:
    with pytest.raises(IdConflict, match="700"):
        choose({"n1": host_facts("n1")}, {"slurm": 700, "munge": 700}, {})


def test_the_chosen_numbers_of_slurm_and_munge_never_meet() -> None:
    chosen = choose({"n1": host_facts("n1")}, {"slurm": CANDIDATES[0]}, {})
    assert chosen["munge.uid"] != chosen["slurm.uid"]


def test_when_every_candidate_is_taken_the_conflict_is_told() -> None:
    crowded = host_facts("n1", uids={number: f"u{number}" for number in range(CANDIDATES.start, CANDIDATES.stop + 1)})
    with pytest.raises(IdConflict, match="wanted for munge"):
        choose({"n1": crowded}, {}, {})


@pytest.mark.parametrize(
    ("hosts", "slurm"),
    [
        ([having("c1", slurm=(64030, 64030)), having("n1", slurm=(900, 900)), having("n2", slurm=(900, 900))], 900),
        ([having("c1", slurm=(800, 800)), having("n1", slurm=(900, 900)), host_facts("n2")], 800),
        ([host_facts("c1"), having("n1", slurm=(800, 800)), having("n2", slurm=(900, 900))], 64030),
        ([having("c1", slurm=(800, 800), bob=(801, 801)), *(having(n, slurm=(801, 801)) for n in ("n1", "n2"))], 800),
        ([having("c1", slurm=(800, 800)), *(having(name, bob=(800, 100)) for name in ("n1", "n2"))], 64030),
        ([host_facts("c1"), having("n1", slurm=(800, 800)), having("n2", bob=(800, 100))], 64030),
    ],
    ids=[
        "most hosts",
        "the controller's, of equals",
        "none of equals",
        "another's on the controller",
        "another's on most hosts",
        "another's on as many, and few",
    ],
)
def test_when_users_may_be_moved_the_number_is_chosen_that_moves_least(hosts: list[HostFacts], slurm: int) -> None:
    chosen = choose({fact.name: fact for fact in hosts}, {}, {}, controller="c1", moving=True)
    assert (chosen["slurm.uid"], chosen["slurm.gid"]) == (slurm, slurm)


@pytest.mark.parametrize("moving", [False, True], ids=["as they are", "moved"])
@pytest.mark.parametrize(
    "lie",
    [
        {"uids": {555: "munge", 450: "other"}},
        {"gids": {555: "munge", 450: "other"}},
        {"uids": {450: "slurm", 555: "munge"}},
        {"accounts": {"slurm": Account(450, 460, "/", "/"), "munge": Account(555, 555, "/", "/")}},
    ],
    ids=[
        "the UID is another's",
        "the GID is another's",
        "the UID is slurm's",
        "the UID is slurm's there, with a group",
    ],
)
def test_a_number_of_munge_that_most_hosts_have_stays_when_one_host_has_another_and_denies_it(
    lie: dict[str, dict[int, str]], *, moving: bool
) -> None:
    honest = {name: having(name, munge=(450, 450)) for name in ("c1", "n1")}
    liar = dataclasses.replace(having("n2", munge=(555, 555)), **lie)
    try:
        chosen = choose({**honest, "n2": liar}, {}, {}, controller="c1", moving=moving)
    except IdConflict as conflict:
        told = conflict.objections
        assert {host for one in told for host in one.blamed("c1", 3)} == {"n2"}, told
        chosen = choose(honest, {}, {}, controller="c1", moving=moving)
    assert (chosen["munge.uid"], chosen["munge.gid"]) == (450, 450)


@pytest.mark.parametrize("moving", [False, True], ids=["as they are", "moved"])
def test_a_number_of_slurm_that_one_host_alone_has_cannot_take_that_of_munge_from_the_others(*, moving: bool) -> None:
    honest = {name: having(name, munge=(450, 451)) for name in ("c1", "n1")}
    taking = having("n2", slurm=(451, 450), munge=(450, 451))
    chosen = choose({**honest, "n2": taking}, {}, {}, controller="c1", moving=moving)
    assert (chosen["munge.uid"], chosen["munge.gid"]) == (450, 451)


def test_a_number_that_few_hosts_have_and_as_many_deny_leaves_out_those_that_have_it() -> None:
    hosts = {"c1": host_facts("c1"), "n1": having("n1", bob=(800, 800)), "n2": having("n2", slurm=(800, 800))}
    with pytest.raises(IdConflict) as conflict:
        choose(hosts, {}, {}, controller="c1")
    assert {host for one in conflict.value.objections for host in one.blamed("c1", 3)} == {"n2"}


@pytest.mark.parametrize(
    ("declared", "pinned"),
    [({"slurm": 64030, "munge": 450}, {}), ({}, numbers(64030, 450))],
    ids=["declared", "pinned"],
)
def test_when_users_may_be_moved_other_numbers_are_no_conflict_but_a_stranger_with_the_wanted_one_is(
    declared: dict[str, int], pinned: dict[str, int]
) -> None:
    other = having("n1", slurm=(1001, 1002), munge=(1003, 1003))
    assert choose({"n1": other}, declared, pinned, controller="c1", moving=True) == numbers(64030, 450)
    taken = host_facts("n2", uids={64030: "alice"})
    with pytest.raises(IdConflict) as conflict:
        choose({"n1": other, "n2": taken}, declared, pinned, controller="c1", moving=True)
    told, way_out = str(conflict.value).splitlines()
    assert told == "n2: UID 64030, wanted for slurm, belongs to alice there."
    assert "ids: {slurm: NUMBER, munge: NUMBER}" in way_out


def test_a_refusal_shows_what_would_be_moved_with_hosts_folded() -> None:
    hosts = {name: having(name, slurm=(1001, 1002)) for name in ("n1", "n2")}
    with pytest.raises(IdConflict) as conflict:
        choose({"c1": having("c1", slurm=(64030, 64030)), **hosts}, {"slurm": 64030}, {}, controller="c1")
    assert str(conflict.value).splitlines()[2:] == [
        "With --move-ids, users and groups get these numbers, as do all their files on local file systems:",
        "    n[1-2]: slurm: uid 1001 -> 64030, gid 1002 -> 64030",
        "To see first how many files change: fab plan --move-ids",
        WAY_OUT,
    ]


@pytest.mark.parametrize("controller", ["", "c1"], ids=["hosts that are not of the cluster yet", "a stranger's number"])
def test_a_refusal_does_not_offer_what_would_not_help(controller: str) -> None:
    hosts = {
        "n1": having("n1", slurm=(1001, 1001)),
        "n2": host_facts("n2", uids={64030: "alice"} if controller else {}),
    }
    with pytest.raises(IdConflict) as conflict:
        choose(hosts, {"slurm": 64030}, {}, controller=controller)
    assert "--move-ids" not in str(conflict.value)


def test_a_primary_group_of_somebody_else_is_a_conflict_and_can_be_moved() -> None:
    hosts = {"n1": host_facts("n1", accounts={"slurm": Account(64030, 100, "/", "/bin/sh")}, gids={100: "users"})}
    with pytest.raises(IdConflict, match="n1: user slurm has the primary GID 100 there, but the cluster uses 64030"):
        choose(hosts, {"slurm": 64030}, {})
    chosen = choose(hosts, {"slurm": 64030}, {}, controller="c1", moving=True)
    assert move("slurm", chosen, hosts["n1"]) == "primary gid 100 -> 64030"


ALL, SAME = ("c1", "n1"), having("n1", slurm=(64030, 64030), munge=(450, 450))


@pytest.mark.parametrize(
    ("hosts", "before", "fact"),
    [
        (ALL, numbers(1, 2), SAME),
        (("n1",), numbers(64030, 450), SAME),
        (("n1",), {}, SAME),
        (("n1",), numbers(64030, 450), having("n1", slurm=(1001, 1001))),
    ],
    ids=["all hosts", "nothing moves", "no lock", "one that is meant"],
)
def test_some_hosts_alone_may_be_moved_to_the_numbers_that_all_others_have(
    hosts: tuple[str, ...], before: dict[str, int], fact: HostFacts
) -> None:
    refuse_partial_move(hosts, ALL, before, numbers(64030, 450), {"n1": fact})


@pytest.mark.parametrize(
    ("hosts", "before", "fact"),
    [(("n1",), numbers(64031, 450), SAME), (("c1",), {}, having("n1", slurm=(1001, 1001)))],
    ids=["all would have to", "one left out"],
)
def test_some_hosts_alone_are_not_moved_when_others_would_keep_other_numbers(
    hosts: tuple[str, ...], before: dict[str, int], fact: HostFacts
) -> None:
    with pytest.raises(IdConflict, match="Run fab deploy --move-ids without --hosts"):
        refuse_partial_move(hosts, ALL, before, numbers(64030, 450), {"n1": fact})
