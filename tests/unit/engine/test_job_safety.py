"""The promise to running jobs, kept by deployments against hosts and a Slurm that answer from memory."""

from __future__ import annotations

import contextlib
import dataclasses
import io
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_slurm import UP, FakeSlurm, job_line
from json_shapes import assert_fits
from support import MUNGE_KEY, cluster, facts_of, plan_input, prepared
from terminals import at_a_terminal, words_on

from slurmfab.base.errors import DeployFailed, HostError, JobsInTheWay, SlurmfabError
from slurmfab.base.json_output import as_json
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.core.engine import job_safety
from slurmfab.core.engine.converge import converge_differences, deploy, dry_run
from slurmfab.core.engine.job_safety import MIN_JOB_AGE, JobSafety
from slurmfab.core.engine.progress import Progress
from slurmfab.core.engine.run import Run, RunOptions
from slurmfab.core.engine.summary import summary
from slurmfab.core.impact.approvals import NOTHING, Approvals
from slurmfab.core.plan.pinned import pin
from slurmfab.core.status.snapshot import Job
from slurmfab.on_hosts.agent.nodes.states import our_reason

FILES = "slurm-files:/etc/slurm"
DRAIN = Approvals(drain_first=True)
MARK = our_reason("drained by a deployment for a change of SelectType", "ann@laptop 2026-11-21T09:00")
TWO_PARTITIONS = """\
cluster: lab
addresses: {c1: 10.0.0.1, "n[1-2]": "10.0.0.[2-3]"}
controllers: [c1]
nodes: [{hosts: "n[1-2]"}]
partitions:
  - {PartitionName: main, Nodes: ALL}
  - {PartitionName: debug, Nodes: n2}
"""
ONE_NODE = TWO_PARTITIONS.replace("n[1-2]", "n1").replace("10.0.0.[2-3]", "10.0.0.2").replace("Nodes: n2", "Nodes: n1")
ONE_PARTITION = TWO_PARTITIONS.replace("  - {PartitionName: debug, Nodes: n2}\n", "")


@dataclasses.dataclass
class Place:
    """A cluster at work of which the cluster file says something else than its hosts have."""

    wanted: Cluster
    slurm: FakeSlurm
    lock: Lock
    told: io.StringIO = dataclasses.field(default_factory=io.StringIO)

    def run(self, approvals: Approvals = NOTHING, command: str = "deploy", *, asks: bool = False) -> Run:
        """A deployment that has not begun."""
        known = Inventory(self.wanted, self.lock, Path("cluster.yaml"))
        return Run(RunOptions(command, approvals, asks=asks), known, self.wanted.hosts, self.slurm, Progress(self.told))

    @property
    def changed(self) -> list[str]:
        """The kinds of resources that were converged on the controller, in order."""
        return [word.removeprefix("apply ") for word in self.asked if word.startswith("apply ")]

    @property
    def asked(self) -> list[str]:
        """What the controller was asked but for looks at Slurm."""
        kept = [(host, request) for host, request in self.slurm.requests if request["op"] != "slurm"]
        return FakeSlurm(facts={}, requests=kept).of("c1")


def place(after: str, before: str = "", *, slurmctld: str = "active", wrong: tuple[str, ...] = (FILES,)) -> Place:
    """Three hosts with the slurm.conf of one cluster file, when another one is wanted."""
    wanted, old = cluster(after), cluster(before or after)
    facts = facts_of(old, prepared)
    text = dict(plan_input(old, facts).files)["slurm.conf"]
    facts["c1"] = dataclasses.replace(
        facts["c1"], munge_key=MUNGE_KEY, slurm_conf=text, services={"slurmctld": slurmctld}
    )
    known = pin(old, Lock(), facts)
    facts = {host: facts[host] for host in wanted.hosts}
    slurm = FakeSlurm(facts, wrong={"c1": set(wrong)}, nodes=dict.fromkeys(old.compute_nodes, ("IDLE", "", "")))
    return Place(wanted, slurm, pin(wanted, known, facts))


def select_linear() -> Place:
    """Hosts of which another SelectType is wanted."""
    return place(f"{TWO_PARTITIONS}slurm_conf: {{SelectType: select/linear}}\n", TWO_PARTITIONS)


