"""The phases that words of `--only` mean, and those that they cannot be without."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slurmfab.base.errors import InputError
from slurmfab.core.plan.plan import ALL, BY_NAME, PARTS, PHASES, RESTART, choose, with_needs

README = Path(__file__).parents[3] / "README.md"
NAMES = [phase.name for phase in PHASES]
BELOW_SLURM_CONF = {
    "users", "packages", "munge key", "drain for mig", "mig", "token key", "firewall", "firewall zone", "hosts file",
    "connections", "ports", "exports", "mounts", "daemon units", "munge", "token keys", "database", "accounts",
    "scripts", "power programs", "mail", "containers", "directories", "slurmctld stop",
}  # fmt: skip
SLURM = {*BELOW_SLURM_CONF, "slurm.conf", *RESTART}


@pytest.mark.parametrize(
    ("words", "phases"),
    [
        ("users", {"users"}),
        ("hosts-file", {"hosts file"}),
        ("passwordless-ssh", {"users", "packages", "ssh keys", "ssh"}),
        ("munge-key", {"users", "packages", "munge key", "munge"}),
        ("slurm-conf", SLURM),
        ("gres-conf", SLURM),
        ("cgroup-conf", SLURM),
        ("daemons", {*BELOW_SLURM_CONF, "slurm.conf", "slurmctld", "slurmd"}),
        ("munge-key,slurm-conf", SLURM),
        (
            "accounts",
            {"users", "packages", "hosts file", "ports", "munge key", "munge", "database", "accounts", "limits"},
        ),
        ("node-logins", {*BELOW_SLURM_CONF, "slurm.conf", "node logins"}),
        ("former-scripts", {*BELOW_SLURM_CONF, "slurm.conf", "former scripts"}),
        ("former-exports", {"packages", "users", "hosts file", "ports", "exports", "mounts", "former exports"}),
        ("former-software", {*NAMES[: NAMES.index("former software") + 1]}),
    ],
)
def test_a_word_means_its_phase_with_all_that_it_cannot_be_without(words: str, phases: set[str]) -> None:
    assert choose(words.split(",")).phases == phases


@pytest.mark.parametrize(
    ("word", "differing", "also"),
    [
        ("slurm-conf", "mounts", {"homes on servers", "homes", "former exports", "people"}),
        ("slurm-conf", "accounts", {"limits"}),
        ("node-logins", "slurm.conf", set(RESTART)),
        ("daemons", "slurm.conf", set(RESTART)),
        ("quotas", "people", {"accounts", "sudo", "former people"}),
        ("munge-key", "packages", set()),
        ("munge-key", "hosts file", set()),
    ],
)
def test_what_is_changed_for_another_phase_brings_what_has_to_follow_it(
    word: str, differing: str, also: set[str]
) -> None:
    before = choose([word])
    now = before.widened([differing])
    assert also <= now.phases
    assert bool(also) == (now != before)
    assert now.widened([]) == now, "what was changed no longer differs, and what follows is still to come"


@pytest.mark.parametrize("word", [*(phase.word for phase in PHASES), *PARTS])
def test_no_choice_of_phases_has_new_files_of_slurm_without_what_makes_them_count(word: str) -> None:
    choice = choose([word])
    changing = choice.widened(NAMES)
    assert "slurm.conf" not in changing.phases or set(RESTART) <= changing.phases
    assert changing.phases == with_needs(changing.phases, NAMES), "all that follows what is changed is there"
    assert not {"mig", "drain for mig", *RESTART} & choice.phases or "slurm.conf" in choice.phases


def test_phases_rest_on_earlier_ones_and_are_followed_by_later_ones() -> None:
    for number, phase in enumerate(PHASES):
        assert all(name == ALL or NAMES.index(name) < number for name in phase.rests_on), phase.name
        assert all(NAMES.index(name) > number for name in phase.followed_by), phase.name
        assert phase.about


def test_words_are_unique_and_may_be_spelt_as_names_are() -> None:
    assert len({*(phase.word for phase in PHASES), *PARTS}) == len(PHASES) + len(PARTS)
    assert choose(["Munge Key", "slurm.conf", "gres.conf"]).words == ("munge-key", "slurm-conf", "gres-conf")
    assert choose([" munge_key", "munge-key"]).named == {"munge key"}


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (["mung-key"], ["--only mung-key: there is no such phase. Did you mean munge-key?"]),
        (["slurmconf", "users"], ["--only slurmconf: there is no such phase. Did you mean slurm-conf?"]),
        (
            ["x", "demons"],
            ["--only x: there is no such phase.", "--only demons: there is no such phase. Did you mean daemons?"],
        ),
        ([], ["--only names no phase."]),
        (["", " "], ["--only names no phase."]),
    ],
)
def test_a_word_that_no_phase_has_is_refused_with_the_nearest(words: list[str], lines: list[str]) -> None:
    with pytest.raises(InputError) as refused:
        choose(words)
    assert str(refused.value).splitlines() == [*lines, "All phases: fab phases."]


def test_what_phases_are_about_names_the_seven_things_of_a_cluster() -> None:
    known = {phase.word for phase in PHASES} | PARTS.keys()
    assert {"users", "passwordless-ssh", "munge-key", "slurm-conf", "gres-conf", "cgroup-conf", "daemons"} <= known
    assert "gres.conf" in BY_NAME["slurm.conf"].about


def test_the_readme_shows_the_seven_things_by_words_that_there_are() -> None:
    rows = [line.split("|")[1] for line in README.read_text().splitlines() if line.startswith("| `")]
    words = [word for row in rows for word in re.findall("`([a-z-]+)`", row)]
    assert words == ["users", "passwordless-ssh", "munge-key", "slurm-conf", "gres-conf", "cgroup-conf", "daemons"]
    assert choose(words).words == tuple(words)
