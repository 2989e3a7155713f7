"""What is recommended when Slurm does not run a job."""

from __future__ import annotations

import pytest

from slurmfab.commands.checks import waiting
from slurmfab.commands.checks.waiting import ANOTHER_USER, LOGS, repair_of


@pytest.mark.parametrize(
    ("message", "repair"),
    [
        ("Unable to allocate resources: Invalid user id", ANOTHER_USER),
        ("Batch job submission failed: Invalid user id", ANOTHER_USER),
        ("Required partition not available (inactive or drain)", "scontrol update PartitionName=main State=UP"),
        ("Invalid account or account/partition combination specified", LOGS),
    ],
    ids=["srun-of-root", "sbatch-of-root", "closed-partition", "anything-else"],
)
def test_a_job_that_slurm_refuses_when_it_is_told_then_the_repair_fits_the_words(message: str, repair: str) -> None:
    assert repair_of("main", message) == repair


@pytest.mark.parametrize("reason", ["Prolog", "Cleaning", "", "Resources"])
def test_a_job_whose_nodes_are_made_ready_waits_for_nodes_and_does_not_fail(reason: str) -> None:
    assert waiting.is_for_nodes(reason)
    assert not waiting.is_limit(reason)
