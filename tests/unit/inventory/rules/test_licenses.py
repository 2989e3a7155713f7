"""Licences: names and counts that slurm.conf can carry, in one place."""

from __future__ import annotations

import pytest
from support import cluster

from slurmfab.base.errors import InputError

HEAD = """\
cluster: lab
controllers: [c1]
nodes: [{hosts: "n[1-2]"}]
"""


def test_licences_are_counts_by_name() -> None:
    found = cluster(f"{HEAD}licenses: {{matlab: 10, comsol-5.6: 2}}\n").licenses
    assert found == {"matlab": 10, "comsol-5.6": 2}


def test_a_file_without_licences_has_none() -> None:
    assert cluster(HEAD).licenses == {}


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        pytest.param("{matlab: 0}", "it must be at least 1", id="none"),
        pytest.param("{matlab: -3}", "it must be at least 1", id="less than none"),
        pytest.param("{matlab: many}", "it must be a whole number", id="no number"),
        pytest.param("{matlab: 2.5}", "it must be a whole number", id="half a licence"),
        pytest.param("{'mat lab': 1}", '"mat lab" is not a valid licence name', id="blank"),
        pytest.param("{'matlab:1': 1}", '"matlab:1" is not a valid licence name', id="colon"),
        pytest.param("{matlab@flex: 1}", '"matlab@flex" is not a valid licence name', id="of slurmdbd"),
        pytest.param("matlab:10", "dictionary|mapping", id="slurm's own spelling"),
    ],
)
def test_what_slurm_would_not_take_is_refused_with_its_line(said: str, complaint: str) -> None:
    with pytest.raises(InputError, match=f"cluster.yaml:4: licenses.*({complaint})"):
        cluster(f"{HEAD}licenses: {said}\n")


def test_licences_in_two_places_are_refused() -> None:
    with pytest.raises(
        InputError,
        match=r"slurm_conf\.LICENSES: slurmfab writes Licenses itself: it comes from the key licenses at the top",
    ):
        cluster(f"{HEAD}licenses: {{matlab: 1}}\nslurm_conf: {{LICENSES: 'comsol:1'}}\n")
    assert cluster(f"{HEAD}slurm_conf: {{Licenses: 'comsol:1'}}\n").slurm_conf == {"Licenses": "comsol:1"}
