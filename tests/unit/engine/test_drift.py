"""The five kinds of drift, told apart by what a survey found and what the lock holds."""

from __future__ import annotations

import dataclasses

import pytest
from support import SMALL, THREE_HOSTS, cluster, facts_of, plan_input, prepared

from slurmfab.base.json_output import as_json
from slurmfab.cluster.facts import HostFacts
from slurmfab.core.engine import drift
from slurmfab.core.engine.report import DIFFERS, Report, Step, describe
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import OK, WOULD_CHANGE, Change, Outcome
from slurmfab.on_hosts.agent.nodes.registered import LEFT_TO_A_PERSON

KEY = "file:/etc/munge/munge.key"
STALE = Change("loaded", "older slurm.conf", "as on disk")


def outcome(name: str, *changes: Change) -> Outcome:
    return Outcome(name, WOULD_CHANGE if changes else OK, changes)


def content(name: str = "content") -> Change:
    return Change(name, diff="+a")


def deployed(**of_n1: object) -> PlanInput:
    """Three hosts that were deployed to, the first node with what is said of it now."""
    known = facts_of(cluster(), prepared)
    return plan_input(cluster(), {**known, "n1": prepared("n1", **of_n1)}, known)


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (outcome("file:/etc/x", content()), drift.CHANGED_FILE),
        (outcome("file:/etc/x", Change("mode", "0600", "0644")), drift.CHANGED_FILE),
        (outcome(KEY, Change("content", wanted="differs")), drift.CHANGED_FILE),
        (outcome("munge-key:/etc/munge/munge.key", Change("mode", "0440", "0400")), drift.CHANGED_FILE),
        (outcome("block:/etc/hosts#hosts", content()), drift.CHANGED_FILE),
        (outcome("slurm-files:/etc/slurm", content("slurm.conf")), drift.CHANGED_FILE),
        (outcome("slurm-files:/etc/slurm", Change("leftovers", ".slurmfab-x")), ""),
        (outcome("absent:/etc/slurm/gres.conf", Change("file", "there")), drift.CHANGED_FILE),
        (outcome("service:slurmd", STALE), drift.OLDER_FILE),
        (outcome("service:slurmctld", Change("enabled", "no", "yes"), STALE), drift.OLDER_FILE),
        (outcome("service:slurmd", Change("loaded", "slurm.conf before its change", "as on disk")), ""),
        (outcome("service:munge", Change("loaded", "older munge.key", "as on disk")), drift.KEY_NOT_LOADED),
        (outcome("service:munge", Change("running", "failed", "yes")), ""),
        (outcome("service:slurmctld", Change("ended by itself", "2 times", "no")), drift.CRASHED),
        (outcome("service:slurmd", STALE, Change("ended by itself", "1 time", "no")), drift.OLDER_FILE),
        (outcome("packages:munge", Change("munge", "", "installed")), ""),
        (outcome("user:slurm", Change("uid", "", "64030")), ""),
        (outcome("file:/etc/x"), ""),
    ],
)
def test_a_difference_has_this_kind_of_drift(found: Outcome, kind: str) -> None:
    assert drift.drift_kind(found) == kind
    (step,) = drift.with_drift(deployed(), [Step("phase", "n1", (found,))])
    assert step.outcomes == (dataclasses.replace(found, drift=kind),)


def test_differences_on_a_host_without_packages_are_not_drift() -> None:
    steps = [
        Step("packages", "n1", (outcome("packages:munge,slurmd", Change("slurmd", "", "installed")),)),
        Step("slurm.conf", "n1", (outcome("slurm-files:/etc/slurm", content("slurm.conf")),)),
        Step("slurm.conf", "n2", (outcome("slurm-files:/etc/slurm", content("slurm.conf")),)),
    ]
    told = drift.with_drift(deployed(), steps)
    assert [(step.host, step.outcomes[0].drift) for step in told] == [
        ("n1", ""),
        ("n1", ""),
        ("n2", drift.CHANGED_FILE),
    ]


@pytest.mark.parametrize(("key", "drifted"), [("", ""), ("ssh-ed25519 key+of+n1 slurm@n1", drift.CHANGED_FILE)])
def test_differences_on_a_host_that_never_had_a_key_of_slurm_are_not_drift(key: str, drifted: str) -> None:
    known = {**facts_of(cluster(), prepared), "n1": prepared("n1", public_key=key)}
    now = plan_input(cluster(), {**known, "n1": prepared("n1", public_key="")}, known)
    steps = [
        Step("ssh keys", "n1", (outcome("ssh-key:slurm", Change("private key", "", "0600 slurm:slurm")),)),
        Step("hosts file", "n1", (outcome("block:/etc/hosts#hosts", content()),)),
    ]
    assert drift.with_drift(now, steps)[1].outcomes[0].drift == drifted


