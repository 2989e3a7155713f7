"""The log of slurmd, quoted for a node that is not ready."""

from __future__ import annotations

from support import FakeHosts, cluster, facts_of, run_over

from slurmfab.core.engine.node_errors import quote_logs
from slurmfab.core.engine.report import Step
from slurmfab.on_hosts.agent.core.resource import Outcome
from slurmfab.on_hosts.agent.nodes.registered import SEE_LOG

QUOTED = "The log of its slurmd says: error: slurmd of n1 cannot | error: so it ends"


def test_a_node_when_one_of_its_outcomes_leads_to_the_log_then_is_asked_for_that() -> None:
    run = run_over(FakeHosts(facts_of(cluster())), cluster())
    bad = Step("slurmd", "n1", (Outcome("a:b", "ok"), Outcome("node:n1", "failed", message=f"down. {SEE_LOG}.")))
    other = Step("slurmd", "n2", (Outcome("node:n2", "failed", message="down."),))
    quoted, same = quote_logs(run, (bad, other), ())
    assert quoted.outcomes[1].message == f"down. {QUOTED}."
    assert same == other
    assert quote_logs(run, (bad,), ("n1",)) == (bad,)