def harmless() -> Place:
    """Hosts of which another time to wait is wanted."""
    return place(f"{TWO_PARTITIONS}slurm_conf: {{SlurmdTimeout: 400}}\n", TWO_PARTITIONS)


def restarting() -> Place:
    """Hosts of which a setting is wanted that needs a restart of the daemons, while a job runs."""
    here = place(f"{TWO_PARTITIONS}slurm_conf: {{CommunicationParameters: NoAddrCache}}\n", TWO_PARTITIONS)
    here.slurm.jobs = [job_line(1, "n1")]
    return here


def after_looks(count: int, change: Callable[[], None]) -> Callable[[], None]:
    """Does something at the look at Slurm after this many."""
    looks = iter(range(1000))

    def looked() -> None:
        if next(looks) == count:
            change()

    return looked


def test_a_run_without_differences_does_not_ask_slurm() -> None:
    here = place(TWO_PARTITIONS, wrong=())
    here.slurm.jobs = [job_line(1, "n1")]
    looks: list[None] = []
    here.slurm.looked = lambda: looks.append(None)
    report = deploy(here.run())
    assert (looks, report.jobs, as_json(report)["jobs"]) == ([], None, None)
    assert "Jobs:" not in summary(report)


def test_a_harmless_change_is_made_and_both_job_counts_are_printed() -> None:
    here = harmless()
    here.slurm.jobs = [job_line(1, "n1"), job_line(2, "n2"), job_line(3, "", state="PENDING")]
    report = deploy(here.run())
    assert report.exit_code == 0
    assert "Jobs: 2 ran before, 2 run now." in summary(report).splitlines()
    assert as_json(report)["jobs"] == {"before": 2, "after": 2, "ended": [], "lost": []}


@pytest.mark.parametrize("state", ["inactive", "failed"])
def test_a_change_without_a_slurmctld_is_made_without_job_counts(state: str) -> None:
    here = place(f"{TWO_PARTITIONS}slurm_conf: {{SelectType: select/linear}}\n", TWO_PARTITIONS, slurmctld=state)
    here.slurm.jobs = [job_line(1, "n1")]
    report = deploy(here.run())
    assert (report.exit_code, report.jobs, here.slurm.wrong["c1"]) == (0, None, set())


def test_a_slurmctld_that_does_not_answer_counts_as_absent() -> None:
    here = select_linear()
    here.slurm.ping = "Slurmctld(primary) at c1 is DOWN\n"
    report = deploy(here.run())
    assert (report.exit_code, report.jobs) == (0, None)


def test_a_first_deployment_does_not_ask_slurm() -> None:
    here = select_linear()
    here.slurm.facts["c1"] = dataclasses.replace(here.slurm.facts["c1"], slurm_conf="")
    here.slurm.looked = lambda: pytest.fail("Slurm was asked")
    assert deploy(here.run()).exit_code == 0


@pytest.mark.parametrize(
    ("after", "name", "hurt"),
    [
        (f"{TWO_PARTITIONS}slurm_conf: {{SelectType: select/linear}}\n", "SelectType", ["1", "2"]),
        (f"{TWO_PARTITIONS}slurm_conf: {{SlurmdSpoolDir: /srv/slurmd}}\n", "SlurmdSpoolDir", ["1", "2"]),
        (ONE_PARTITION, "partition-removed", ["2"]),
        (ONE_NODE, "node-removed", ["2"]),
    ],
)
def test_a_disruptive_change_is_refused_with_the_jobs_before_anything_is_changed(
    after: str, name: str, hurt: list[str]
) -> None:
    here = place(after, TWO_PARTITIONS, wrong=(FILES, "user:slurm"))
    here.slurm.jobs = [job_line(1, "n1"), job_line(2, "n2", "bob", partition="debug")]
    run = here.run()
    with pytest.raises(JobsInTheWay) as refusal:
        deploy(run)
    assert refusal.value.exit_code == 1
    assert f"--allow {name}" in str(refusal.value)
    assert str(refusal.value).endswith("Nothing was changed.")
    assert [job.id for danger in run.job_impact.forecast.disruptions for job in danger.jobs] == hurt
    assert here.asked == ["facts", "compare"]
    report = run.report()
    assert (report.exit_code, as_json(report)["refused"], report.jobs) == (1, True, None)


