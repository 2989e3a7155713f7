"""Plans as tables: each file in plans/ has a cluster and facts, and the resources that follow from them.

A case says `facts` (of the hosts that answer; `fresh`, `prepared`, or what differs from those), `known` (of the hosts
that answered before), `hosts` (to plan for), and what is expected: `plan` (all resource ids of a host, by phase),
`order` (which phases have which hosts), and `details` (fields of a resource, what its text says and hides).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import THREE_HOSTS, cluster, facts_of, host_facts, plan_input, prepared

import slurmfab
from slurmfab.cluster.facts import Gpu, HostFacts, cgroup_from
from slurmfab.core.plan.plan import PHASES, Plan, make_plan
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource

PACKAGE = Path(slurmfab.__file__).parent
PHASE_FILES = sorted((PACKAGE / "core" / "plan" / "phases").glob("*.py"))
CASES = {
    path.stem: yaml.safe_load(path.read_text()) for path in sorted((Path(__file__).parent / "cases").glob("*.yaml"))
}


def facts_from(host: str, said: Any) -> HostFacts:
    fields = dict({"like": said} if isinstance(said, str) else said)
    make = {"fresh": host_facts, "prepared": prepared}[fields.pop("like", "fresh")]
    if "cgroup" in fields:
        fields["cgroup"] = cgroup_from(fields["cgroup"])
    fields["gpus"] = tuple(Gpu(**gpu) for gpu in fields.get("gpus", ()))
    return make(host, **fields)


def plan_input_from(case: dict[str, Any]) -> PlanInput:
    known, facts = (
        {host: facts_from(host, said) for host, said in case.get(key, {}).items()} for key in ("known", "facts")
    )
    return plan_input(cluster(case.get("cluster", THREE_HOSTS)), facts, known or None)


def plan_from(case: dict[str, Any]) -> Plan:
    wanted = plan_input_from(case)
    return make_plan(wanted, case.get("hosts", wanted.facts))


def ids(resources: Iterable[Resource]) -> list[str]:
    return [resource.id for resource in resources]


def text_of(resource: Any) -> str:
    """What a resource would write."""
    if hasattr(resource, "files"):
        return "\n".join(text for file in resource.files for text in file[:2])
    return str(resource.content)


def plain(value: Any) -> Any:
    """A field's value as YAML has it."""
    return [plain(item) for item in value] if isinstance(value, tuple) else value


@pytest.mark.parametrize(("case", "host"), [(name, host) for name in CASES for host in CASES[name].get("plan", ())])
def test_a_host_gets_these_resources_in_each_phase(case: str, host: str) -> None:
    found = {one.phase.name: ids(one.resources[host]) for one in plan_from(CASES[case]).phases if host in one.resources}
    assert found == CASES[case]["plan"][host]


@pytest.mark.parametrize("case", [name for name in CASES if "order" in CASES[name]])
def test_from_slurm_conf_on_the_phases_have_these_hosts_in_this_order(case: str) -> None:
    order = [[one.phase.name, " ".join(one.resources)] for one in plan_from(CASES[case]).phases if one.resources]
    names = [name for name, _ in order]
    assert order[names.index("munge") + 1 :] == CASES[case]["order"]


@pytest.mark.parametrize(
    ("case", "detail"),
    [
        pytest.param(name, detail, id=f"{name}-{detail['host']}-{detail.get('resource', detail.get('lacks'))}")
        for name in CASES
        for detail in CASES[name].get("details", ())
    ],
)
def test_a_resource_holds_this(case: str, detail: dict[str, Any]) -> None:
    found = [
        resource
        for phase, resource in plan_from(CASES[case]).of_host(detail["host"])
        if detail.get("phase", phase.name) == phase.name
    ]
    if "lacks" in detail:
        assert found
        assert detail["lacks"] not in ids(found)
        return
    (resource,) = (resource for resource in found if resource.id == detail["resource"])
    fields = detail.get("fields", {})
    assert {name: plain(getattr(resource, name)) for name in fields} == fields
    for words in detail.get("says", ()):
        assert words in text_of(resource)
    for words in detail.get("hides", ()):
        assert words not in text_of(resource)


@pytest.mark.parametrize("case", CASES)
def test_a_plan_made_twice_is_equal_and_leaves_its_situation_as_it_was(case: str) -> None:
    wanted = plan_input_from(CASES[case])
    names = tuple(wanted.facts)
    before = repr(wanted)
    assert make_plan(wanted, names) == make_plan(plan_input_from(CASES[case]), names)
    assert repr(wanted) == before


@pytest.mark.parametrize("case", [name for name in CASES if len(CASES[name]["facts"]) > 1])
def test_slurms_files_are_the_same_on_every_host(case: str) -> None:
    plan = plan_from(CASES[case])
    texts = {
        text_of(resource) for host in plan.hosts for _, resource in plan.of_host(host) if resource.kind == "slurm-files"
    }
    assert len(texts) == 1


def test_slurms_files_are_the_same_whoever_answers() -> None:
    everybody = facts_of(cluster(), prepared)
    some = {host: fact for host, fact in everybody.items() if host != "n2"}
    assert plan_input(cluster(), some, everybody).files == plan_input(cluster(), everybody).files


@pytest.mark.parametrize(
    "module",
    ["core/plan/plan.py", "core/plan/plan_input.py", "cluster/inventory/system_ids.py"]
    + [f"core/plan/phases/{path.name}" for path in PHASE_FILES],
)
def test_what_makes_a_plan_imports_nothing_that_reads_or_asks(module: str) -> None:
    tree = ast.parse((PACKAGE / module).read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    asking = {
        "os",
        "pathlib",
        "socket",
        "subprocess",
        "time",
        "random",
        "fabric",
        "paramiko",
        "slurmfab.hosts.transport",
    }
    assert imported & asking == set()


def test_preparing_phases_come_before_all_others() -> None:
    assert sorted(PHASES, key=lambda phase: not phase.prepares) == list(PHASES)


def test_names_of_phases_are_unique() -> None:
    assert len({phase.name for phase in PHASES}) == len(PHASES)


def test_a_plan_tells_its_hosts_in_the_order_they_were_given() -> None:
    assert make_plan(plan_input_from(CASES["fresh"]), ("n2", "c1")).hosts == ("n2", "c1")


def test_a_plan_never_shows_the_munge_key() -> None:
    assert "c2VjcmV0" not in repr(plan_from(CASES["in_place"]))
