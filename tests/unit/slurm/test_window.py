"""Which series of Slurm work together, and which lead from one to another."""

from __future__ import annotations

import pytest

from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.cluster.slurm.window import Member, mismatches, reached, reaches, way


def version(text: str) -> SlurmVersion:
    return SlurmVersion.parse(text)


@pytest.mark.parametrize(
    ("newer", "older", "does"),
    [
        ("22.05", "22.05", True),
        ("23.11", "22.05", True),
        ("24.05", "23.02", True),
        ("24.05", "22.05", False),  # two series back until here
        ("24.11", "23.02", True),  # three from here on
        ("24.11", "22.05", False),
        ("26.05", "24.11", True),
        ("26.05", "24.05", False),
        ("24.11", "25.05", False),  # never a newer one
        ("26.11", "22.05", True),  # not known yet, so Slurm itself judges
        ("26.05", "26.11", False),
    ],
)
def test_a_series_understands_two_or_three_before_its_own(newer: str, older: str, does: bool) -> None:
    assert reaches(version(newer), version(older)) is does


def test_what_a_series_understands_begins_with_the_oldest() -> None:
    assert [str(one) for one in reached(version("24.11"))] == ["23.02", "23.11", "24.05"]
    assert [str(one) for one in reached(version("22.05"))] == ["20.11", "21.08"]


@pytest.mark.parametrize(
    ("have", "to", "steps"),
    [
        ("24.11", "24.11", []),
        ("24.11", "26.05", ["26.05"]),
        ("22.05", "23.11", ["23.11"]),
        ("22.05", "24.11", ["23.11", "24.11"]),
        ("22.05", "26.05", ["23.11", "24.11", "26.05"]),  # not 25.05, which no distribution has
        ("23.11", "25.11", ["24.11", "25.11"]),
        ("26.05", "24.11", []),
        ("24.11", "26.11", []),
    ],
)
def test_the_way_has_as_few_steps_as_possible_and_series_that_can_be_had(have: str, to: str, steps: list[str]) -> None:
    assert [str(one) for one in way(version(have), version(to))] == steps


@pytest.mark.parametrize(
    ("versions", "found"),
    [
        ({"slurmctld": "24.11", "slurmd": "24.11", "commands": "24.11"}, []),
        ({"slurmdbd": "26.05", "slurmctld": "24.11", "slurmd": "24.11", "commands": "24.11"}, []),
        ({"slurmdbd": "26.05", "slurmctld": "26.05", "slurmd": "24.11 26.05", "commands": "24.11 26.05"}, []),
        (
            {"slurmdbd": "24.11", "slurmctld": "26.05", "slurmd": "24.11"},
            ["slurmctld 26.05 is newer than slurmdbd 24.11"],
        ),
        ({"slurmctld": "24.11", "slurmd": "24.11 26.05"}, ["slurmd 26.05 is newer than slurmctld 24.11"]),
        (
            {"slurmctld": "24.11", "slurmd": "22.05"},
            ["slurmd 22.05 is too old for slurmctld 24.11, which talks to 23.02 or newer"],
        ),
        (
            {"slurmdbd": "24.11", "slurmctld": "24.11", "commands": "26.05"},
            ["commands 26.05 is newer than slurmdbd 24.11", "commands 26.05 is newer than slurmctld 24.11"],
        ),
    ],
)
def test_a_mixed_state_is_legal_while_nobody_is_newer_than_whom_it_asks(
    versions: dict[Member, str], found: list[str]
) -> None:
    told = mismatches({member: map(version, texts.split()) for member, texts in versions.items()})
    assert [f"{member} {series} {reason}" for member, series, reason in told] == found