def test_a_disruption_that_shows_only_after_the_preparing_phases_is_refused_then() -> None:
    here = place(f"{TWO_PARTITIONS}slurm_conf: {{SelectType: select/linear}}\n", TWO_PARTITIONS,
                 wrong=(FILES, "user:slurm"))  # fmt: skip
    here.slurm.looked = after_looks(1, lambda: here.slurm.jobs.append(job_line(7, "n1")))
    with pytest.raises(JobsInTheWay, match="job 7 of ann") as refusal:
        deploy(here.run())
    assert str(refusal.value).endswith("Nothing more was changed.")
    assert FILES in here.slurm.wrong["c1"]


def test_a_plan_shows_what_a_deployment_would_refuse_and_changes_nothing() -> None:
    here = select_linear()
    here.slurm.jobs = [job_line(1, "n1")]
    report = dry_run(here.run())
    assert [(danger.name, [job.id for job in danger.jobs]) for danger in report.forecast.disruptions] == [
        ("SelectType", ["1"])
    ]
    assert (report.is_refused, report.jobs) == (False, None)
    assert here.asked == ["facts", "compare"]


def test_an_allowed_disruption_is_made_and_the_jobs_that_it_ended_are_named() -> None:
    here = select_linear()
    here.slurm.jobs = [job_line(1, "n1"), job_line(2, "n2", "bob")]

    def lose() -> None:
        here.slurm.jobs.pop()
        here.slurm.ended = [job_line(2, "n2", "bob", state="NODE_FAIL", reason="NodeDown")]

    here.slurm.looked = after_looks(1, lose)
    report = deploy(here.run(Approvals(allowed=frozenset({"SelectType"}))))
    assert report.exit_code == 0
    assert "Lost (allowed): job 2 (bob) on n2: NODE_FAIL, NodeDown." in summary(report)


def test_a_job_lost_by_a_harmless_change_is_named_and_the_run_fails() -> None:
    here = harmless()
    here.slurm.jobs = [job_line(1, "n1"), job_line(2, "n2", "bob"), job_line(3, "n2")]

    def lose() -> None:
        here.slurm.jobs = [job_line(1, "n1")]
        here.slurm.ended = [job_line(2, "n2", "bob", state="NODE_FAIL", reason="NodeDown"),
                            job_line(3, "n2", state="COMPLETED")]  # fmt: skip

    here.slurm.looked = after_looks(1, lose)
    report = deploy(here.run())
    assert report.exit_code == 1
    assert "LOST: job 2 (bob) on n2: NODE_FAIL, NodeDown." in summary(report)
    assert "Ended by themselves: 3 (ann) on n2: COMPLETED." in summary(report)
    assert "all is as wanted" not in summary(report)
    assert_fits("run", as_json(report))
    told = as_json(report)["jobs"]
    assert [(told["before"], told["after"]), *(job["id"] for job in told["lost"])] == [(3, 1), "2"]


def test_jobs_are_counted_only_once_a_slurmctld_that_answers_also_lists_them() -> None:
    here = harmless()
    here.slurm.jobs = [job_line(1, "n1"), job_line(2, "n2")]
    looks: list[str] = []

    def restarted() -> None:
        here.slurm.trouble = "" if len(looks) in (0, 3) else "slurm_load_jobs error: Unable to contact slurm controller"
        looks.append(here.slurm.trouble)

    here.slurm.looked = restarted
    run = here.run()
    safety = JobSafety(run, pause=lambda _: None)
    converge_differences(run, safety)
    safety.finish()
    assert as_json(run.report())["jobs"] == {"before": 2, "after": 2, "ended": [], "lost": []}
    assert [bool(trouble) for trouble in looks] == [False, True, True, False]


def counted(here: Place) -> tuple[Run, JobSafety]:
    """A run that has counted its jobs before a change."""
    run = here.run()
    safety = JobSafety(run, pause=lambda _: None)
    safety.count_jobs(plan_input(here.wanted, here.slurm.facts), safety.snapshot())
    return run, safety


def lost_and_ended(run: Run) -> tuple[list[str], list[str]]:
    jobs = as_json(run.report())["jobs"]
    return [job["id"] for job in jobs["lost"]], [job["id"] for job in jobs["ended"]]


