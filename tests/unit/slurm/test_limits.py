"""Limits as people write them and as sacctmgr shows them: the same in one form, and nothing else let through."""

from __future__ import annotations

import pytest

from slurmfab.cluster.slurm import limits
from slurmfab.on_hosts.agent.accounting import limit_values as kinds


@pytest.mark.parametrize(
    ("kind", "written", "shown"),
    [
        (kinds.NUMBER, "007", "7"),
        (kinds.FLOAT, "0.5", "0.500000"),
        (kinds.FLOAT, "2", "2.000000"),
        (kinds.MINUTES, "90", "01:30:00"),
        (kinds.MINUTES, "5:00", "00:05:00"),
        (kinds.MINUTES, "5:01", "00:06:00"),
        (kinds.MINUTES, "100:00:00", "4-04:00:00"),
        (kinds.MINUTES, "7-0", "7-00:00:00"),
        (kinds.MINUTES, "1-12:30", "1-12:30:00"),
        (kinds.SECONDS, "10:00", "00:10:00"),
        (kinds.GRACE, "60", "00:01:00"),
        (kinds.TRES, "mem=10240, CPU=100", "cpu=100,mem=10G"),
        (kinds.TRES, "mem=10250M", "mem=10250M"),
        (kinds.TRES, "mem=1024G", "mem=1T"),
        (kinds.TRES, "gres/gpu:A100=4", "gres/gpu:a100=4"),
        (kinds.TRES, "cpu=1000000", "cpu=1000000"),
        (kinds.NAMES, "Low, normal", "low,normal"),
        (kinds.FLAGS, "OverPartQOS,DenyOnLimit", "DenyOnLimit,OverPartQOS"),
        (kinds.MODE, "REQUEUE,WITHIN", "within,requeue"),
        (kinds.MODE, "OFF", "cluster"),
        (kinds.SHARE, "Parent", "parent"),
        (kinds.LEVEL, "admin", "Administrator"),
        (kinds.TEXT, "The Physics People", "the physics people"),
        (kinds.NUMBER, "-1", ""),
    ],
)
def test_what_a_file_says_and_what_sacctmgr_shows_of_it_are_the_same(kind: str, written: str, shown: str) -> None:
    assert kinds.normal(kind, written) == kinds.normal(kind, shown)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (kinds.NUMBER, "many"),
        (kinds.NUMBER, "-2"),
        (kinds.FLOAT, "half"),
        (kinds.MINUTES, "soon"),
        (kinds.MINUTES, "1:2:3:4"),
        (kinds.TRES, "cpu"),
        (kinds.TRES, "cpu:4"),
        (kinds.TRES, "cpu=4,cpu=5"),
        (kinds.TRES, "cpu=4G"),
        (kinds.TRES, "mem=lots"),
        (kinds.SHARE, "much"),
        (kinds.LEVEL, "king"),
    ],
)
def test_what_is_no_value_of_its_kind_is_refused(kind: str, value: str) -> None:
    with pytest.raises(ValueError, match=r"is no|twice"):
        kinds.normal(kind, value)


def test_memory_keeps_its_value_whatever_the_unit() -> None:
    assert kinds.normal(kinds.TRES, "mem=1536M") == "mem=1536M"
    assert kinds.normal(kinds.TRES, "mem=2048") == "mem=2G"


def test_short_names_of_limits_become_sacctmgrs_own() -> None:
    settings = {"MaxTRESPU": "cpu=4", "maxjobspu": "3", "GrpSubmit": "9"}
    assert limits.normal(settings, limits.QOS_BY_NAME) == (
        ("MaxTRESPerUser", "cpu=4"),
        ("MaxJobsPerUser", "3"),
        ("GrpSubmitJobs", "9"),
    )


def test_each_version_is_asked_for_the_limits_that_it_knows() -> None:
    old, new = ({key.name for key in limits.keys(limits.QOS, version)} for version in ((22, 5), (24, 11)))
    assert new - old == {"MaxTRESRunMinsPerUser", "MaxTRESRunMinsPerAccount"}


@pytest.mark.parametrize("table", [limits.QOS, limits.USER, limits.ASSOCIATION])
def test_a_name_stands_for_one_limit(table: tuple[limits.Limit, ...]) -> None:
    names = [name.lower() for limit in table for name in (limit.key.name, *limit.others)]
    assert len(set(names)) == len(names)
