"""The promise to running jobs, kept by deployments against hosts and a Slurm that answer from memory."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_slurm import FakeSlurm, job_line
from support import MUNGE_KEY, cluster, facts_of, prepared, situation

from slurmfab.agent.node_states import our_reason
from slurmfab.cluster import Cluster
from slurmfab.consent import NOTHING, Consent
from slurmfab.deploy import deploy, look
from slurmfab.errors import DeployFailed, HostError, JobsInTheWay
from slurmfab.inventory import Inventory
from slurmfab.lock import Lock
from slurmfab.progress import Progress, summary
from slurmfab.run import Run
from slurmfab.situation import pin

FILES = "slurm-files:/etc/slurm"
DRAIN = Consent(drain_first=True)
MARK = our_reason("a change of SelectType needs it empty", "ann@laptop 2026-11-21T09:00")
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

    def run(self, consent: Consent = NOTHING) -> Run:
        """A deployment that has not begun."""
        known = Inventory(self.wanted, self.lock, Path("cluster.yaml"))
        return Run("deploy", known, self.slurm, Progress(self.told), self.wanted.hosts, consent=consent)

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
    text = dict(situation(old, facts).files)["slurm.conf"]
    facts["c1"] = dataclasses.replace(
        facts["c1"], munge_key=MUNGE_KEY, slurm_conf=text, services={"slurmctld": slurmctld}
    )
    facts = {host: facts[host] for host in wanted.hosts}
    slurm = FakeSlurm(facts, wrong={"c1": set(wrong)}, nodes=dict.fromkeys(old.compute_nodes, ("IDLE", "", "")))
    return Place(wanted, slurm, pin(wanted, Lock(), facts))


def select_linear() -> Place:
    """Hosts of which another SelectType is wanted."""
    return place(f"{TWO_PARTITIONS}slurm_conf: {{SelectType: select/linear}}\n", TWO_PARTITIONS)


def harmless() -> Place:
    """Hosts of which another time to wait is wanted."""
    return place(f"{TWO_PARTITIONS}slurm_conf: {{SlurmdTimeout: 400}}\n", TWO_PARTITIONS)


def after_looks(count: int, change: Callable[[], None]) -> Callable[[], None]:
    """Does something at the look at Slurm after this many."""
    looks = iter(range(1000))

    def looked() -> None:
        if next(looks) == count:
            change()

    return looked


def test_a_run_without_differences_asks_slurm_nothing_and_says_nothing_of_jobs() -> None:
    here = place(TWO_PARTITIONS, wrong=())
    here.slurm.jobs = [job_line(1, "n1")]
    looks: list[None] = []
    here.slurm.looked = lambda: looks.append(None)
    report = deploy(here.run())
    assert (looks, report.jobs, report.as_json()["jobs"]) == ([], None, None)
    assert "Jobs:" not in summary(report)


def test_a_harmless_change_goes_through_and_both_counts_are_told() -> None:
    here = harmless()
    here.slurm.jobs = [job_line(1, "n1"), job_line(2, "n2"), job_line(3, "", state="PENDING")]
    report = deploy(here.run())
    assert report.exit_code == 0
    assert "Jobs: 2 ran before, 2 run now." in summary(report).splitlines()
    assert report.as_json()["jobs"] == {"before": 2, "after": 2, "ended": [], "lost": []}


@pytest.mark.parametrize("state", ["inactive", "failed"])
def test_a_change_without_a_slurmctld_goes_through_and_says_nothing_of_jobs(state: str) -> None:
    here = place(f"{TWO_PARTITIONS}slurm_conf: {{SelectType: select/linear}}\n", TWO_PARTITIONS, slurmctld=state)
    here.slurm.jobs = [job_line(1, "n1")]
    report = deploy(here.run())
    assert (report.exit_code, report.jobs, here.slurm.wrong["c1"]) == (0, None, set())


def test_a_slurmctld_that_runs_and_does_not_answer_counts_as_none() -> None:
    here = select_linear()
    here.slurm.ping = "Slurmctld(primary) at c1 is DOWN\n"
    report = deploy(here.run())
    assert (report.exit_code, report.jobs) == (0, None)


def test_a_first_deployment_asks_slurm_nothing() -> None:
    here = select_linear()
    here.slurm.facts["c1"] = dataclasses.replace(here.slurm.facts["c1"], slurm_conf="")
    here.slurm.looked = lambda: pytest.fail("Slurm was asked")
    assert deploy(here.run()).exit_code == 0


@pytest.mark.parametrize(
    ("after", "name", "hurt"),
    [
        (f"{TWO_PARTITIONS}slurm_conf: {{SelectType: select/linear}}\n", "SelectType", ["1", "2"]),
        (f"{TWO_PARTITIONS}slurm_conf: {{SlurmdSpoolDir: /var/spool/slurmd}}\n", "SlurmdSpoolDir", ["1", "2"]),
        (ONE_PARTITION, "partition-removed", ["2"]),
        (ONE_NODE, "node-removed", ["2"]),
    ],
)
def test_a_dangerous_change_is_refused_with_the_jobs_before_anything_is_changed(
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
    assert [job.id for danger in run.forecast.dangers for job in danger.jobs] == hurt
    assert here.asked == ["facts", "compare"]
    report = run.report()
    assert (report.exit_code, report.as_json()["refused"], report.jobs) == (1, True, None)


def test_a_danger_that_shows_only_after_the_preparing_phases_is_refused_then() -> None:
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
    report = look(here.run())
    assert [(danger.name, [job.id for job in danger.jobs]) for danger in report.forecast.dangers] == [
        ("SelectType", ["1"])
    ]
    assert (report.is_refused, report.jobs) == (False, None)
    assert here.asked == ["facts", "compare"]


def test_an_accepted_danger_goes_through_and_the_jobs_that_it_hit_are_named_at_the_end() -> None:
    here = select_linear()
    here.slurm.jobs = [job_line(1, "n1"), job_line(2, "n2", "bob")]

    def lose() -> None:
        here.slurm.jobs.pop()
        here.slurm.ended = [job_line(2, "n2", "bob", state="NODE_FAIL", reason="NodeDown")]

    here.slurm.looked = after_looks(1, lose)
    report = deploy(here.run(Consent(allowed=frozenset({"SelectType"}))))
    assert report.exit_code == 0
    assert "Lost, as was accepted: job 2 (bob) on n2: NODE_FAIL, NodeDown." in summary(report)


def test_a_job_that_is_lost_by_a_harmless_change_is_said_loudly_and_the_run_has_failed() -> None:
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
    assert "Ended meanwhile: 3 (ann) on n2: COMPLETED." in summary(report)
    assert "all is as wanted" not in summary(report)
    told = report.as_json()["jobs"]
    assert [(told["before"], told["after"]), *(job["id"] for job in told["lost"])] == [(3, 1), "2"]


def test_jobs_are_counted_also_when_the_controller_fails_on_the_way() -> None:
    here = harmless()
    here.slurm.jobs = [job_line(1, "n1")]
    here.slurm.failing = {"c1": {FILES}}
    run = here.run()
    with pytest.raises(DeployFailed):
        deploy(run)
    assert run.report().as_json()["jobs"]["after"] is None
    assert "Jobs: 1 ran before; slurmctld does not answer" in here.told.getvalue()


def test_draining_first_drains_all_nodes_waits_changes_and_gives_them_back() -> None:
    here = select_linear()
    here.slurm.jobs = [job_line(1, "n1")]
    here.slurm.wrong["c1"] |= {"node-drain:n1,n2", "node-resume:n1,n2"}
    here.slurm.looked = after_looks(1, here.slurm.jobs.clear)
    report = deploy(here.run(DRAIN))
    assert report.exit_code == 0
    assert here.changed == [
        "node-drain", "directory,slurm-files,absent", "service", "slurm-nodes", "node-resume",
    ]  # fmt: skip
    assert "Waiting for 1 (ann) on n[1-2]: a change of SelectType needs it empty." in here.told.getvalue()
    assert here.slurm.nodes == {"n1": ("IDLE", "", ""), "n2": ("IDLE", "", "")}
    assert report.as_json()["jobs"] == {"before": 0, "after": 0, "ended": [], "lost": []}


def test_draining_first_leaves_a_node_as_it_is_that_somebody_drained_before_or_meanwhile() -> None:
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


def test_draining_first_without_jobs_in_the_way_drains_nothing() -> None:
    here = select_linear()
    assert deploy(here.run(DRAIN)).exit_code == 0
    assert "node-drain" not in here.changed


def test_draining_first_for_a_node_that_goes_drains_that_node_alone() -> None:
    here = place(ONE_NODE, TWO_PARTITIONS)
    here.slurm.jobs = [job_line(1, "n1"), job_line(2, "n2")]
    here.slurm.wrong["c1"] |= {"node-drain:n2"}
    here.slurm.looked = after_looks(1, here.slurm.jobs.pop)
    report = deploy(here.run(DRAIN))
    assert (report.exit_code, here.slurm.nodes["n1"]) == (0, ("IDLE", "", ""))
    assert here.slurm.nodes["n2"][1].startswith("slurmfab: a change of the set of nodes needs it empty (")


def test_draining_first_for_a_partition_that_goes_closes_it_and_no_node() -> None:
    here = place(ONE_PARTITION, TWO_PARTITIONS)
    here.slurm.jobs = [job_line(1, "n2"), job_line(2, "n2", partition="debug")]
    here.slurm.looked = after_looks(1, here.slurm.jobs.pop)
    report = deploy(here.run(DRAIN))
    assert (report.exit_code, here.slurm.closed) == (0, ["debug"])
    assert here.slurm.nodes == {"n1": ("IDLE", "", ""), "n2": ("IDLE", "", "")}
    assert "Waiting for 2 (ann) on partition debug" in here.told.getvalue()


def test_draining_first_does_not_help_jobs_that_wait_in_a_partition_that_goes() -> None:
    here = place(ONE_PARTITION, TWO_PARTITIONS)
    here.slurm.jobs = [job_line(1, "n2", partition="debug"), job_line(2, "", state="PENDING", partition="debug")]
    with pytest.raises(JobsInTheWay, match="job 2 of ann"):
        deploy(here.run(DRAIN))
    assert here.asked == ["facts", "compare"]


def test_a_run_that_is_cut_off_while_it_waits_says_what_stays_drained_and_the_next_goes_on() -> None:
    here = select_linear()
    here.slurm.jobs = [job_line(1, "n1")]
    here.slurm.wrong["c1"] |= {"node-drain:n1,n2", "node-resume:n1,n2"}

    def cut_off() -> None:
        raise KeyboardInterrupt

    here.slurm.looked = after_looks(1, cut_off)
    with pytest.raises(KeyboardInterrupt):
        deploy(here.run(DRAIN))
    assert "n[1-2]: still drained for this change. The same command goes on with it; to take the drain back: " in (
        here.told.getvalue()
    )
    here.slurm.looked = after_looks(1, here.slurm.jobs.clear)
    assert deploy(here.run(DRAIN)).exit_code == 0
    assert here.slurm.nodes == {"n1": ("IDLE", "", ""), "n2": ("IDLE", "", "")}


def test_a_run_that_is_cut_off_while_it_waits_does_not_name_what_somebody_else_had_drained() -> None:
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


def test_nodes_that_a_run_which_was_cut_off_left_drained_are_told_and_given_back_only_when_that_is_asked_for() -> None:
    here = place(TWO_PARTITIONS, wrong=("node-resume:n1,n2",))
    here.slurm.nodes["n2"] = ("IDLE+DRAIN", MARK, "root")
    for done in (look(here.run()), deploy(here.run())):
        assert (done.exit_code, done.left_drained, done.as_json()["left_drained"]) == (0, ("n2",), ["n2"])
    assert here.told.getvalue().count("n2: still drained for a change, by a deployment") == 2
    assert here.changed == []
    report = deploy(here.run(DRAIN))
    assert (report.left_drained, here.slurm.nodes["n2"]) == ((), ("IDLE", "", ""))
    assert [(step.phase, step.host) for step in report.steps] == [("resume", "c1")]


def test_running_jobs_are_waited_for_also_where_the_loss_of_those_that_wait_is_accepted() -> None:
    here = place(ONE_PARTITION, TWO_PARTITIONS)
    here.slurm.jobs = [
        job_line(2, "", state="PENDING", partition="debug"),
        job_line(1, "n2", partition="debug"),
    ]
    here.slurm.looked = after_looks(1, here.slurm.jobs.pop)
    report = deploy(here.run(Consent(drain_first=True, allowed=frozenset({"partition-removed"}))))
    assert (report.exit_code, here.slurm.closed) == (0, ["debug"])
    assert "Waiting for 1 (ann) on partition debug" in here.told.getvalue()


def test_a_refused_run_tells_as_well_which_nodes_an_earlier_one_has_left_drained() -> None:
    here = select_linear()
    here.slurm.jobs = [job_line(1, "n1")]
    here.slurm.nodes["n2"] = ("IDLE+DRAIN", MARK, "root")
    with pytest.raises(JobsInTheWay):
        deploy(here.run())
    assert "n2: still drained for a change, by a deployment" in here.told.getvalue()


@pytest.mark.parametrize(("here", "is_refused"), [(select_linear(), True), (harmless(), False)])
def test_a_slurmctld_that_does_not_say_which_jobs_there_are_stops_only_what_could_hurt_them(
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


def test_a_host_that_was_restarted_during_the_wait_is_no_lost_host() -> None:
    here = select_linear()
    here.slurm.jobs = [job_line(1, "n1")]
    here.slurm.wrong["c1"] |= {"node-drain:n1,n2", "node-resume:n1,n2"}
    here.slurm.looked = after_looks(1, here.slurm.jobs.clear)
    here.slurm.losing = {"n1": 3}
    report = deploy(here.run(DRAIN))
    assert (report.exit_code, report.lost) == (0, {})


def test_a_node_that_is_lost_on_the_way_is_told_to_be_still_drained_and_the_others_go_back() -> None:
    here = select_linear()
    here.slurm.jobs = [job_line(1, "n1")]
    here.slurm.wrong = {"c1": {FILES, "node-drain:n1,n2", "node-resume:n2"}, "n1": {FILES}}
    here.slurm.failing = {"n1": {FILES}}
    here.slurm.looked = after_looks(1, here.slurm.jobs.clear)
    report = deploy(here.run(DRAIN))
    assert (report.exit_code, report.left_drained) == (3, ("n1",))
    assert here.slurm.nodes["n2"] == ("IDLE", "", "")
    assert "n1: still drained for a change, by a deployment" in here.told.getvalue()


def test_a_refusal_to_a_command_that_takes_no_consent_says_who_does() -> None:
    here = select_linear()
    here.slurm.jobs = [job_line(1, "n1")]
    run = here.run()
    run.command = "add-node"
    with pytest.raises(JobsInTheWay, match="Say that to fab deploy"):
        deploy(run)
