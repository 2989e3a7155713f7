"""The last step of an upgrade: what a deployment will change with the new Slurm, known before anything is begun."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from fake_slurm import FakeSlurm, job_line
from support import MUNGE_KEY, THREE_HOSTS, cluster, facts_of, plan_input, prepared, run_over

from slurmfab.base.errors import DeployFailed, InputError
from slurmfab.cluster.inventory.slurm_packages import SlurmPackages
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.commands.upgrade import last_files
from slurmfab.commands.upgrade.plan import HostVersions, Target, UpgradePlan, UpgradeStep
from slurmfab.core.engine.report import Step
from slurmfab.core.engine.run import Run
from slurmfab.on_hosts.agent.core.resource import Change, Outcome

FILES = "slurm-files:/etc/slurm"
FINAL = SlurmPackages(version="26.05.*")
NEW = {"slurm-client": "26.05.5-1"}


def place(text: str = THREE_HOSTS, *, by_hand: bool = False, **more: Any) -> tuple[Run, FakeSlurm]:
    """Three hosts with Slurm 24.11, and the files that slurmfab or somebody else wrote for it."""
    wanted = cluster(text)
    facts = facts_of(wanted, prepared)
    files = dict(plan_input(cluster(), facts).files)
    begin = "# ann, 2019\n" if by_hand else ""
    facts = {
        host: dataclasses.replace(
            fact,
            munge_key=MUNGE_KEY,
            slurm_conf=begin + files["slurm.conf"],
            cgroup_conf=begin + files["cgroup.conf"],
            services={"slurmctld": "active"} if host == "c1" else {},
        )
        for host, fact in facts.items()
    }
    nodes = dict.fromkeys(wanted.compute_nodes, ("IDLE", "", ""))
    hosts = FakeSlurm(facts, nodes=nodes, **more)
    return run_over(hosts, wanted, command="upgrade"), hosts


def planned(run: Run, hosts: FakeSlurm, *steps: UpgradeStep) -> UpgradePlan:
    """The plan of an upgrade from 24.11 to 26.05, with its last step."""
    new = {"slurm-client": "26.05.5-1"}
    there = {host: HostVersions({"slurm-client": "24.11.5-1"}, offered=new) for host in run.hosts}
    target = Target("26.05.*", "", SlurmVersion(26, 5))
    return last_files.with_files(run, UpgradePlan(target, SlurmVersion(24, 11), there, steps), hosts.facts, FINAL)


def test_lines_that_the_new_slurm_needs_are_a_step_with_what_they_do_to_daemons() -> None:
    run, hosts = place(wrong={host: {FILES} for host in ("c1", "n1", "n2")})
    (step,) = planned(run, hosts).steps
    assert (step.what, step.hosts) == ("files", ("c1", "n1", "n2"))
    assert step.changes["n1"] == (FILES,)
    text = "\n".join(step.lines)
    assert "CommunicationParameters: (default) -> disable_http   [restart of slurmctld and slurmd]" in text
    assert "=> slurmctld on c1 stops, slurmd on n[1-2] restarts, and slurmctld starts again." in text
    assert "c1,n[1-2]: slurm.conf" in text
    assert all(request["dry_run"] for _, request in hosts.requests if request["op"] == "apply"), "nothing was changed"


def test_the_slurm_of_now_does_not_judge_the_files_for_the_next_one() -> None:
    run, hosts = place()
    planned(run, hosts)
    (files,) = (one for _, request in hosts.requests if request["op"] == "apply" for one in request["resources"]
                if one["kind"] == "slurm-files" and _ == "c1")  # fmt: skip
    assert "disable_http" in dict(files["files"])["slurm.conf"]
    assert not files["previewed"]


def test_hand_made_files_are_compared_as_they_are() -> None:
    run, hosts = place(by_hand=True)
    assert planned(run, hosts).steps == ()
    (files,) = (one for host, request in hosts.requests if request["op"] == "apply" for one in request["resources"]
                if one["kind"] == "slurm-files" and host == "n1")  # fmt: skip
    assert dict(files["files"])["slurm.conf"].startswith("# ann, 2019\n")


def test_a_host_whose_packages_came_after_its_facts_counts_with_what_it_has_now() -> None:
    now = HostVersions({"slurm-client": "26.05.5-1"}, {"slurmd": "26.05.5"})
    fact = last_files.after(prepared("n1"), now)
    assert (fact.slurm_version, fact.packages["slurm-client"]) == ("26.05.5", "26.05.5-1")
    assert last_files.after(prepared("n1"), HostVersions()).slurm_version == "24.11.5"


def test_systemd_reads_what_is_written_for_units_in_the_same_phase() -> None:
    run, hosts = place(by_hand=True, wrong={"n1": {"owned-files:restarts"}})
    (step,) = planned(run, hosts).steps
    assert step.changes == {"n1": ("owned-files:restarts", "units-loaded:restarts")}


def test_what_earlier_steps_change_is_not_told_again() -> None:
    run, hosts = place(wrong={"n1": {FILES}})
    earlier = UpgradeStep("nodes", ("n1",), {}, {}, "", {"n1": (FILES,)})
    assert planned(run, hosts, earlier).steps == (earlier,)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("FrontendName: x", "Slurm 26.05 no longer knows this key"),
        ("SelectType: select/linear", "    job 7 of ann, on n2"),
    ],
)
def test_what_the_deployment_would_refuse_is_refused_before_the_upgrade(key: str, words: str) -> None:
    text = f"{THREE_HOSTS}slurm_conf: {{{key}}}\n"
    run, hosts = place(text, jobs=[job_line(7, "n2")], wrong={"n1": {FILES}})
    (reason,) = planned(run, hosts).refusals
    assert reason.startswith("The deployment at the end would be refused:")
    assert words in reason


def test_a_deployment_that_would_change_more_than_its_plan_shows_is_not_begun() -> None:
    run, hosts = place(wrong={"n1": {FILES}})
    plan = planned(run, hosts)
    wrong = Outcome(FILES, "would change", (Change("slurm.conf"),))
    last_files.refuse_more(plan, [Step("slurm.conf", "n1", (wrong, Outcome("user:slurm", "ok")), 0.0)])
    more = [Step("slurm.conf", host, (wrong,), 0.0) for host in ("c1", "n1", "n2")]
    with pytest.raises(InputError, match=r"what the plan did not show: slurm-files:/etc/slurm on c1,n2\. It was not"):
        last_files.refuse_more(plan, more)


def test_a_host_that_is_lost_while_the_last_step_is_compared_has_a_sentence_of_its_own() -> None:
    run, hosts = place(wrong={"n1": {FILES}}, losing={"n2": 1})
    plan = planned(run, hosts)
    (step,) = plan.steps
    assert step.hosts == ("n1",)
    assert plan.warnings == (
        "n2: was lost while the upgrade was planned: the connection was lost. It keeps its Slurm; upgrade it when it "
        "answers.",
    )
    assert plan.silent == {"n2": "the connection was lost."}


def test_a_controller_that_is_lost_while_the_last_step_is_compared_ends_the_plan() -> None:
    run, hosts = place(losing={"c1": 1})
    with pytest.raises(DeployFailed):
        planned(run, hosts)


def test_the_differences_of_the_last_step_are_in_the_order_of_the_hosts_and_leave_no_trace_in_the_run() -> None:
    run, hosts = place(wrong={host: {FILES} for host in ("n2", "c1", "n1")})
    before = run.job_impact
    assert [*planned(run, hosts).steps[0].changes] == ["c1", "n1", "n2"]
    assert run.job_impact == before


@pytest.mark.parametrize(
    ("versions", "fact", "new"),
    [
        (
            HostVersions(offered={"slurmd": "1:26.05.5-1"}),
            {"slurm_versions": {"slurmd": "24.11.5"}},
            {"slurmd": "26.05.5"},
        ),
        (HostVersions(programs={"slurmd": "24.11.5"}), {"slurm_versions": {}}, {"slurmd": "24.11.5"}),
        (HostVersions(), {"slurm_versions": {"slurmd": "24.11.5"}}, {"slurmd": ""}),
    ],
)
def test_facts_after_an_upgrade_have_the_offered_version_of_each_program(
    versions: HostVersions, fact: dict[str, Any], new: dict[str, str]
) -> None:
    assert last_files.after(prepared("n1", **fact), versions).slurm_versions == new
    packages = last_files.after(prepared("n1"), HostVersions({"munge": "9"}, offered={"slurm-client": "2"})).packages
    assert (packages["munge"], packages["slurm-client"]) == ("9", "2")
    assert last_files.after(prepared("n1"), HostVersions()).packages == prepared("n1").packages


def test_a_host_that_did_not_tell_its_versions_is_no_part_of_the_last_step() -> None:
    run, hosts = place(wrong={host: {FILES} for host in ("n1", "n2")})
    there = {host: HostVersions({"slurm-client": "24.11.5-1"}, offered=NEW) for host in ("c1", "n1")}
    plan = UpgradePlan(Target("26.05.*", "", SlurmVersion(26, 5)), SlurmVersion(24, 11), there, ())
    (step,) = last_files.with_files(run, plan, hosts.facts, FINAL).steps
    assert step.hosts == ("n1",)


def test_differences_that_a_plan_does_not_name_are_told_once_for_their_hosts() -> None:
    step = UpgradeStep("files", ("n1",), {}, {}, "", {"n1": ("a:b",)})
    plan = UpgradePlan(Target("26.05.*", "", SlurmVersion(26, 5)), SlurmVersion(24, 11), {}, (step,))
    wrong, right, other = Outcome("a:b", "would change"), Outcome("c:d", "ok"), Outcome("e:f", "failed")
    last_files.refuse_more(plan, [Step("x", "n1", (wrong, right)), Step("y", "n2", (right,))])
    found = [Step("x", host, (wrong, other)) for host in ("n2", "n2", "n3")]
    with pytest.raises(InputError, match=r"a:b on n\[2-3\]; e:f on n\[2-3\]\. It was not begun") as refused:
        last_files.refuse_more(plan, found)
    assert str(refused.value).startswith("All hosts have the new Slurm. But the deployment at the end")