def test_a_job_that_was_there_at_the_first_count_is_missed_though_a_later_count_had_it_no_more() -> None:
    here = harmless()
    here.slurm.jobs = [job_line(1, "n1"), job_line(2, "n2")]
    run, safety = counted(here)
    here.slurm.jobs = [job_line(1, "n1"), job_line(3, "n2")]
    safety.count_jobs(plan_input(here.wanted, here.slurm.facts), safety.snapshot())
    here.slurm.jobs = []
    safety.count_jobs_again()
    lost, ended = lost_and_ended(run)
    assert (sorted(lost), ended) == (["1", "2", "3"], [])
    assert as_json(run.report())["jobs"]["before"] == 2


@pytest.mark.parametrize(
    ("slurmd", "steps", "is_earlier"),
    [
        pytest.param("failed", [], True, id="slurmd and the job were killed"),
        pytest.param("failed", ["1.batch"], False, id="slurmd was killed, and the job went on"),
        pytest.param("active", [], False, id="slurmd runs"),
    ],
)
def test_a_job_whose_processes_were_gone_before_the_first_change_is_lost_before_the_run_and_not_by_it(
    slurmd: str, steps: list[str], is_earlier: bool
) -> None:
    here = harmless()
    here.slurm.facts["n1"] = dataclasses.replace(here.slurm.facts["n1"], services={"slurmd": slurmd})
    here.slurm.jobs, here.slurm.processes["n1"] = [job_line(1, "n1")], steps
    run, safety = counted(here)
    here.slurm.jobs = []
    safety.count_jobs_again()
    report = run.report()
    assert [job["earlier"] for job in as_json(report)["jobs"]["lost"]] == [is_earlier]
    assert report.exit_code == (0 if is_earlier else 1)
    assert ("Lost before this run" in summary(report), "FAILED: jobs were lost" in summary(report)) == (
        is_earlier,
        not is_earlier,
    )


@pytest.mark.parametrize(("seconds", "is_lost"), [(0, True), (MIN_JOB_AGE + 1, False)])
def test_a_job_that_slurmctld_no_longer_knows_is_lost_unless_slurmctld_may_have_forgotten_it(
    seconds: float, is_lost: bool
) -> None:
    here = harmless()
    here.slurm.jobs = [job_line(1, "n1")]
    run, safety = counted(here)
    assert safety.counted_at is not None
    safety.counted_at -= seconds
    here.slurm.jobs = []
    safety.count_jobs_again()
    assert lost_and_ended(run) == ((["1"], []) if is_lost else ([], ["1"]))


def test_a_job_of_which_slurmctld_could_not_be_asked_is_not_said_to_be_lost() -> None:
    here = harmless()
    here.slurm.jobs = [job_line(1, "n1")]
    run, safety = counted(here)
    here.slurm.jobs = []

    def lost(*_: object) -> dict[str, Job]:
        raise HostError("c1", "the connection was lost.")

    safety.final_states = lost  # type: ignore[method-assign]
    safety.count_jobs_again()
    assert lost_and_ended(run) == ([], ["1"])


def test_jobs_are_counted_once_after_the_changes_and_not_again_for_an_error_after_that() -> None:
    here = harmless()
    here.slurm.jobs = [job_line(1, "n1")]
    _, safety = counted(here)
    safety.count_jobs_again()
    here.slurm.looked = lambda: pytest.fail("Slurm was asked again")
    safety.count_jobs_again()


def test_jobs_are_counted_also_when_a_step_failed_on_the_controller_whose_slurmctld_answers() -> None:
    here = harmless()
    here.slurm.jobs = [job_line(1, "n1")]
    here.slurm.failing = {"c1": {FILES}}
    run = here.run()
    with pytest.raises(DeployFailed):
        deploy(run)
    assert as_json(run.report())["jobs"] == {"before": 1, "after": 1, "ended": [], "lost": []}
    assert "Jobs: 1 ran before, 1 runs now." in here.told.getvalue()
    assert "does not answer" not in here.told.getvalue()


def test_a_controller_that_is_lost_is_named_as_the_reason_why_the_number_of_jobs_is_unknown() -> None:
    here = harmless()
    here.slurm.jobs = [job_line(1, "n1")]
    here.slurm.vanishing = {"c1": FILES}
    run = here.run()
    with pytest.raises(DeployFailed):
        deploy(run)
    assert as_json(run.report())["jobs"]["unknown"] == "c1 cannot be reached"
    assert_fits("run", as_json(run.report()))
    assert "Jobs: 1 ran before; c1 cannot be reached, so the number of running jobs is" in here.told.getvalue()


