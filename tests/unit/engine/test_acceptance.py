"""New nodes: which are tried by a job, what becomes of those that pass, and of the others."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support import THREE_HOSTS, FakeHosts, cluster, facts_of, prepared, run_over

from slurmfab.base.errors import Unreachable
from slurmfab.cluster.inventory.lock import HostLock, Lock
from slurmfab.core.engine import acceptance
from slurmfab.core.engine.progress import Progress
from slurmfab.core.engine.report import Step
from slurmfab.core.engine.run import Run, RunHooks
from slurmfab.core.engine.summary import next_step
from slurmfab.hosts.session import Line
from slurmfab.on_hosts.agent.core.resource import CHANGED, OK, Outcome

NEW = Lock(hosts={"c1": HostLock(), "n1": HostLock(on_trial=True), "n2": HostLock(on_trial=True)})


@dataclass
class Tried(FakeHosts):
    """Hosts on which test jobs run.

    Args:
        found: by node, what its job has found; nodes that are not named have passed.
    """

    found: Mapping[str, str] = field(default_factory=dict)

    def outcomes(self, host: str, request: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
        for wanted, outcome in zip(request["resources"], super().outcomes(host, request), strict=True):
            (node, *_) = wanted["nodes"]
            if request["dry_run"] and node in self.found:
                text = self.found[node]
                changes = [{"name": node, "actual": text, "wanted": "", "diff": ""}] if text else []
                yield {**outcome, "status": "would change", "changes": changes, "message": "no word of it"}
            else:
                yield outcome


def accept(
    text: str = THREE_HOSTS, lock: Lock = NEW, chosen: tuple[str, ...] = (), **found: str
) -> tuple[Run, Tried, list[Lock]]:
    """A run that has tried its new nodes, its hosts, and the locks that it has saved."""
    wanted, saved = cluster(text), list[Lock]()
    hosts = Tried(facts_of(wanted, prepared), found=found)
    hooks = RunHooks(save_lock=lambda run: saved.append(run.inventory.lock))
    run = run_over(hosts, wanted, chosen, lock, hooks=hooks)
    acceptance.accept_new_nodes(run)
    return run, hosts, saved


def trials(hosts: Tried) -> list[Mapping[str, Any]]:
    """The requests about test jobs: the one that runs them, and the one that asks for each node."""
    return [request for _, request in hosts.requests if request["resources"]]


def test_new_nodes_that_pass_their_job_are_new_no_longer() -> None:
    run, hosts, saved = accept()
    applied, compared = trials(hosts)
    assert [(one["nodes"], one["partitions"]) for one in applied["resources"]] == [(("n1", "n2"), ())]
    assert (applied["dry_run"], compared["dry_run"]) == (False, True)
    assert [one["nodes"] for one in compared["resources"]] == [("n1",), ("n2",)]
    assert [host.on_trial for host in saved[0].hosts.values()] == [False, False, False]
    assert len(saved) == 1
    assert run.inventory.lock == saved[0]
    assert [(step.phase, step.host, step.outcomes[0].id, step.outcomes[0].status) for step in run.steps] == [
        ("trial", "n1", "trial:n1", "changed"),
        ("trial", "n2", "trial:n2", "changed"),
    ]
    assert all(0 <= step.seconds < 60 for step in run.steps)


@pytest.mark.parametrize(("found", "reason"), [("no room in /tmp", "no room in /tmp"), ("", "no word of it")])
def test_a_node_whose_job_fails_stays_new_and_is_left_out_with_the_reason(found: str, reason: str) -> None:
    run, _, saved = accept(n2=found)
    assert {name: one.on_trial for name, one in saved[0].hosts.items()} == {"c1": False, "n1": False, "n2": True}
    assert [*run.failed_hosts] == ["n2"]
    told = run.failed_hosts["n2"].reason
    assert f"trial:n2: left drained, since its test job failed: {reason}. Repair the node, then run fab deploy" in told
    assert [step.outcomes[0].status for step in run.steps] == ["changed", "failed"]


def test_nodes_that_are_not_new_or_not_of_this_run_are_not_tried() -> None:
    known = Lock(hosts={"n1": HostLock(), "n2": HostLock(on_trial=True)})
    assert accept(chosen=("c1", "n1"), lock=known)[1].requests == []
    assert accept(lock=Lock())[1].requests == []
    run, hosts, _ = accept(chosen=("c1", "n2"), lock=known)
    assert [one["nodes"] for one in trials(hosts)[0]["resources"]] == [("n2",)]
    assert run.steps


def test_a_new_node_that_was_lost_is_not_tried() -> None:
    wanted = cluster()
    hosts = Tried(facts_of(wanted, prepared))
    run = run_over(hosts, wanted, (), NEW, failed_hosts={"n1": Unreachable("n1", "off.")})
    acceptance.accept_new_nodes(run)
    assert [one["nodes"] for one in trials(hosts)[0]["resources"]] == [("n2",)]
    assert run.inventory.lock.hosts["n1"].on_trial


def test_without_a_partition_of_slurmfabs_own_each_job_has_one_of_its_node() -> None:
    partitions = """\
