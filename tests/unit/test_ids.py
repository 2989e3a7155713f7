"""One UID and one GID for slurm and for munge on all hosts, or a conflict before anything is changed."""

from __future__ import annotations

import pytest
from support import host_facts

from slurmfab.errors import IdConflict
from slurmfab.facts import Account, HostFacts
from slurmfab.ids import CANDIDATES, choose


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
        (having("n1", slurm=(1001, 64030)), "n1: user slurm has UID 1001 there, and 64030 is wanted everywhere."),
        (having("n1", slurm=(64030, 1001)), "n1: group slurm has GID 1001 there, and 64030 is wanted everywhere."),
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
        "n[1-3]: user slurm has UID 1001 there, and 600 is wanted everywhere.",
        "n[1-3]: group slurm has GID 1001 there, and 600 is wanted everywhere.",
        "n[1-3]: user munge has UID 1002 there, and 601 is wanted everywhere.",
        "n[1-3]: group munge has GID 1002 there, and 601 is wanted everywhere.",
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
