"""What is said of things that are as wanted; and what hosts are asked about people."""

from __future__ import annotations

import io

from support import FakeHosts, cluster, facts_of, prepared, run_over

from slurmfab.agent.core.resource import Outcome
from slurmfab.agent.nodes.registered import LEFT_DRAINED
from slurmfab.engine import notices
from slurmfab.engine.progress import Progress
from slurmfab.engine.report import Step
from slurmfab.engine.requests import gather
from slurmfab.impact.approvals import Approvals

WITH_ANN = 'cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: "n[1-2]"}]\nusers: [{name: ann, groups: [ml]}]\n'


def told(*steps: Step, approvals: Approvals | None = None) -> list[str]:
    wanted = cluster(WITH_ANN)
    run = run_over(FakeHosts({}), wanted, approvals=approvals or Approvals())
    out = io.StringIO()
    run.progress = Progress(out)
    notices.tell_of_resources(run, steps)
    return out.getvalue().splitlines()


def test_a_remark_is_told_once_for_all_hosts_that_make_it() -> None:
    left = Outcome("person-gone:bob", "ok", message="bob was left as a user")
    assert told(Step("people", "n1", (left,)), Step("people", "n2", (left, Outcome("group:ann", "ok")))) == [
        "n[1-2]: bob was left as a user.",
        "fab deploy --prune removes such users; their files stay.",
    ]
    assert told(Step("people", "n1", (left,)), approvals=Approvals(prune=True)) == ["n1: bob was left as a user."]


def test_what_failed_or_changed_and_drained_nodes_are_told_elsewhere() -> None:
    outcomes = (Outcome("a:b", "failed", message="x"), Outcome("nodes:c", "ok", message=LEFT_DRAINED))
    assert told(Step("people", "n1", outcomes)) == []


def test_hosts_are_asked_about_the_people_of_the_cluster_file() -> None:
    wanted = cluster(WITH_ANN)
    hosts = FakeHosts(facts_of(wanted, prepared))
    gather(run_over(hosts, wanted), wanted.hosts)
    for _, request in hosts.requests:
        assert request["users"] == ("slurm", "munge", "ann")
        assert request["groups"] == ("ml",)


def test_exports_that_stay_for_hosts_that_failed_meanwhile_are_told_after_the_change() -> None:
    run = run_over(FakeHosts({}), cluster(WITH_ANN))
    out = io.StringIO()
    run.progress = Progress(out)
    outcomes = (Outcome("export-files:former", "ok", message="/home stays exported to n2"), Outcome("file:/x", "ok"))
    notices.tell_after_change(run, [Step("former exports", "c1", outcomes)])
    assert out.getvalue() == "c1: /home stays exported to n2.\n"