def test_a_replaced_key_is_a_changed_file_and_not_a_key_that_is_not_loaded() -> None:
    stale = outcome("service:munge", Change("loaded", "older munge.key", "as on disk"))
    replaced = Step("munge", "n1", (outcome(KEY, Change("content", wanted="differs")), stale))
    right = Step("munge", "n2", (outcome(KEY), stale))
    told = drift.with_drift(deployed(), [replaced, right])
    assert [[one.drift for one in step.outcomes] for step in told] == [
        [drift.CHANGED_FILE, ""],
        ["", drift.KEY_NOT_LOADED],
    ]


@pytest.mark.parametrize(
    ("differing", "drifted"),
    [
        ({"c1": "a", "n1": "a", "n2": "a"}, []),
        ({"c1": "a", "n1": "a", "n2": "b"}, ["n2"]),
        ({"c1": "a"}, ["c1"]),
        ({"n1": "a", "n2": "a"}, ["n1", "n2"]),
    ],
)
def test_a_file_that_differs_as_on_the_controller_is_not_drift(differing: dict[str, str], drifted: list[str]) -> None:
    name = "slurm-files:/etc/slurm"
    found = {host: outcome(name, Change("slurm.conf", diff=diff)) for host, diff in differing.items()}
    steps = [Step("slurm.conf", host, (found.get(host, outcome(name)),)) for host in cluster().hosts]
    told = drift.with_drift(deployed(), steps)
    assert [step.host for step in told if step.outcomes[0].drift] == drifted


def test_other_hardware_is_shown_with_both_values_and_advice() -> None:
    less = dataclasses.replace(SMALL, RealMemory=8000)
    steps = [Step("users", host, (outcome("user:slurm"),)) for host in cluster().hosts]
    *_, step = drift.with_drift(deployed(hardware=less), steps)
    (found,) = step.outcomes
    assert (step.host, step.phase, found.id, found.status) == ("n1", "hardware", "hardware", DIFFERS)
    assert (found.changes, found.drift) == ((Change("RealMemory", "8000", "16000"),), drift.OTHER_HARDWARE)
    assert found.message == (
        "deploy does not change this: repair the node; or, if this is intended: fab accept-hardware n1."
    )
    assert step.differs
    assert Report("plan", "lab", ("n1",), (step,), {}, 0.0).count(WOULD_CHANGE) == 0


def test_other_hardware_of_a_controller_is_accepted_as_that_of_others_is() -> None:
    both = cluster("cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: c1}]\n")
    known = facts_of(both, prepared)
    now = plan_input(both, {"c1": prepared("c1", hardware=dataclasses.replace(SMALL, CPUs=2))}, known)
    (step,) = drift.other_hardware(now, ["c1"])
    assert step.outcomes[0].message.endswith("fab accept-hardware c1.")


def test_hardware_of_other_roles_and_of_hosts_outside_the_run_is_not_compared() -> None:
    less = dataclasses.replace(SMALL, CPUs=2)
    known = facts_of(cluster(), prepared)
    now: dict[str, HostFacts] = {host: dataclasses.replace(fact, hardware=less) for host, fact in known.items()}
    found = drift.other_hardware(plan_input(cluster(THREE_HOSTS), now, known), ["c1", "n2"])
    assert [step.host for step in found] == ["n2"]


def test_drift_has_a_key_of_its_own_in_json() -> None:
    step = drift.with_drift(deployed(), [Step("slurmd", "n1", (outcome("service:slurmd", STALE),))])[0]
    plain = as_json(Report("plan", "lab", ("n1",), (step,), {}, 0.0))
    assert plain["steps"][0]["outcomes"][0]["drift"] == "older file loaded"


def test_nodes_that_no_deployment_resumes_then_are_no_change_that_a_plan_promises() -> None:
    left, late = Change(LEFT_TO_A_PERSON, "n2: drained (Prolog error)"), Change("n1", "down", "ready")
    for changes, statuses in (((left,), [DIFFERS]), ((late, left), [WOULD_CHANGE, DIFFERS]), ((late,), [WOULD_CHANGE])):
        step = Step("nodes", "c1", (Outcome("slurm-nodes:n1,n2", WOULD_CHANGE, changes),))
        told = drift.left_out(step)
        assert [one.status for one in told.outcomes] == statuses
    assert describe(Outcome("slurm-nodes:n2", DIFFERS, (left,), drift.NODE_ADVICE)) == (
        "slurm-nodes:n2: differs",
        "  out of service until a person resumes: n2: drained (Prolog error)",
        "  deploy does not change this; when the reason is fixed: fab resume NODE (what a person has set: --any).",
    )
