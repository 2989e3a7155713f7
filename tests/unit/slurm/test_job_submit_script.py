"""When slurmctld runs the script that tells people without an account what to do."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from slurmfab.cluster.slurm.job_submit_script import explains_refusals, lua_text
from slurmfab.cluster.slurm.render import job_submit_script


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
    assert "no account on the cluster titanic," in job_submit_script("titanic")
    assert "site" not in job_submit_script("titanic")


@pytest.mark.parametrize("text", ["return 0", "a[b[1]] = [[x]]\n", "--[==[ ]==] ]=]", "x]"])
def test_the_sites_script_follows_in_brackets_that_it_does_not_close(text: str) -> None:
    string = lua_text(text)
    opened, closed = string.splitlines()[0], string.splitlines()[-1]
    assert (opened.count("["), closed, closed in text) == (2, opened.replace("[", "]"), False)
    assert string in job_submit_script("titanic", text)
