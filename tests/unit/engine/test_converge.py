"""deploy() against hosts that answer from memory: how often each is asked, and what is done when one fails."""

from __future__ import annotations

import dataclasses
import io
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from support import (
    MUNGE_KEY,
    THREE_HOSTS,
    FakeHosts,
    cluster,
    facts_of,
    host_facts,
    lost_words,
    plan_input,
    prepared,
    run_over,
    with_key,
)

from slurmfab.base.errors import ConnectionLost, DeployFailed, IdConflict, InputError
from slurmfab.base.json_output import as_json
from slurmfab.cluster.facts import Account, ClusterMark, Gpu, SlurmUse
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.core.engine import actor, phase_run
from slurmfab.core.engine.converge import compare_hosts, deploy, dry_run
from slurmfab.core.engine.phase_run import PhaseRun
from slurmfab.core.engine.plan_text import count_text
from slurmfab.core.engine.progress import Progress
from slurmfab.core.engine.report import Step
from slurmfab.core.engine.run import Run, RunHooks
from slurmfab.core.engine.summary import summary
from slurmfab.core.impact.approvals import Approvals
from slurmfab.core.plan.pinned import pin
from slurmfab.core.plan.plan import Phase, make_plan
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.nodes.registered import SEE_LOG

HOSTS = ("c1", "n1", "n2")


def in_place(**more: object) -> FakeHosts:
    """Three hosts that are as wanted, but for what is said."""
    facts = with_key()
    return FakeHosts(facts, **more)  # type: ignore[arg-type]


def applied(hosts: FakeHosts) -> list[str]:
    return [
        host
        for host, request in hosts.requests
        if request["op"] == "apply" and not request["dry_run"] and request["resources"]
    ]


def test_a_run_without_differences_asks_each_host_for_facts_and_a_comparison_and_nothing_else() -> None:
    hosts = in_place()
    report = deploy(run_over(hosts, cluster()))
    assert {host: hosts.of(host) for host in HOSTS} == {host: ["facts", "compare"] for host in HOSTS}
    assert (report.exit_code, report.steps) == (0, ())


def test_a_difference_in_the_last_phases_costs_one_request_for_each_later_phase() -> None:
    hosts = in_place(wrong={"n1": {"service:slurmd"}})
    report = deploy(run_over(hosts, cluster()))
    assert hosts.of("c1") == ["facts", "compare", "claim", "apply slurm-nodes"]
    assert hosts.of("n1") == ["facts", "compare", "apply service"]
    assert hosts.of("n2") == ["facts", "compare", "apply service"]
    assert [(step.phase, step.host) for step in report.steps] == [("slurmd", "n1")]


def test_a_difference_in_slurm_conf_carries_out_that_phase_and_the_daemons() -> None:
    hosts = in_place(wrong={"n2": {"slurm-files:/etc/slurm"}})
    deploy(run_over(hosts, cluster()))
    files = "apply slurm-files,absent"
    assert hosts.of("c1") == ["facts", "compare", "claim", files, "apply service", "apply slurm-nodes"]
    assert hosts.of("n2") == ["facts", "compare", files, "apply service"]


def test_a_difference_in_a_preparing_phase_carries_out_the_later_ones_and_asks_again() -> None:
    hosts = in_place(wrong={"n1": {"packages:munge,openssh-client,slurm-client,slurmd"}})
    deploy(run_over(hosts, cluster()))
    preparing = ["apply free-space,packages", "apply ssh-key"]
    assert hosts.of("n1") == ["facts", "compare", *preparing, "facts", "compare"]
    assert hosts.of("c1") == [
        "facts",
        "compare",
        "claim",
        *preparing,
        "apply munge-directories,munge-key",
        "facts",
        "compare",
    ]


