"""`deploy --only` and `plan --only` against hosts that answer from memory: what is changed, what stays and is told."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from support import FakeHosts, cluster, plan_input, run_over, with_key

from slurmfab.base.errors import InputError, SlurmfabError
from slurmfab.base.json_output import as_json
from slurmfab.cluster.inventory.connection_options import ConnectionOptions
from slurmfab.core.engine import commands, saved_plan
from slurmfab.core.engine.converge import deploy, dry_run
from slurmfab.core.engine.plan_text import plan_text
from slurmfab.core.engine.planned import PlanVerifier, refuse_other_options
from slurmfab.core.engine.report import Report
from slurmfab.core.engine.run import ResourcesByHost, RunHooks
from slurmfab.core.engine.saved_plan import Files
from slurmfab.core.engine.session import Output
from slurmfab.core.engine.summary import after_plan, next_step, summary
from slurmfab.core.impact.approvals import Approvals, DeployOptions
from slurmfab.core.plan.plan import choose

HOSTS_FILE, KEY, CONF = "block:/etc/hosts#hosts", "file:/etc/munge/munge.key", "slurm-files:/etc/slurm"
MUNGED, SLURMD, PACKAGES = "service:munge", "service:slurmd", "packages:munge,openssh-client,slurm-client,slurmd"


def in_place(**more: object) -> FakeHosts:
    return FakeHosts(with_key(), **more)  # type: ignore[arg-type]


def deployed(hosts: FakeHosts, *words: str) -> Report:
    return deploy(run_over(hosts, cluster(), only=choose(words)))


def changed(report: Report) -> set[str]:
    return {
        f"{step.host} {outcome.id}" for step in report.steps for outcome in step.outcomes if outcome.status == "changed"
    }


@pytest.mark.parametrize(
    ("words", "wrong", "is_changed"),
    [
        ("munge-key", {KEY, HOSTS_FILE, CONF}, {KEY}),
        ("munge-key", {MUNGED, HOSTS_FILE}, {MUNGED}),  # as after an interrupted run
        ("munge-key", {KEY, PACKAGES, CONF}, {KEY, PACKAGES}),
        ("slurm-conf", {CONF, "block:/etc/ssh/ssh_known_hosts#host keys"}, {CONF}),
        ("slurm-conf", {CONF, KEY, SLURMD}, {CONF, KEY, SLURMD}),
        ("gres-conf", {CONF}, {CONF}),
        ("passwordless-ssh", {CONF, "block:/etc/ssh/ssh_known_hosts#host keys"},
         {"block:/etc/ssh/ssh_known_hosts#host keys"}),
        ("daemons", {SLURMD, HOSTS_FILE, "block:/etc/ssh/ssh_known_hosts#host keys"}, {SLURMD, HOSTS_FILE}),
        ("user-tools", {CONF, KEY}, set()),
    ],
)  # fmt: skip
def test_a_deployment_of_some_phases_changes_these_and_what_they_rest_on_and_tells_the_others(
    words: str, wrong: set[str], is_changed: set[str]
) -> None:
    hosts = in_place(wrong={"n1": set(wrong)})
    report = deployed(hosts, words)
    assert changed(report) == {f"n1 {one}" for one in is_changed}
    assert {one.id for step in report.others for one in step.not_ok} == hosts.wrong["n1"] == wrong - is_changed
    assert report.exit_code == 0
    assert json.loads(json.dumps(as_json(report)))["only"] == [words]


def test_a_second_deployment_of_the_same_phases_changes_nothing_and_still_tells_the_others() -> None:
    hosts = in_place(wrong={"n1": {KEY, HOSTS_FILE}})
    deployed(hosts, "munge-key")
    hosts.requests.clear()
    report = deployed(hosts, "munge-key")
    assert {host: hosts.of(host) for host in ("c1", "n1", "n2")} == {
        host: ["facts", "compare"] for host in ("c1", "n1", "n2")
    }
    assert (report.steps, report.exit_code) == ((), 0)
    assert [one.id for step in report.others for one in step.not_ok] == [HOSTS_FILE]


def test_what_the_change_makes_differ_in_other_phases_is_told_at_the_end() -> None:
    hosts = in_place(wrong={"n1": {PACKAGES}})
    hosts.when_changed = lambda host, _: hosts.wrong[host].add(SLURMD)
    report = deployed(hosts, "packages")
    assert changed(report) == {f"n1 {PACKAGES}"}
    assert [(step.host, step.phase) for step in report.others] == [("n1", "slurmd")]
    assert report.changes == 1


def test_what_rests_on_a_phase_that_is_changed_and_has_to_be_followed_brings_what_follows() -> None:
    hosts = in_place(wrong={"n1": {CONF, SLURMD}, "n2": {HOSTS_FILE}})
    run = run_over(hosts, cluster(), only=choose(["node-logins"]))
    deploy(run)
    assert run.takes("slurmctld start")
    assert hosts.wrong == {"n1": set(), "n2": set()}


@pytest.mark.parametrize(
    ("wrong", "last"),
    [
        (set(), "lab: nothing changed on 3 hosts, munge-key as wanted, and all else ("),
        ({KEY}, "lab: 1 change on 3 hosts, munge-key as wanted, and all else ("),
        ({KEY, CONF}, "lab: 1 change on 3 hosts, munge-key as wanted, other phases are not ("),
    ],
)
def test_the_last_line_says_what_is_as_wanted_and_whether_the_rest_is(wrong: set[str], last: str) -> None:
    text = summary(deployed(in_place(wrong={"n1": wrong}), "munge-key"))
    assert text.splitlines()[-1].startswith(last)
    assert ("Left as they are (--only munge-key):\n    n1: 1 change (slurm.conf)\n" in text) == (CONF in wrong)


def test_a_plan_of_some_phases_shows_these_and_counts_the_others_apart() -> None:
    hosts = in_place(wrong={"n1": {KEY, CONF}, "n2": {CONF}})
    report = dry_run(run_over(hosts, cluster(), command="plan", only=choose(["munge-key"])))
    text = plan_text(report, report.steps)
    assert text.startswith("n1: 1 change (munge)\n")
    assert "Left as they are (--only munge-key):\n    n[1-2]: 1 change (slurm.conf)\n" in text
    assert text.splitlines()[-1].startswith("lab: 1 change would be made on 1 host (")
    options = DeployOptions("n1", only=("munge-key",))
    assert after_plan(report, options, Path("configs/cluster.yaml")).startswith(
        "Next: fab deploy --hosts n1 --only munge-key"
    )


def test_new_files_of_slurm_that_are_left_out_neither_forbid_other_phases_on_some_hosts_nor_are_announced() -> None:
    facts = with_key()
    facts["c1"] = dataclasses.replace(facts["c1"], slurm_conf=facts["c1"].slurm_conf + "KillWait=77\n")
    hosts = FakeHosts(facts, wrong={"n1": {HOSTS_FILE, CONF}})
    with pytest.raises(InputError, match=r"slurm\.conf"):
        deploy(run_over(hosts, cluster(), ["n1"]))
    report = deploy(run_over(hosts, cluster(), ["n1"], only=choose(["hosts-file"])))
    assert changed(report) == {f"n1 {HOSTS_FILE}"}
    assert report.forecast.labels == ()
    with pytest.raises(InputError, match=r"slurm\.conf"):
        deploy(run_over(hosts, cluster(), ["n1"], only=choose(["slurm-conf"])))


@pytest.mark.parametrize("chosen", [["n1"], ["c1"], ["c1", "n1"]])
@pytest.mark.parametrize("only", [[], ["munge-key"], ["slurm-conf"]])
def test_a_munge_key_that_is_to_be_made_anew_is_refused_for_some_hosts_alone(
    chosen: list[str], only: list[str]
) -> None:
    known = with_key()
    lock = plan_input(cluster(), known).lock
    hosts = FakeHosts({**known, "c1": dataclasses.replace(known["c1"], munge_key="")}, wrong={"n1": {KEY}})
    with pytest.raises(InputError, match=r"c1 has no munge key.*this run is not about "):
        deploy(run_over(hosts, cluster(), chosen, lock, only=choose(only) if only else None))
    assert hosts.wrong["n1"] == {KEY}
    report = deploy(run_over(hosts, cluster(), chosen, lock, only=choose(["hosts-file"])))
    assert report.exit_code == 0


def test_a_host_that_fails_is_named_and_the_same_command_goes_on() -> None:
    hosts = in_place(wrong={"n1": {KEY}, "n2": {KEY}}, failing={"n1": {KEY}})
    report = deployed(hosts, "munge-key")
    assert report.exit_code == 3
    assert changed(report) == {f"n2 {KEY}"}
    assert next_step(report, Path("configs/cluster.yaml")).startswith("Next: fix the cause, then run the same command")


def test_a_saved_plan_of_some_phases_is_carried_out_with_these_alone() -> None:
    hosts = in_place(wrong={"n1": {KEY, CONF}})
    run = run_over(hosts, cluster(), digest_key="key", command="plan", only=choose(["munge-key"]))
    dry_run(run)
    plan = saved_plan.from_run(run, Files("", ""))
    assert (plan.only, [one.phase for one in plan.differences]) == (("munge-key",), ["munge"])
    hosts.wrong["n2"] = {HOSTS_FILE}  # elsewhere than in the plan's phases
    hooks = RunHooks(check_survey=PlanVerifier(plan).check_survey)
    report = deploy(run_over(hosts, cluster(), hooks=hooks, only=choose(plan.only)))
    assert changed(report) == {f"n1 {KEY}"}
    hosts.wrong["n2"] = {KEY}
    with pytest.raises(SlurmfabError, match=r"n2: file:/etc/munge/munge\.key"):
        deploy(run_over(hosts, cluster(), hooks=hooks, only=choose(plan.only)))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            DeployOptions(only=("munge-key",), approvals=Approvals(prune=True)),
            "--prune is about people, accounts, limits",
        ),
        (DeployOptions(only=("munge-key",), approvals=Approvals(move_ids=True)), "--move-ids stops daemons"),
        (DeployOptions(only=("mung",)), "Did you mean munge"),
    ],
)
def test_options_that_contradict_the_choice_are_refused(options: DeployOptions, words: str) -> None:
    with pytest.raises(InputError, match=words):
        commands.choice(options)
    assert commands.choice(dataclasses.replace(options, only=())) is None


def test_a_saved_plan_takes_no_other_choice_than_its_own() -> None:
    with pytest.raises(InputError, match="leave out --only"):
        refuse_other_options(DeployOptions(plan_file="x", only=("users",)), ConnectionOptions())


def test_the_list_of_phases_is_in_their_order_with_further_words(capsys: pytest.CaptureFixture[str]) -> None:
    commands.show_phases(Output(json="-"))
    shown = json.loads(capsys.readouterr().out)
    words = [one["word"] for one in shown["phases"]]
    assert words[0] == "users"
    assert words.index("munge-key") < words.index("slurm-conf") < words.index("slurmd")
    (key,) = (one for one in shown["phases"] if one["word"] == "munge-key")
    assert (key["phases"], key["also"]) == (["munge key"], ["users", "packages", "munge"])
    commands.show_phases(Output())
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[: len(words)]] == words
    assert "daemons" in lines[-1]


class Lacking:
    """A source without packages for n1."""

    def refusals(self, *_: object) -> dict[str, str]:
        return {"n1": "no bundle has its packages."}

    def deliver(self, _run: object, _input: object, resources: ResourcesByHost) -> ResourcesByHost:
        return resources


@pytest.mark.parametrize(("word", "excluded"), [("hosts-file", []), ("munge-key", ["n1"])])
def test_packages_that_no_source_has_are_asked_for_where_the_phases_rest_on_packages(
    word: str, excluded: list[str]
) -> None:
    run = run_over(in_place(), cluster(), only=choose([word]))
    run.packages = Lacking()
    assert list(deploy(run).failed_hosts) == excluded


def test_a_plan_of_some_phases_does_not_count_hardware_that_differs_from_the_lock() -> None:
    facts = with_key()
    lock = plan_input(cluster(), facts).lock
    assert facts["n1"].hardware
    facts["n1"] = dataclasses.replace(facts["n1"], hardware=dataclasses.replace(facts["n1"].hardware, CPUs=1))
    every, some = (
        dry_run(run_over(FakeHosts(facts), cluster(), lock=lock, command="plan", only=only))
        for only in (None, choose(["munge-key"]))
    )
    assert "hardware" in {step.phase for step in every.steps if step.differs}
    assert not [step for step in some.steps if step.differs]
    assert [(step.phase, step.host) for step in some.others] == [("hardware", "n1")]
