"""When slurmctld runs the script that tells people without an account what to do."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from slurmfab.slurm.job_submit_script import SCRIPT, explains_refusals
from slurmfab.slurm.render import fill


@pytest.mark.parametrize(
    ("own", "enforces", "explains"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"JobSubmitPlugins": "lua"}, True, False),
        ({"jobsubmitplugins": None}, True, False),
        ({"AccountingStorageEnforce": "limits"}, True, True),
        ({"AccountingStorageEnforce": "Associations, QOS"}, True, True),
        ({"AccountingStorageEnforce": "none"}, True, False),
        ({"AccountingStorageEnforce": None}, True, False),
    ],
)
def test_the_script_runs_where_slurm_refuses_people_and_the_place_is_ours(
    own: Mapping[str, str | None], enforces: bool, explains: bool
) -> None:
    assert explains_refusals(own, enforces=enforces) is explains


def test_the_script_names_the_cluster() -> None:
    assert "no account on the cluster titanic," in fill(SCRIPT, {"cluster_name": "titanic"})
