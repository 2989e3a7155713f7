"""A change of who may log in: kept when another login has passed it, taken back when not."""

from __future__ import annotations

import pytest
from support import FakeHosts, cluster, facts_of, prepared, run_over

from slurmfab.base.errors import AgentFailed
from slurmfab.core.engine.node_changes import apply_proved_step
from slurmfab.on_hosts.agent.core.resource import CHANGED, FAILED, OK
from slurmfab.on_hosts.agent.people.node_logins import NodeLogins
from slurmfab.on_hosts.agent.services.login_guard import LoginGuard

CLOSED = NodeLogins(("root",))
ID = CLOSED.id


KEPT, LEFT = LoginGuard(proved=True).id, LoginGuard(proved=False).id


@pytest.mark.parametrize(
    ("wrong", "locked_out", "status", "kinds", "says"),
    [
        ({ID, KEPT}, set(), CHANGED, ["node-logins", "login-guard"], "another login has passed it"),
        ({ID}, set(), FAILED, ["node-logins", "login-guard"], "the host has taken it back before that"),
        ({ID}, {"n1"}, FAILED, ["node-logins", "login-guard"], "sshd refused the login. So the host has what it had"),
        (set(), {"n1"}, OK, ["node-logins"], ""),
        ({LEFT}, {"n1"}, OK, ["node-logins"], ""),
    ],
)
def test_a_changed_host_is_logged_in_to_again_and_told_what_came_of_it(
    wrong: set[str], locked_out: set[str], status: str, kinds: list[str], says: str
) -> None:
    hosts = FakeHosts(facts_of(cluster(), prepared), wrong={"n1": wrong}, locked_out=locked_out)
    step = apply_proved_step(run_over(hosts, cluster()), "node logins", "n1", (LoginGuard(proved=False), CLOSED))
    assert (step.outcomes[1].status, says in step.outcomes[1].message) == (status, True)
    asked = [one for host, request in hosts.requests if host == "n1" for one in request["resources"]][1:]
    assert [one["kind"] for one in asked] == kinds
    proofs = [one["proved"] for one in asked if "proved" in one]
    assert proofs == [not locked_out] * (len(kinds) - 1)


def test_a_host_that_is_lost_before_the_end_of_its_guard_has_its_change_in_the_run() -> None:
    hosts = FakeHosts(facts_of(cluster(), prepared), wrong={"n1": {ID}}, losing={"n1": 2})
    run = run_over(hosts, cluster())
    with pytest.raises(AgentFailed):
        apply_proved_step(run, "node logins", "n1", (CLOSED,))
    assert {outcome.id for step in run.steps for outcome in step.outcomes} >= {ID}
