"""Who may change a cluster: one run at a time, which has the controller's lock before it changes anything anywhere."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from support import MUNGE_KEY, FakeHosts, cluster, facts_of, prepared, run_over

from slurmfab.agent.absent import Absent
from slurmfab.asking import ask_ahead, claim, gather, request_apply
from slurmfab.deploy import deploy
from slurmfab.errors import AnotherRun, DeployFailed, SlurmfabError
from slurmfab.ssh.session import Line

HOLDER = "ann@laptop since 2026-11-21 09:00:00 +0100, fab deploy"


@dataclass
class LockedHosts(FakeHosts):
    """Hosts whose locks others may have.

    Args:
        held: by host, who has its lock.
        idle: how long ago somebody else had the controller's, `None` for never.
    """

    held: dict[str, str] = field(default_factory=dict)
    idle: float | None = None

    def call(
        self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None] = lambda _: None
    ) -> tuple[Line, ...]:
        answer = super().call(host, request, heard)
        if request["op"] == "apply" and not request["dry_run"]:
            if host in self.held:
                raise AnotherRun(host, self.held[host])
            if not request["resources"]:
                return ({"lock": {"idle": self.idle}},)
        return answer


def in_place(**more: Any) -> LockedHosts:
    """Three hosts that are as wanted, but for what is said."""
    facts = facts_of(cluster(), prepared)
    facts["c1"] = dataclasses.replace(facts["c1"], munge_key=MUNGE_KEY)
    return LockedHosts(facts, **more)


def changes(hosts: FakeHosts) -> list[str]:
    """The hosts that were told to change anything, beginning with claims."""
    return [host for host, request in hosts.requests if request["op"] == "apply" and not request["dry_run"]]


def test_a_run_claims_the_controller_before_it_changes_anything_anywhere() -> None:
    hosts = in_place(wrong={"n1": {"service:slurmd"}, "n2": {"service:slurmd"}})
    deploy(run_over(hosts, cluster()))
    assert changes(hosts)[0] == "c1"
    assert hosts.of("c1").count("claim") == 1


def test_a_run_without_differences_claims_nothing_and_is_not_kept_from_its_end_by_another() -> None:
    hosts = in_place(held={"c1": HOLDER})
    assert deploy(run_over(hosts, cluster())).exit_code == 0
    assert changes(hosts) == []


def test_a_second_run_is_told_who_is_at_work_and_changes_nothing_anywhere() -> None:
    hosts = in_place(wrong={host: {"service:slurmd"} for host in ("n1", "n2")}, held={"c1": HOLDER})
    run = run_over(hosts, cluster())
    with pytest.raises(SlurmfabError) as refused:
        deploy(run)
    assert f"c1: another run is at work on this cluster: {HOLDER}. Nothing was changed" in str(refused.value)
    assert refused.value.exit_code == 1
    assert changes(hosts) == ["c1"]
    assert (run.lost, run.steps, run.is_claimed) == ({}, [], False)


def test_a_host_on_which_an_older_run_still_ends_something_is_left_out_alone() -> None:
    hosts = in_place(wrong={host: {"service:slurmd"} for host in ("n1", "n2")}, held={"n1": HOLDER})
    report = deploy(run_over(hosts, cluster()))
    assert report.lost["n1"].reason == f"another run is at work here: {HOLDER}."
    assert [(step.phase, step.host) for step in report.steps] == [("slurmd", "n2")]
    assert report.exit_code == 3


def test_who_is_at_work_is_told_with_the_command() -> None:
    hosts = in_place()
    claim(run_over(hosts, cluster()))
    assert hosts.requests[0][1]["who"].endswith(", fab deploy")


@pytest.mark.parametrize(
    ("idle", "asks_again"),
    [(None, False), (0.0, True), (30.0, True), (100.0, False)],
    ids=["never", "now", "since", "before"],
)
def test_hosts_are_asked_again_when_another_run_was_at_work_since_they_were_asked(
    idle: float | None, asks_again: bool
) -> None:
    run = run_over(in_place(idle=idle), cluster())
    run.asked = time.monotonic() - 60
    assert claim(run) is asks_again


def test_a_run_that_finds_another_one_just_gone_looks_again_and_then_changes_what_is_left() -> None:
    hosts = in_place(wrong={"n1": {"service:slurmd"}}, idle=0.0)
    deploy(run_over(hosts, cluster()))
    assert hosts.of("n1") == ["facts", "compare", "facts", "compare", "apply service"]
    assert hosts.of("c1")[:5] == ["facts", "compare", "claim", "facts", "compare"]


def test_whoever_changes_a_host_outside_of_a_deployment_has_claimed_the_controller_as_well() -> None:
    hosts = in_place()
    run = run_over(hosts, cluster())
    for _ in range(2):
        request_apply(run, "n1", [Absent("/etc/slurm/old.conf")], dry_run=False)
    assert changes(hosts) == ["c1", "n1", "n1"]
    hosts.held["c1"] = HOLDER
    with pytest.raises(SlurmfabError, match="another run is at work"):
        request_apply(run_over(hosts, cluster()), "n1", [Absent("/etc/slurm/old.conf")], dry_run=False)
    assert changes(hosts) == ["c1", "n1", "n1", "c1"]


def test_python3_is_installed_nowhere_while_the_controller_is_not_known_to_answer() -> None:
    hosts = in_place(without_python={"n1", "n2"})
    del hosts.facts["c1"]
    with pytest.raises(DeployFailed, match="c1 is the controller"):
        gather(run_over(hosts, cluster()), ("c1", "n1", "n2"))
    assert hosts.installed == []


def test_python3_is_installed_on_the_controller_first_and_then_only_if_no_other_run_is_at_work() -> None:
    hosts = in_place(without_python={"c1", "n1"})
    assert set(gather(run_over(hosts, cluster()), ("c1", "n1", "n2"))) == {"c1", "n1", "n2"}
    assert hosts.installed == ["c1", "n1"]
    hosts = in_place(without_python={"c1", "n1"}, held={"c1": HOLDER})
    with pytest.raises(SlurmfabError, match="another run is at work"):
        gather(run_over(hosts, cluster()), ("c1", "n1", "n2"))
    assert hosts.installed == ["c1"]


def test_hosts_when_asked_ahead_are_not_waited_for_and_not_asked_again() -> None:
    answering = threading.Event()

    class SlowHosts(LockedHosts):
        def call(
            self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None] = lambda _: None
        ) -> tuple[Line, ...]:
            answering.wait(60)
            return super().call(host, request, heard)

    hosts = SlowHosts(in_place().facts)
    run = run_over(hosts, cluster())
    ask_ahead(run)
    answering.set()
    assert list(gather(run, run.hosts)) == ["c1", "n1", "n2"]
    assert sorted(host for host, _ in hosts.requests) == ["c1", "n1", "n2"]
    gather(run, run.hosts)
    assert len(hosts.requests) == 6


def test_a_host_that_is_off_when_asked_ahead_is_lost_once_its_answer_is_waited_for() -> None:
    facts = dict(in_place().facts)
    del facts["n2"]
    run = run_over(LockedHosts(facts), cluster())
    ask_ahead(run)
    assert not run.lost
    assert list(gather(run, run.hosts)) == ["c1", "n1"]
    assert list(run.lost) == ["n2"]