@pytest.mark.parametrize("prepares", [True, False])
def test_a_deployment_when_one_change_makes_another_resource_right_then_counts_what_its_plan_counts(
    prepares: bool,
) -> None:
    first = "packages:munge,openssh-client,slurm-client,slurmd" if prepares else "slurm-files:/etc/slurm"
    hosts = in_place(wrong={"n1": {first, "service:slurmd"}})
    hosts.when_changed = lambda host, changed: hosts.wrong[host].discard("service:slurmd" if changed == first else "")
    planned = dry_run(run_over(hosts, cluster()))
    done = deploy(run_over(hosts, cluster()))
    assert count_text(planned).startswith("lab: 2 changes would be made on 1 host (")
    assert summary(done).startswith("lab: 2 changes on 3 hosts, all is as wanted (")
    assert [outcome.id for step in done.steps for outcome in step.outcomes if outcome.status == "changed"] == [first]


def test_a_deployment_when_a_step_fails_then_does_not_count_what_it_did_not_reach() -> None:
    wrong = {"n1": {"slurm-files:/etc/slurm", "service:slurmd"}}
    hosts = in_place(wrong=wrong, failing={"n1": {"slurm-files:/etc/slurm"}})
    assert deploy(run_over(hosts, cluster())).changes == 0


def test_a_new_name_in_the_hosts_file_does_not_ask_the_hosts_again() -> None:
    hosts = in_place(wrong={"n1": {"block:/etc/hosts#hosts"}})
    deploy(run_over(hosts, cluster()))
    assert hosts.of("n1")[:3] == ["facts", "compare", "apply block,host-names"]
    assert hosts.of("n1").count("facts") == 1


def test_the_timeline_is_recorded() -> None:
    hosts = in_place(wrong={"n1": {"service:slurmd"}})
    timeline = deploy(run_over(hosts, cluster())).timeline
    assert [doing for _, doing in timeline] == ["asking", "comparing", "slurmd", "nodes"]
    assert timeline == tuple(sorted(timeline))


def test_new_hosts_get_the_phases_in_order() -> None:
    everything = {host: {resource.id for _, resource in plan_of(host)} for host in HOSTS}
    hosts = FakeHosts(facts_of(cluster()), wrong=everything)
    report = deploy(run_over(hosts, cluster()))
    assert hosts.of("n1") == [
        "facts",
        "compare",
        "apply null-device,revived-unit,shared-names,group,user",
        "apply free-space,packages",
        "apply ssh-key",
        "facts",
        "compare",
        "apply block,host-names",
        "apply block,ssh-login",
        "apply owned-files,units-loaded",
        "apply munge-directories,file,service",
        "apply directory,root-log,owned-files",
        "apply slurm-files,absent",
        "apply service",
    ]
    assert report.exit_code == 0
    assert not any(hosts.wrong.values())


def plan_of(host: str) -> tuple[tuple[Phase, Resource], ...]:
    return make_plan(plan_input(cluster(), facts_of(cluster())), HOSTS).of_host(host)


def test_the_second_run_has_nothing_to_do() -> None:
    hosts = in_place(wrong={"n1": {"service:slurmd"}, "c1": {"user:slurm"}})
    deploy(run_over(hosts, cluster()))
    hosts.requests.clear()
    assert deploy(run_over(hosts, cluster())).steps == ()
    assert applied(hosts) == []


def test_a_missing_gpu_is_reported_and_in_the_summary() -> None:
    there = (Gpu("/dev/nvidia0", "a100"), Gpu("/dev/nvidia1", "a100"))
    hosts = FakeHosts(facts_of(cluster(), prepared, gpus=there))
    run = run_over(hosts, cluster())
    deploy(run)
    hosts.facts["n2"] = dataclasses.replace(hosts.facts["n2"], gpus=there[:1])
    report = deploy(run_over(hosts, cluster(), lock=run.inventory.lock))
    assert (report.exit_code, report.steps, report.other_hardware) == (0, (), ("n2",))