@pytest.mark.parametrize(
    ("trouble", "ping", "unknown"),
    [
        ("squeue: error: timed out", UP, "slurmctld answers, but not about jobs (squeue: error: timed out)"),
        ("", UP.replace("UP", "DOWN"), "slurmctld does not answer"),
    ],
)
def test_why_the_number_of_jobs_is_unknown_is_what_slurmctld_said_last(
    monkeypatch: pytest.MonkeyPatch, trouble: str, ping: str, unknown: str
) -> None:
    monkeypatch.setattr(job_safety, "ANSWER_SECONDS", 0.0)
    here = harmless()
    here.slurm.jobs = [job_line(1, "n1")]

    def fail() -> None:
        here.slurm.trouble, here.slurm.ping = trouble, ping

    here.slurm.looked = after_looks(1, fail)
    report = deploy(here.run())
    assert (report.exit_code, as_json(report)["jobs"]["unknown"]) == (1, unknown)
    assert f"FAILED: {unknown} (see above)" in summary(report)


def test_drain_first_drains_all_nodes_waits_changes_and_resumes_them() -> None:
    here = select_linear()
    here.slurm.jobs = [job_line(1, "n1")]
    here.slurm.wrong["c1"] |= {"node-drain:n1,n2", "node-resume:n1,n2"}
    here.slurm.looked = after_looks(1, here.slurm.jobs.clear)
    report = deploy(here.run(DRAIN))
    assert report.exit_code == 0
    assert here.changed == [
        "node-drain", "slurm-files,absent", "service", "slurm-nodes", "node-resume",
    ]  # fmt: skip
    assert "Waiting for 1 (ann) on n[1-2]: drained by a deployment for a change of SelectType." in here.told.getvalue()
    assert here.slurm.nodes == {"n1": ("IDLE", "", ""), "n2": ("IDLE", "", "")}
    assert as_json(report)["jobs"] == {"before": 0, "after": 0, "ended": [], "lost": []}


def test_drain_first_leaves_a_node_drained_that_an_administrator_drained() -> None:
    here = select_linear()
    here.slurm.jobs = [job_line(1, "n1")]
    here.slurm.nodes["n2"] = ("IDLE+DRAIN", "fan is loud", "root")
    here.slurm.wrong["c1"] |= {"node-drain:n1,n2", "node-resume:n1,n2"}

    def meanwhile() -> None:
        here.slurm.jobs.clear()
        here.slurm.nodes["n1"] = ("IDLE+DRAIN", "smells of smoke", "root")

    here.slurm.looked = after_looks(1, meanwhile)
    assert deploy(here.run(DRAIN)).exit_code == 0
    assert {name: reason for name, (_, reason, _) in here.slurm.nodes.items()} == {
        "n1": "smells of smoke",
        "n2": "fan is loud",
    }


def test_drain_first_without_harmed_jobs_drains_nothing() -> None:
    here = select_linear()
    assert deploy(here.run(DRAIN)).exit_code == 0
    assert "node-drain" not in here.changed


def test_drain_first_for_a_removed_node_drains_that_node_alone() -> None:
    here = place(ONE_NODE, TWO_PARTITIONS)
    here.slurm.jobs = [job_line(1, "n1"), job_line(2, "n2")]
    here.slurm.wrong["c1"] |= {"node-drain:n2"}
    here.slurm.looked = after_looks(1, here.slurm.jobs.pop)
    report = deploy(here.run(DRAIN))
    assert (report.exit_code, here.slurm.nodes["n1"]) == (0, ("IDLE", "", ""))
    assert here.slurm.nodes["n2"][1].startswith("slurmfab: drained by a deployment for a change of the set of nodes (")


def test_drain_first_for_a_removed_partition_drains_it_and_no_node() -> None:
    here = place(ONE_PARTITION, TWO_PARTITIONS)
    here.slurm.jobs = [job_line(1, "n2"), job_line(2, "n2", partition="debug")]
    here.slurm.looked = after_looks(1, here.slurm.jobs.pop)
    report = deploy(here.run(DRAIN))
    assert (report.exit_code, here.slurm.closed) == (0, ["debug"])
    assert here.slurm.nodes == {"n1": ("IDLE", "", ""), "n2": ("IDLE", "", "")}
    assert "Waiting for 2 (ann) on partition debug" in here.told.getvalue()


