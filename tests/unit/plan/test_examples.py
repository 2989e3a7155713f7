"""Plans of the shipped examples on healthy hosts: nothing is refused, and the same whoever answers first."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from support import THREE_HOSTS, cluster, facts_of, plan_input, prepared

from slurmfab.cluster.facts import Gpu
from slurmfab.core.plan.phases import packages
from slurmfab.core.plan.plan import PHASES, make_plan
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.plan.preflight import judging
from slurmfab.on_hosts.agent.core.resource import Resource

EXAMPLES = {path.stem: path.read_text() for path in sorted((Path(__file__).parents[3] / "configs").glob("*.yaml"))}
TEXTS = {"plain": THREE_HOSTS, **EXAMPLES}


def planned(example: str, *, turned: bool = False) -> PlanInput:
    """What a plan of an example is made from, on hosts that were deployed to; or with the answers in another order."""
    wanted = cluster(re.sub(r"(?m)^ids:.*\n(?: .*\n)*", "", TEXTS[example]))
    facts = facts_of(wanted, prepared)
    for host in wanted.compute_nodes:
        given = re.match(r"gpu:(?:(\w+):)?(\d+)", str(wanted.settings_of(host).get("Gres", "")))
        kind, count = (given[1] or "a100", int(given[2])) if given else ("a100", 1)
        gpus = tuple(Gpu(f"/dev/nvidia{number}", kind) for number in range(count))
        facts[host] = dataclasses.replace(facts[host], gpus=gpus)
    some = dict(reversed(facts.items())) if turned else facts
    return dataclasses.replace(plan_input(wanted, some), power_password="x", mail_password="x", stamp="x")


@pytest.mark.parametrize("example", TEXTS)
def test_every_phase_and_host_has_resources_or_none(example: str) -> None:
    there = planned(example)
    for host in there.cluster.hosts:
        for phase in PHASES:
            found = phase.resources(there, host)
            assert isinstance(found, tuple), (phase.name, host)
            assert all(isinstance(one, Resource) for one in found), (phase.name, host)
        assert all(packages.wanted(there, host))


@pytest.mark.parametrize("example", TEXTS)
def test_a_plan_is_the_same_whichever_host_answers_first(example: str) -> None:
    there, turned = planned(example), planned(example, turned=True)
    assert make_plan(turned, there.cluster.hosts) == make_plan(there, there.cluster.hosts)


@pytest.mark.parametrize("example", TEXTS)
def test_healthy_hosts_have_nothing_against_it(example: str) -> None:
    there = planned(example)
    assert judging.left_out(there.cluster, there.lock, there.facts, ()) == {}
    judging.refuse_unfit(there, there.cluster.hosts, ())
