"""Users that are moved to other numbers: planned where they differ, announced with counts, refused as a whole."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

import pytest
from support import FakeHosts, cluster, facts_of, lost_words, plan_input, prepared, run_over

from slurmfab.base.errors import IdConflict
from slurmfab.cluster.facts import Account
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.core.engine import id_migration, planning
from slurmfab.core.engine.converge import deploy
from slurmfab.core.engine.progress import Progress
from slurmfab.core.engine.report import Step
from slurmfab.core.impact.approvals import Approvals
from slurmfab.core.plan.phases import users
from slurmfab.core.plan.phases.daemons import must_stop
from slurmfab.on_hosts.agent.core.resource import Change, Outcome
from slurmfab.on_hosts.agent.identities.moved_ids import MovedIds

OLDER = {
    "accounts": {
        "slurm": Account(1001, 1001, "/home/slurm", "/bin/bash"),
        "munge": Account(450, 450, "/nonexistent", "/usr/sbin/nologin"),
    },
    "groups": {"slurm": 1001, "munge": 450},
    "uids": {0: "root", 450: "munge", 1001: "slurm"},
    "gids": {0: "root", 450: "munge", 1001: "slurm"},
}
"""What differs on a host that has slurm with other numbers."""


def test_a_user_with_other_numbers_is_moved_before_anything_else_and_daemons_stop_for_it() -> None:
    known = facts_of(cluster(), prepared)
    planned = dataclasses.replace(
        plan_input(cluster(), known), facts={**known, "n1": prepared("n1", **OLDER)}, move_ids=True
    )
    first, *others = users.resources(planned, "n1")
    assert first == MovedIds("slurm", 64030, 64030, ("slurmctld", "slurmdbd", "slurmrestd", "slurmd"))
    assert [(one.id, getattr(one, "moved", None)) for one in others[len((*users.SYSTEM, users.LOGS)) :]] == [
        ("group:slurm", True),
        ("user:slurm", True),
        ("group:munge", False),
        ("user:munge", False),
    ]
    assert [one.id for one in users.resources(planned, "n2")] == [one.id for one in others]


def test_munge_stops_when_its_number_moves_and_the_state_counts_on_controllers() -> None:
    known = facts_of(cluster(), prepared)
    slurm = OLDER["accounts"]["slurm"]
    both = {"accounts": {"slurm": slurm, "munge": slurm}, "groups": {"slurm": 1001, "munge": 1002}}
    planned = dataclasses.replace(plan_input(cluster(), known), facts={"c1": prepared("c1", **both)}, move_ids=True)
    first, second = users.moved(planned, "c1")
    assert first.needed == ("/var/lib/slurm/slurmctld",)
    assert (second.user, second.daemons[-1], second.needed) == ("munge", "munge", ())


def test_without_move_ids_no_number_is_changed() -> None:
    known = facts_of(cluster(), prepared)
    planned = dataclasses.replace(plan_input(cluster(), known), facts={"n1": prepared("n1", **OLDER)})
    assert users.moved(planned, "n1") == ()


def test_a_controller_that_is_stopped_for_a_move_need_not_be_stopped_for_new_nodes_again() -> None:
    conf = {"slurm_conf": "ClusterName=lab\nNodeName=n7\n", "services": {"slurmctld": "active"}}
    known = facts_of(cluster(), prepared, slurm="22.05.8")
    runs, moves = prepared("c1", "22.05.8", **conf), prepared("c1", "22.05.8", **conf, **OLDER)
    planned = dataclasses.replace(plan_input(cluster(), known), facts={**known, "c1": runs}, move_ids=True)
    assert must_stop(planned)
    assert not must_stop(dataclasses.replace(planned, facts={**known, "c1": moves}))


def test_a_deployment_with_consent_moves_users_of_some_hosts_and_goes_on() -> None:
    facts = {**facts_of(cluster(), prepared), "n1": prepared("n1", **OLDER)}

    def moved(host: str, resource_id: str) -> None:
        if resource_id == "moved-ids:slurm":
            hosts.facts[host] = prepared(host)

    hosts = FakeHosts(facts, wrong={"n1": {"moved-ids:slurm"}}, when_changed=moved)
    without = run_over(hosts, cluster())
    deploy(without)
    assert "--move-ids" in without.failed_hosts["n1"].reason
    said = io.StringIO()
    deploy(run_over(hosts, cluster(), approvals=Approvals(move_ids=True), progress=Progress(said)))
    assert not hosts.wrong["n1"]
    told = [line for line in said.getvalue().splitlines() if line.startswith("n1: slurm: state")]
    assert len(told) == 2, "what is planned, and what was done"


def step(host: str, status: str, message: str) -> Step:
    change = Change("uid", "1001", "64030")
    return Step("users", host, (Outcome("moved-ids:slurm", status, (change,), message), Outcome("user:slurm", "ok")))


def test_changes_of_numbers_are_printed_before_and_after() -> None:
    said = io.StringIO()
    run = run_over(FakeHosts({}), cluster())
    run.progress = Progress(said)
    count = "1234 files below /home, /var (local file systems), 2 processes"
    id_migration.print_planned(run, [step("n1", "would change", count), step("n2", "ok", "")])
    run.record_steps(step("n1", "changed", "moved 1234 files below /home, /var (local file systems)"))
    id_migration.print_done(run)
    assert said.getvalue().splitlines() == [
        f"n1: slurm: uid 1001 -> 64030: {count}",
        "n1: slurm: uid 1001 -> 64030: moved 1234 files below /home, /var (local file systems)",
    ]


def test_a_change_of_numbers_that_one_host_refuses_leaves_that_one_out_and_the_controllers_is_begun_on_none() -> None:
    said = io.StringIO()
    run = run_over(FakeHosts({}), cluster(), progress=Progress(said))
    busy = "processes run with it: 7 (bash)"
    id_migration.print_planned(run, [step("n1", "would change", "1 file"), step("n2", "failed", busy)])
    assert lost_words(run.failed_hosts) == {"n2": busy}
    assert "n1: slurm: uid 1001 -> 64030: 1 file" in said.getvalue()
    with pytest.raises(IdConflict) as refused:
        id_migration.print_planned(run, [step("c1", "failed", busy)])
    assert str(refused.value) == f"c1: {busy}\nNothing was changed."


def test_numbers_when_a_run_is_about_some_hosts_and_others_would_keep_theirs_are_not_moved() -> None:
    known = {name: prepared(name) for name in ("c1", "n1", "n2")}
    wanted = dataclasses.replace(
        plan_input(cluster(), known), facts={**known, "n2": prepared("n2", **OLDER)}, move_ids=True
    )
    before = Inventory(cluster(), wanted.lock, Path("cluster.yaml"))
    with pytest.raises(IdConflict, match="n2 would keep other numbers"):
        planning.refuse_unfit(before, wanted, hosts=("c1", "n1"), failed=(), allowed=())