def test_drain_first_does_not_save_pending_jobs_of_a_removed_partition() -> None:
    here = place(ONE_PARTITION, TWO_PARTITIONS)
    here.slurm.jobs = [job_line(1, "n2", partition="debug"), job_line(2, "", state="PENDING", partition="debug")]
    with pytest.raises(JobsInTheWay, match="job 2 of ann"):
        deploy(here.run(DRAIN))
    assert here.asked == ["facts", "compare"]


def test_a_run_interrupted_while_it_waits_names_what_is_still_drained_and_the_next_continues() -> None:
    here = select_linear()
    here.slurm.jobs = [job_line(1, "n1")]
    here.slurm.wrong["c1"] |= {"node-drain:n1,n2", "node-resume:n1,n2"}

    def cut_off() -> None:
        raise KeyboardInterrupt

    here.slurm.looked = after_looks(1, cut_off)
    with pytest.raises(KeyboardInterrupt):
        deploy(here.run(DRAIN))
    assert "n[1-2]: still drained for this change. To continue: run the same command again; to resume: " in (
        here.told.getvalue()
    )
    here.slurm.looked = after_looks(1, here.slurm.jobs.clear)
    assert deploy(here.run(DRAIN)).exit_code == 0
    assert here.slurm.nodes == {"n1": ("IDLE", "", ""), "n2": ("IDLE", "", "")}


def test_a_run_interrupted_while_it_waits_does_not_name_nodes_that_an_administrator_drained() -> None:
    here = select_linear()
    here.slurm.jobs = [job_line(1, "n1")]
    here.slurm.nodes["n2"] = ("IDLE+DRAIN", "broken fan", "ann")

    def cut_off() -> None:
        raise KeyboardInterrupt

    here.slurm.looked = after_looks(1, cut_off)
    with pytest.raises(KeyboardInterrupt):
        deploy(here.run(DRAIN))
    assert "n1: still drained for this change." in here.told.getvalue()
    assert "n[1-2]: still drained" not in here.told.getvalue()


def test_nodes_that_an_interrupted_run_left_drained_are_named_and_resumed_only_with_drain_first() -> None:
    here = place(TWO_PARTITIONS, wrong=("node-resume:n1,n2",))
    here.slurm.nodes["n2"] = ("IDLE+DRAIN", MARK, "root")
    for done in (dry_run(here.run()), deploy(here.run())):
        assert (done.exit_code, done.left_drained, as_json(done)["left_drained"]) == (0, ("n2",), ["n2"])
    assert here.told.getvalue().count("n2: still drained by a deployment that was interrupted") == 2
    assert here.changed == []
    report = deploy(here.run(DRAIN))
    assert (report.left_drained, here.slurm.nodes["n2"]) == ((), ("IDLE", "", ""))
    assert [(step.phase, step.host) for step in report.steps] == [("resume", "c1")]


def test_running_jobs_are_waited_for_also_where_the_loss_of_pending_ones_is_allowed() -> None:
    here = place(ONE_PARTITION, TWO_PARTITIONS)
    here.slurm.jobs = [
        job_line(2, "", state="PENDING", partition="debug"),
        job_line(1, "n2", partition="debug"),
    ]
    here.slurm.looked = after_looks(1, here.slurm.jobs.pop)
    report = deploy(here.run(Approvals(drain_first=True, allowed=frozenset({"partition-removed"}))))
    assert (report.exit_code, here.slurm.closed) == (0, ["debug"])
    assert "Waiting for 1 (ann) on partition debug" in here.told.getvalue()


def test_a_refused_run_names_the_nodes_that_an_earlier_one_left_drained() -> None:
    here = select_linear()
    here.slurm.jobs = [job_line(1, "n1")]
    here.slurm.nodes["n2"] = ("IDLE+DRAIN", MARK, "root")
    with pytest.raises(JobsInTheWay):
        deploy(here.run())
    assert "n2: still drained by a deployment that was interrupted" in here.told.getvalue()