own_partition: false
partitions:
  - {PartitionName: one, Nodes: n1}
  - {PartitionName: two, Nodes: n2}
"""
    _, hosts, _ = accept(THREE_HOSTS + partitions)
    assert trials(hosts)[0]["resources"][0]["partitions"] == ("one", "two")


@dataclass
class Proving(FakeHosts):
    """Hosts on which batch jobs of a user run.

    Args:
        user: who has the jobs; empty where the controller knows nobody.
        ends: by node, what came of the job: how, why, and the path of its output.
        strangers: nodes that do not know the user.
    """

    user: str = "ann"
    ends: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)
    strangers: tuple[str, ...] = ()

    def call(
        self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None] = lambda _: None
    ) -> tuple[Line, ...]:
        del heard
        assert request["op"] == "user-jobs"
        self.requests.append((host, request))
        user = "" if host in self.strangers else self.user
        output = "execve(): /srv/job00001/slurm_script: Permission denied" if "path" in request else ""
        ends = {} if "path" in request else {node: list(end) for node, end in self.ends.items()}
        return ({"user_jobs": {"user": user, "ends": ends, "output": output}},)


USERS = "users: [{name: ann}, {name: bob}]\n"
DATABASE = "database: {host: c1}\naccounts: [{name: physics}]\nusers: [{name: ann, accounts: [physics]}, {name: bob}]\n"
PATH = "/tmp/slurmfab-check-0a1b2c-0a1b2c3d"


def proved(hosts: Proving, *changed: str, text: str = THREE_HOSTS + USERS) -> tuple[Run, str]:
    """A run that has changed something on some hosts, and then tried jobs of a user; and what it has told."""
    out = io.StringIO()
    run = run_over(hosts, cluster(text), progress=Progress(out))
    run.record_steps(*(Step("files", host, (Outcome("file:/x", CHANGED),)) for host in changed))
    run.record_steps(Step("files", "n2", (Outcome("file:/y", OK),)))
    acceptance.prove_user_jobs(run)
    run.progress.end()
    return run, out.getvalue()


@pytest.mark.parametrize(
    ("changed", "text", "users", "nodes"),
    [
        ((), THREE_HOSTS + USERS, [], []),
        (("n1",), THREE_HOSTS + USERS, ["ann", "bob", "nobody"], ["n1"]),
        (("c1",), THREE_HOSTS, ["nobody"], ["n1", "n2"]),
        (("c1",), THREE_HOSTS + DATABASE, ["ann"], ["n1", "n2"]),
        (("c1",), THREE_HOSTS + "database: {host: c1}\naccounts: [{name: physics}]\n", [], []),
    ],
)
def test_jobs_of_a_user_are_tried_on_nodes_that_a_run_may_have_changed_as_one_who_may_run_them(
    changed: tuple[str, ...], text: str, users: list[str], nodes: list[str]
) -> None:
    hosts = Proving({})
    proved(hosts, *changed, text=text)
    asked = [one for _, request in hosts.requests for one in request["users"]]
    assert [user for user, _ in asked] == users
    assert all([node for _, some in rows for node in some] == nodes for _, rows in asked)


def test_a_job_of_a_user_that_fails_is_a_failure_of_the_run_with_host_reason_and_what_to_try() -> None:
    hosts = Proving({}, ends={"n1": ("ran", "", ""), "n2": ("failed", "the batch job 7 of ann is FAILED", PATH)})
    run, _ = proved(hosts, "c1")
    report = run.report()
    ((step,),) = ([one for one in run.steps if one.has_failed],)
    assert (report.exit_code, step.phase, step.host) == (1, "user jobs", "n2")
    assert step.outcomes[0].message == (
        "the batch job 7 of ann is FAILED: execve(): /srv/job00001/slurm_script: Permission denied. "
        "Users have to be able to read their scripts in SlurmdSpoolDir: namei -l /srv there. "
        "To try again: fab check-cluster --only jobs."
    )
    assert hosts.requests[-1] == ("n2", {"op": "user-jobs", "user": "ann", "path": PATH})
    assert next_step(report, Path("cluster.yaml")).startswith(
        "Next: fix the cause, then: fab check-cluster --only jobs"
    )


@pytest.mark.parametrize(
    ("hosts", "told"),
    [
        (
            Proving({}, ends={"n1": ("waited", "it has waited", ""), "n2": ("waited", "it has waited", "")}),
            "n[1-2]: no batch job of a user was tried there (it has waited); later: fab check-cluster --only jobs.\n",
        ),
        (Proving({}, user="nobody", ends={"n1": ("refused", "Access denied", "")}), ""),
        (Proving({}, user="", ends={}), ""),
        (Proving({}, user="root", ends={"n1": ("failed", "a lie", PATH)}), ""),
        (Proving({}, ends={"n1": ("failed", "no such user", PATH)}, strangers=("n1",)), ""),
    ],
)
def test_jobs_of_a_user_that_could_not_be_tried_are_no_failure_and_told_where_that_is_news(
    hosts: Proving, told: str
) -> None:
    run, words = proved(hosts, "c1")
    assert run.report().exit_code == 0
    assert words == told
