"""The log of slurmd, quoted for a node that is not ready."""

from __future__ import annotations

from support import FakeHosts, cluster, facts_of, run_over

from slurmfab.base.errors import HostFailed
from slurmfab.core.engine.phase_run import MOST, quote_logs
from slurmfab.core.engine.report import Step
from slurmfab.on_hosts.agent.core.resource import Outcome
from slurmfab.on_hosts.agent.nodes.registered import SEE_LOG

QUOTED = "The log of its slurmd says: error: slurmd of n1 cannot | error: so it ends"


def test_a_node_when_one_of_its_outcomes_leads_to_the_log_then_is_asked_for_that() -> None:
    hosts = FakeHosts(facts_of(cluster()))
    run = run_over(hosts, cluster())
    bad = Step("slurmd", "n1", (Outcome("a:b", "ok"), Outcome("node:n1", "failed", message=f"down. {SEE_LOG}.")))
    other = Step("slurmd", "n2", (Outcome("node:n2", "failed", message="down."),))
    quoted, same = quote_logs(run, (bad, other), ())
    assert quoted.outcomes[1].message == f"down. {QUOTED}."
    assert same == other
    assert [host for host, _ in hosts.requests] == ["n1"]
    assert quote_logs(run, (bad,), ("n1",)) == (bad,)


def test_some_nodes_that_are_not_ready_are_asked_and_neither_busy_nor_lost_ones() -> None:
    wanted = cluster('cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: "n[1-40]"}]\n')
    run = run_over(FakeHosts(facts_of(wanted)), wanted, failed_hosts={"n2": HostFailed("n2", "x")})
    bad = tuple(
        Step("slurmd", f"n{number}", (Outcome("a:b", "failed", message=f"down. {SEE_LOG}."),))
        for number in range(1, 41)
    )
    told = quote_logs(run, bad, ("n1",))
    asked = [step.host for step in told if "The log of its slurmd says" in step.outcomes[0].message]
    assert asked == [f"n{number}" for number in range(3, 3 + MOST)]
    assert [step.host for step in told] == [step.host for step in bad]
    silent = run_over(FakeHosts({}), wanted)
    assert quote_logs(silent, bad[:1], ()) == bad[:1]
    assert quote_logs(silent, (), ()) == ()