@pytest.mark.parametrize(("here", "is_refused"), [(select_linear(), True), (harmless(), False)])
def test_a_slurmctld_that_does_not_list_its_jobs_stops_only_changes_that_could_harm_them(
    here: Place, is_refused: bool
) -> None:
    here.slurm.trouble = "squeue ended with exit code 1: Unable to contact slurm controller"
    if not is_refused:
        here.slurm.looked = after_looks(1, lambda: setattr(here.slurm, "trouble", ""))
        assert deploy(here.run()).exit_code == 0
        return
    with pytest.raises(HostError, match=r"SelectType: select/cons_tres -> select/linear\. Nothing"):
        deploy(here.run())
    assert here.asked == ["facts", "compare"]


def test_a_host_that_restarted_during_the_wait_is_not_excluded() -> None:
    here = select_linear()
    here.slurm.jobs = [job_line(1, "n1")]
    here.slurm.wrong["c1"] |= {"node-drain:n1,n2", "node-resume:n1,n2"}
    here.slurm.looked = after_looks(1, here.slurm.jobs.clear)
    here.slurm.losing = {"n1": 3}
    report = deploy(here.run(DRAIN))
    assert (report.exit_code, report.failed_hosts) == (0, {})


def test_a_node_that_fails_stays_drained_and_is_named_and_the_others_are_resumed() -> None:
    here = select_linear()
    here.slurm.jobs = [job_line(1, "n1")]
    here.slurm.wrong = {"c1": {FILES, "node-drain:n1,n2", "node-resume:n2"}, "n1": {FILES}}
    here.slurm.failing = {"n1": {FILES}}
    here.slurm.looked = after_looks(1, here.slurm.jobs.clear)
    report = deploy(here.run(DRAIN))
    assert (report.exit_code, report.left_drained) == (3, ("n1",))
    assert here.slurm.nodes["n2"] == ("IDLE", "", "")
    assert "n1: still drained by a deployment that was interrupted" in here.told.getvalue()


def test_a_refusal_to_a_command_without_allow_names_the_command_that_has_it() -> None:
    here = select_linear()
    here.slurm.jobs = [job_line(1, "n1")]
    run = here.run(command="add-node")
    with pytest.raises(JobsInTheWay, match=r"To proceed anyway: fab deploy .*\n.* Then run this command again"):
        deploy(run)


@pytest.mark.parametrize(("typed", "goes_on"), [("y\n", True), ("\n", False)])
def test_a_restart_under_jobs_when_somebody_can_answer_then_is_told_and_asked_once(
    monkeypatch: pytest.MonkeyPatch, typed: str, goes_on: bool
) -> None:
    here, shown = restarting(), at_a_terminal(monkeypatch, typed)
    with contextlib.nullcontext() if goes_on else pytest.raises(SlurmfabError, match=r"Nothing was changed\."):
        deploy(here.run(asks=True))
    assert bool(here.changed) == goes_on
    assert shown.getvalue().count("Deploy? [y/N]") == 1
    assert "1 job runs and goes on meanwhile." in words_on(shown)
    assert "slurmctld on c1" in shown.getvalue()


def test_harm_to_pending_jobs_when_it_is_allowed_and_somebody_can_answer_then_names_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here, shown = place(ONE_PARTITION, TWO_PARTITIONS), at_a_terminal(monkeypatch, "n\n")
    here.slurm.jobs = [job_line(1, "", partition="debug", state="PENDING")]
    with pytest.raises(SlurmfabError, match="Nothing was changed"):
        deploy(here.run(Approvals(allowed=frozenset({"partition-removed"})), asks=True))
    assert "job 1 of ann, pending in debug" in shown.getvalue()
    assert "To proceed anyway" not in shown.getvalue()
    assert here.changed == []


@pytest.mark.parametrize(("asks", "has_terminal"), [(False, True), (True, False)])
def test_a_restart_under_jobs_with_yes_or_without_a_terminal_then_nobody_is_asked(
    monkeypatch: pytest.MonkeyPatch, asks: bool, has_terminal: bool
) -> None:
    here, shown = restarting(), at_a_terminal(monkeypatch, "n\n", is_one=has_terminal)
    deploy(here.run(asks=asks))
    assert here.changed
    assert "[y/N]" not in shown.getvalue()


def test_a_reconfigure_under_jobs_when_somebody_can_answer_then_is_no_question(monkeypatch: pytest.MonkeyPatch) -> None:
    here, shown = harmless(), at_a_terminal(monkeypatch, "n\n")
    here.slurm.jobs = [job_line(1, "n1")]
    deploy(here.run(asks=True))
    assert "[y/N]" not in shown.getvalue()
