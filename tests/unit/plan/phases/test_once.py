"""What is worked out once for a plan input, however many hosts it has."""

from __future__ import annotations

from dataclasses import replace

from support import cluster, prepared_input

from slurmfab.core.plan.phases.capability import once
from slurmfab.core.plan.plan import make_plan
from slurmfab.core.plan.plan_input import PlanInput

ASKED: list[str] = []


@once
def named(plan_input: PlanInput, more: str) -> str:
    """A value that tells each time that it is worked out."""
    ASKED.append(more)
    return f"{plan_input.stamp} {more}"


def test_a_value_is_worked_out_once_for_the_same_question_and_once_more_for_another_situation() -> None:
    ASKED.clear()
    wanted = replace(prepared_input(), stamp="ann")
    assert [named(wanted, "a"), named(wanted, "a"), named(wanted, "b")] == ["ann a", "ann a", "ann b"]
    assert named(replace(wanted, stamp="bob"), "a") == "bob a"
    assert ASKED == ["a", "b", "a"]


def test_hosts_whose_resources_are_equal_have_the_very_same_ones() -> None:
    plan = make_plan(prepared_input(), cluster().hosts)
    names, others = ({one.id: one for _, one in plan.of_host(host)} for host in ("n1", "n2"))
    assert names["user:slurm"] is others["user:slurm"]