def test_the_later_phases_are_planned_on_the_facts_after_the_preparing_ones() -> None:
    hosts = FakeHosts(facts_of(cluster()), wrong={"c1": {"munge-key:/etc/munge/munge.key"}})

    def remember(host: str, _resource: str) -> None:
        hosts.facts[host] = dataclasses.replace(hosts.facts[host], munge_key=MUNGE_KEY)

    hosts.when_changed = remember
    hosts.wrong["n1"] = {"file:/etc/munge/munge.key"}
    deploy(run_over(hosts, cluster()))
    sent = [
        wanted["content"]
        for host, request in hosts.requests
        if host == "n1" and request["op"] == "apply"
        for wanted in request["resources"]
        if wanted.get("path") == "/etc/munge/munge.key"
    ]
    assert sent == ["", MUNGE_KEY, MUNGE_KEY]


def test_the_controller_gets_slurm_conf_before_all_other_hosts() -> None:
    hosts = in_place(wrong={host: {"slurm-files:/etc/slurm"} for host in HOSTS})
    deploy(run_over(hosts, cluster()))
    got = [
        host
        for host, request in hosts.requests
        if request["op"] == "apply"
        and not request["dry_run"]
        and any(wanted["kind"] == "slurm-files" for wanted in request["resources"])
    ]
    assert got[0] == "c1"
    assert sorted(got) == ["c1", "n1", "n2"]


def test_a_slurm_conf_that_fails_on_the_controller_reaches_no_other_host() -> None:
    bad = {"slurm-files:/etc/slurm"}
    hosts = in_place(wrong={host: set(bad) for host in HOSTS}, failing={"c1": bad})
    with pytest.raises(DeployFailed, match="c1 is the controller, so nothing else was started"):
        deploy(run_over(hosts, cluster()))
    assert applied(hosts) == ["c1"]


def test_a_controller_that_is_lost_while_hosts_are_compared_ends_the_run_before_any_change() -> None:
    hosts = in_place(wrong={"n1": {"service:slurmd"}}, losing={"c1": 2})
    with pytest.raises(DeployFailed, match="c1 is the controller, so nothing else was started"):
        deploy(run_over(hosts, cluster()))
    assert {host: hosts.of(host) for host in HOSTS} == {host: ["facts", "compare"] for host in HOSTS}


def test_a_controller_that_is_unfit_ends_the_run_before_any_host_is_compared() -> None:
    hosts = in_place(wrong={"n1": {"service:slurmd"}})
    hosts.facts["c1"] = dataclasses.replace(hosts.facts["c1"], os_id="fedora")
    run = run_over(hosts, cluster())
    with pytest.raises(DeployFailed, match="c1 is the controller, so nothing else was started"):
        deploy(run)
    assert "slurmfab deploys to Debian, Ubuntu and" in run.failed_hosts["c1"].reason
    assert {host: hosts.of(host) for host in HOSTS} == {host: ["facts"] for host in HOSTS}


def test_a_slurm_conf_that_relies_on_slurmdbd_is_left_when_slurmdbd_does_not_start() -> None:
    with_database = cluster(f"{THREE_HOSTS}database: d1\n")
    facts = with_key(with_database)
    wrong = {host: {"slurm-files:/etc/slurm"} for host in HOSTS}
    hosts = FakeHosts(facts, {**wrong, "d1": {"service:slurmdbd"}}, failing={"d1": {"service:slurmdbd"}})
    with pytest.raises(DeployFailed, match="d1 is the host of the accounting database"):
        deploy(run_over(hosts, with_database))
    assert hosts.wrong["c1"] == {"slurm-files:/etc/slurm"}


