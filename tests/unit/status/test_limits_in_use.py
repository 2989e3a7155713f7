"""Limits and their use from what slurmctld shows."""

from __future__ import annotations

import pytest
from report_data import ASSOCIATIONS

from slurmfab.core.status.limits_in_use import Limit, LimitedUse, parse


def test_associations_and_qos_are_read_with_their_limits_and_use() -> None:
    running = {"running jobs": 2.0, "CPUs": 12.0, "MiB of memory": 2048.0, "GPUs": 4.0}
    assert parse(ASSOCIATIONS) == (
        LimitedUse("root", shares=0.0, usage=1.0, running=running),
        LimitedUse(
            "physics", parent="root", shares=0.25, usage=0.75, running=running,
            limits=(
                Limit("GrpSubmitJobs", "submitted jobs", 2, 10),
                Limit("GrpTRES", "CPUs", 12, 16),
                Limit("GrpTRES", "MiB of memory", 2048, 4096),
                Limit("GrpTRES", "GPUs", 4, 4),
                Limit("GrpTRESMins", "CPU hours", 95, 100),
            ),
        ),
        LimitedUse(
            "physics", "ada", shares=1.0, usage=1.0, running=running, limits=(Limit("MaxJobs", "running jobs", 2, 5),)
        ),
        LimitedUse(
            qos="normal", running={"running jobs": 2.0, "CPUs": 12.0},
            limits=(Limit("GrpJobs", "running jobs", 2, 100),),
        ),
    )  # fmt: skip


def test_a_limit_of_an_account_on_its_users_is_no_limit_of_the_account() -> None:
    assert "MaxJobs" not in {limit.name for one in parse(ASSOCIATIONS) if not one.user for limit in one.limits}


@pytest.mark.parametrize(
    "shown", ["", "slurm_load_assoc_mgr_info error", "Current Association Manager state\n\nNo assocs\n"]
)
def test_without_associations_nothing_is_read(shown: str) -> None:
    assert parse(shown) == ()


@pytest.mark.parametrize(("limit", "part"), [(4, 0.5), (2, 1.0), (0, 1.0), (1, 2.0)])
def test_the_part_that_is_used_of_a_limit(limit: float, part: float) -> None:
    assert Limit("GrpJobs", "running jobs", 2, limit).part == part