def test_a_comparison_is_in_the_order_of_the_plans_hosts_whoever_answers_first() -> None:
    n2_is_done = threading.Event()

    class Late(FakeHosts):
        """Hosts of which c1 answers a comparison after n2's answer was taken."""

        def outcomes(self, host: str, request: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
            assert host != "c1" or n2_is_done.wait(60)
            return super().outcomes(host, request)

    class Noting(Progress):
        def host_done(self, host: str, step: Step | None = None) -> None:  # noqa: ARG002
            if host == "n2":
                n2_is_done.set()

    facts = facts_of(cluster(), prepared)
    run = run_over(Late(facts), cluster(), progress=Noting(io.StringIO(), quiet=True))
    steps = compare_hosts(run, make_plan(plan_input(cluster(), facts), HOSTS))
    assert tuple(dict.fromkeys(step.host for step in steps)) == HOSTS


def test_a_plan_without_the_controllers_comparison_is_no_plan() -> None:
    with pytest.raises(DeployFailed, match="c1 is the controller"):
        dry_run(run_over(in_place(losing={"c1": 2}), cluster()))


def test_a_host_that_fails_in_a_phase_is_excluded_from_later_ones() -> None:
    hosts = in_place(
        wrong={"n1": {"slurm-files:/etc/slurm"}, "n2": {"service:slurmd"}}, failing={"n1": {"slurm-files:/etc/slurm"}}
    )
    report = deploy(run_over(hosts, cluster()))
    assert hosts.of("n1")[-1] == "apply slurm-files,absent"
    assert hosts.of("n2")[-1] == "apply service"
    assert lost_words(report.failed_hosts) == {"n1": "slurm-files:/etc/slurm: it cannot be done"}
    assert report.exit_code == 3


def test_no_phase_waits_for_a_node_that_failed() -> None:
    hosts = in_place(wrong={"n1": {"service:slurmd"}, "c1": {"service:slurmctld"}}, failing={"n1": {"service:slurmd"}})
    deploy(run_over(hosts, cluster()))
    (nodes,) = [
        wanted["nodes"]
        for host, request in hosts.requests
        if request["op"] == "apply" and not request["dry_run"]
        for wanted in request["resources"]
        if wanted["kind"] == "slurm-nodes"
    ]
    assert list(nodes) == ["n2"]


DOWN = "down (broken fan), set by root."


def test_a_node_that_slurmctld_reports_as_not_ready_is_that_nodes_failure_and_all_else_is_done() -> None:
    late = {"slurm-nodes:n1,n2": {"n1": DOWN}}
    wrong = {"c1": {"slurm-nodes:n1,n2"}, "n1": {"absent:/etc/slurm/slurmfab.d"}}
    hosts = in_place(wrong=wrong, others=late)
    report = deploy(run_over(hosts, cluster()))
    assert lost_words(report.failed_hosts) == {"n1": f"slurm-nodes:n1: {DOWN}"}
    assert report.exit_code == 3
    done = [(step.phase, step.host, [one.status for one in step.outcomes]) for step in report.steps]
    assert done == [("nodes", "c1", ["changed"]), ("nodes", "n1", ["failed"])]
    assert not any(outcome.others for step in report.steps for outcome in step.outcomes)


def test_a_node_that_is_not_ready_is_told_with_the_errors_of_its_slurmd() -> None:
    late = {"slurm-nodes:n1,n2": {"n1": f"unknown. {SEE_LOG}."}}
    hosts = in_place(wrong={"c1": {"slurm-nodes:n1,n2"}}, others=late)
    report = deploy(run_over(hosts, cluster()))
    said = "The log of its slurmd says: error: slurmd of n1 cannot | error: so it ends."
    assert lost_words(report.failed_hosts) == {"n1": f"slurm-nodes:n1: unknown. {said}"}


def test_a_controller_that_runs_jobs_and_is_not_ready_is_no_failure_of_the_run() -> None:
    wanted = cluster("cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: 'c1,n1'}]\n")
    facts = with_key(wanted)
    name = "slurm-nodes:c1,n1"
    hosts = FakeHosts(facts, wrong={"c1": {name}}, others={name: {"c1": DOWN}})
    report = deploy(run_over(hosts, wanted))
    assert (report.exit_code, lost_words(report.failed_hosts)) == (3, {"c1": f"slurm-nodes:c1: {DOWN}"})


def test_a_controller_that_reports_hosts_that_it_was_not_asked_about_is_not_believed() -> None:
    hosts = in_place(wrong={"c1": {"slurm-nodes:n1,n2"}}, others={"slurm-nodes:n1,n2": {"x1": DOWN}})
    run = run_over(hosts, cluster())
    with pytest.raises(DeployFailed, match="c1 is the controller"):
        deploy(run)
    assert "reports hosts that it is not about" in run.failed_hosts["c1"].reason


class Silent(FakeHosts):
    """Hosts of which n1 does not answer a change until the others have got as far as they can; then it is lost.

    Attributes:
        awaited: what has to have been asked of other hosts before n1 is lost, as `(host, kinds)`.
        came: whether that was asked in time.
    """

    awaited: tuple[str, str]
    came = False

    def outcomes(self, host: str, request: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
        if host == "n1" and not request["dry_run"]:
            other, kinds = self.awaited
            deadline = time.monotonic() + 60
            while kinds not in self.of(other) and time.monotonic() < deadline:
                time.sleep(0.001)
            self.came = kinds in self.of(other)
            raise ConnectionLost(host, "the connection was lost: no data for 30 s.")
        return super().outcomes(host, request)


def silent(awaited: tuple[str, str], wrong: dict[str, set[str]]) -> Silent:
    """Hosts as wanted but for what is said, of which n1 falls silent."""
    facts = with_key()
    hosts = Silent(facts, wrong=wrong)
    hosts.awaited = awaited
    return hosts


@pytest.mark.parametrize(
    ("awaited", "wrong"),
    [
        (("c1", "apply munge-directories,munge-key"), {"n1": {"user:slurm"}, "c1": {"munge-key:/etc/munge/munge.key"}}),
        (("n2", "apply slurm-files,absent"), {"n1": {"block:/etc/hosts#hosts"}}),
        (("n2", "apply munge-directories,file,service"), {"n1": {"block:/etc/hosts#hosts"}}),
    ],
    ids=["preparing phases", "slurm.conf", "munge"],
)
def test_a_host_that_falls_silent_holds_up_no_work_that_does_not_depend_on_it(
    awaited: tuple[str, str], wrong: dict[str, set[str]]
) -> None:
    hosts = silent(awaited, wrong)
    report = deploy(run_over(hosts, cluster()))
    assert hosts.came
    assert lost_words(report.failed_hosts) == {"n1": "the connection was lost: no data for 30 s."}
    assert report.exit_code == 3
    assert [step.outcomes[-1].status for step in report.steps if step.host == "n1"] == ["unknown"]
    assert hosts.of("c1")[-1] in ("apply slurm-nodes", "compare")


def test_slurmctld_is_told_of_new_files_only_after_a_silent_host_was_lost() -> None:
    hosts = silent(("n2", "apply slurm-files,absent"), {"n1": {"slurm-files:/etc/slurm"}})
    deploy(run_over(hosts, cluster()))
    order = [(host, request) for host, request in hosts.requests if request["op"] == "apply"]
    kinds = [
        (host, *(one["kind"] for one in request["resources"])) for host, request in order if not request["dry_run"]
    ]
    assert hosts.came
    assert kinds.index(("c1", "service")) > max(at for at, one in enumerate(kinds) if "slurm-files" in one)


def test_an_unreachable_host_is_excluded_and_the_exit_code_is_3() -> None:
    hosts = in_place(wrong={"n2": {"service:slurmd"}})
    known = plan_input(cluster(), hosts.facts).lock
    del hosts.facts["n1"]
    report = deploy(run_over(hosts, cluster(), lock=known))
    assert hosts.of("n1") == ["facts"]
    assert [(step.phase, step.host) for step in report.steps] == [("slurmd", "n2")]
    assert report.exit_code == 3


def test_a_connection_that_breaks_in_a_phase_excludes_that_host_alone() -> None:
    hosts = in_place(wrong={"n1": {"service:slurmd"}, "n2": {"service:slurmd"}}, losing={"n1": 3})
    report = deploy(run_over(hosts, cluster()))
    assert lost_words(report.failed_hosts) == {"n1": "the connection was lost."}
    done = {step.host: [one.status for one in step.outcomes] for step in report.steps}
    assert done == {"n1": ["unknown"], "n2": ["changed"]}
    assert report.exit_code == 3


def test_without_the_controller_nothing_is_started() -> None:
    hosts = in_place(wrong={"n1": {"user:slurm"}})
    del hosts.facts["c1"]
    with pytest.raises(DeployFailed, match="c1 is the controller"):
        deploy(run_over(hosts, cluster()))
    assert applied(hosts) == []


def test_a_conflict_of_ids_stops_the_run_before_anything_is_compared_or_changed() -> None:
    hosts = FakeHosts(facts_of(cluster()))
    hosts.facts["n1"] = host_facts("n1", accounts={"slurm": Account(1001, 1001, "/", "")}, groups={"slurm": 1001})
    hosts.facts["n2"] = host_facts("n2", accounts={"slurm": Account(1002, 1002, "/", "")}, groups={"slurm": 1002})
    kept: list[Run] = []
    with pytest.raises(IdConflict):
        deploy(run_over(hosts, cluster(), hooks=RunHooks(save_lock=kept.append)))
    assert {request["op"] for _, request in hosts.requests} == {"facts"}
    assert kept == []


OTHERS = SlurmUse((ClusterMark("/etc/slurm/slurm.conf", "alpha", ("u1(10.9.0.1)",)),), ("slurmd",), (7,))


@pytest.mark.parametrize("without_python", [set(), {"n3"}])
@pytest.mark.parametrize("work", [deploy, dry_run])
def test_most_hosts_when_they_are_new_and_of_another_cluster_then_stop_the_run_before_anything_is_compared_or_saved(
    work: Callable[[Run], object], without_python: set[str]
) -> None:
    saved: list[Run] = []
    wanted = cluster(THREE_HOSTS.replace("[1-2]", "[1-3]").replace("[2-3]", "[2-4]"))
    hosts = FakeHosts(with_key(wanted), without_python=without_python)
    for host in {"n1", "n2", "n3"} - without_python:
        hosts.facts[host] = dataclasses.replace(hosts.facts[host], slurm_use=OTHERS)
    run = run_over(hosts, wanted, hooks=RunHooks(save_lock=saved.append))
    with pytest.raises(InputError, match=r"n.*: it belongs to the cluster alpha(.|\n)*Nothing was changed"):
        work(run)
    assert {word for host in wanted.hosts for word in hosts.of(host)} == {"facts"}
    assert (saved, hosts.installed, run.inventory.lock) == ([], [], Lock())


def test_a_new_host_of_another_cluster_is_taken_where_that_is_allowed_by_name() -> None:
    hosts = in_place()
    hosts.facts["n1"] = dataclasses.replace(hosts.facts["n1"], slurm_use=OTHERS)
    allowed = Approvals(allowed=frozenset({"host-in-use"}))
    assert deploy(run_over(hosts, cluster(), approvals=allowed)).exit_code == 0
    assert "compare" in hosts.of("n1")


def test_only_hosts_that_are_new_to_the_lock_are_asked_what_they_are_used_for() -> None:
    hosts = in_place()
    run = run_over(hosts, cluster(), lock=pin(cluster(), Lock(), {"n1": hosts.facts["n1"]}))
    deploy(run)
    assert {host: request.get("is_new", False) for host, request in hosts.requests if request["op"] == "facts"} == {
        "c1": True,
        "n1": False,
        "n2": True,
    }


def test_a_known_host_that_another_cluster_took_meanwhile_is_left_out_and_the_exit_code_is_3() -> None:
    hosts = in_place()
    lock = pin(cluster(), Lock(), hosts.facts)
    hosts.facts["n1"] = dataclasses.replace(hosts.facts["n1"], slurm_use=OTHERS, services={"slurmd": "active"})
    run = run_over(hosts, cluster(), lock=lock)
    assert deploy(run).exit_code == 3
    assert "it belongs to the cluster alpha" in lost_words(run.failed_hosts)["n1"]
    assert hosts.of("n1") == ["facts"]


def test_a_key_that_the_installed_slurm_refuses_stops_the_run_before_anything_is_compared() -> None:
    wanted = cluster("cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: n1}]\nslurm_conf: {NoSuchKey: 1}\n")
    hosts = FakeHosts(facts_of(wanted))
    with pytest.raises(InputError, match="NoSuchKey"):
        deploy(run_over(hosts, wanted))
    assert {request["op"] for _, request in hosts.requests} == {"facts"}


def test_a_run_over_other_hosts_asks_the_controller_but_does_not_change_it() -> None:
    hosts = in_place(wrong={"c1": {"user:slurm"}, "n1": {"service:slurmd"}})
    known = plan_input(cluster(), hosts.facts).lock
    report = deploy(run_over(hosts, cluster(), ["n1"], lock=known))
    assert (hosts.of("c1"), hosts.of("n2")) == (["facts", "claim"], [])
    assert hosts.of("n1") == ["facts", "compare", "apply service"]
    assert report.hosts == ("n1",)


def test_only_the_controller_is_asked_for_the_munge_key() -> None:
    hosts = in_place()
    deploy(run_over(hosts, cluster()))
    asked = {host: request["with_munge_key"] for host, request in hosts.requests if request["op"] == "facts"}
    assert asked == {"c1": True, "n1": False, "n2": False}


def test_no_secret_and_no_export_is_in_the_report_or_in_its_json() -> None:
    hosts = in_place(wrong={"n1": {"file:/etc/munge/munge.key"}, "c1": {"munge-key:/etc/munge/munge.key"}})
    report = deploy(run_over(hosts, cluster()))
    assert {outcome.id for step in report.steps for outcome in step.outcomes} >= {"file:/etc/munge/munge.key"}
    text = json.dumps(as_json(report))
    assert MUNGE_KEY not in text
    assert "exports" not in text


def test_a_host_without_python3_gets_it_first_and_that_counts_as_a_change() -> None:
    hosts = in_place(without_python={"n2"})
    report = deploy(run_over(hosts, cluster()))
    assert hosts.installed == ["n2"]
    assert hosts.of("n2") == ["facts", "compare"]
    assert [(step.phase, step.host, step.outcomes[0].id) for step in report.steps] == [
        ("python", "n2", "packages:python3")
    ]


def test_a_dry_run_installs_nothing_saves_no_lock_and_compares_once() -> None:
    hosts = in_place(without_python={"n2"}, wrong={"n1": {"service:slurmd"}})
    kept: list[Run] = []
    report = dry_run(run_over(hosts, cluster(), hooks=RunHooks(save_lock=kept.append)))
    assert (hosts.installed, kept, applied(hosts)) == ([], [], [])
    assert hosts.of("n1") == ["facts", "compare"]
    assert [(step.phase, step.host) for step in report.steps if step.differs] == [("slurmd", "n1")]
    assert set(report.failed_hosts) == {"n2"}


def test_the_lock_is_saved_before_anything_is_changed() -> None:
    hosts = in_place(wrong={"n1": {"user:slurm"}})
    changed_by_then: list[int] = []
    deploy(run_over(hosts, cluster(), hooks=RunHooks(save_lock=lambda _: changed_by_then.append(len(applied(hosts))))))
    assert changed_by_then[0] == 0


def test_a_host_with_the_wrong_system_is_excluded_with_the_reason() -> None:
    hosts = in_place()
    hosts.facts["n1"] = dataclasses.replace(hosts.facts["n1"], os_id="fedora")
    report = deploy(run_over(hosts, cluster()))
    reason = "it runs fedora; slurmfab deploys to Debian, Ubuntu and Enterprise Linux 9 and 10 (docs/supported.md)."
    assert lost_words(report.failed_hosts) == {"n1": reason}
    assert hosts.of("n1") == ["facts"]
    assert report.exit_code == 3


def test_an_agent_that_reports_too_few_resources_is_a_failed_host() -> None:
    report = deploy(run_over(in_place(forgetful={"n1"}), cluster()))
    assert "please report it" in lost_words(report.failed_hosts)["n1"]


def test_requests_name_the_user_and_the_command() -> None:
    hosts = in_place()
    deploy(run_over(hosts, cluster()))
    assert {request["who"].split()[0] for _, request in hosts.requests if request["op"] == "apply"} == {
        actor.who().split()[0]
    }


def test_the_record_is_written_while_a_host_takes_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(phase_run, "QUIET_SECONDS", 0.01)
    recorded, waited = threading.Event(), list[bool]()

    def wait(host: str, _: str) -> None:
        if host == "n1":
            waited.append(recorded.wait(10))

    hosts = in_place(wrong={host: {"slurm-files:/etc/slurm", "service:slurmd"} for host in ("n1", "n2")})
    hosts.when_changed = wait
    run = run_over(hosts, cluster())
    monkeypatch.setattr(run, "update_record", recorded.set)
    deploy(run)
    assert waited == [True, True]


class Remarking(FakeHosts):
    """Hosts whose logs of slurmd are changed with a remark."""

    def outcomes(self, host: str, request: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
        for outcome in super().outcomes(host, request):
            is_log = outcome["id"].startswith("root-log:") and outcome["status"] == "changed"
            yield {**outcome, "message": "the link stays"} if is_log else outcome


def test_remarks_that_come_of_a_change_are_told_when_its_phase_is_done() -> None:
    said = io.StringIO()
    facts = in_place().facts
    log = "root-log:/var/log/slurm/slurmd.log"
    hosts = Remarking(facts, wrong={"n1": {log}, "n2": {log}})
    deploy(run_over(hosts, cluster(), progress=Progress(said)))
    assert "n[1-2]: the link stays." in said.getvalue().splitlines()


def test_each_phase_is_shown_with_the_hosts_that_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[str, list[str]]] = []
    hosts = in_place(wrong={host: {"slurm-files:/etc/slurm", "service:slurmd"} for host in ("n1", "n2")})
    run = run_over(hosts, cluster())
    begin = run.progress.begin

    def note(doing: str, some: Iterable[str], **more: Any) -> None:
        shown.append((doing, list(some)))
        begin(doing, shown[-1][1], **more)

    monkeypatch.setattr(run.progress, "begin", note)
    deploy(run)
    assert [name for name, _ in shown][:2] == ["asking", "comparing"]
    phases = dict(shown[2:])
    assert {*phases} >= {"slurm.conf", "slurmd"}
    assert all(set(some) <= set(HOSTS) for some in phases.values())
    assert "c1" not in phases["slurmd"]


def test_phases_that_only_some_hosts_have_begin_when_the_others_have_passed_without_any(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = PhaseRun.resources

    def resources(self: PhaseRun, number: int, host: str) -> tuple[Resource, ...]:
        return () if self.phases[number].name == "slurm.conf" else own(self, number, host)

    monkeypatch.setattr(PhaseRun, "resources", resources)
    hosts = in_place(wrong={host: {"slurm-files:/etc/slurm", "service:slurmd"} for host in ("n1", "n2")})
    deploy(run_over(hosts, cluster()))
    assert "apply slurm-files,absent" not in hosts.of("n1")
    assert "apply service" in hosts.of("n1")


def test_outcomes_of_a_host_that_is_ahead_are_told_while_another_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phase_run, "QUIET_SECONDS", 0.01)
    packages = "packages:munge,openssh-client,slurm-client,slurmd"
    was_told, told = threading.Event(), list[tuple[str, str]]()

    def wait(host: str, resource: str) -> None:
        if (host, resource) == ("n1", "user:munge"):
            assert was_told.wait(10)

    hosts = in_place(wrong={"n1": {"user:munge"}, "n2": {"user:munge", packages}})
    hosts.when_changed = wait
    run = run_over(hosts, cluster())

    def tell(steps: Iterable[Step]) -> None:
        told.extend((step.host, step.phase) for step in steps)
        if ("n2", "packages") in told:
            was_told.set()

    monkeypatch.setattr(run.progress, "tell", tell)
    deploy(run)
    assert ("n2", "packages") in told
    assert ("n1", "packages") not in told
