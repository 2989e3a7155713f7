"""Jobs on a twin: what is submitted, what is told of them after a change, and what is not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from slurmfab.cluster.inventory import loading
from slurmfab.commands.rehearse.playing import (
    Before,
    Fate,
    Site,
    begin,
    end,
    groups_script,
    outcome,
    people_script,
    probe,
)
from slurmfab.commands.rehearse.workload import TwinJob, Workload, fit, plain
from slurmfab.core.impact.job_tally import JobTally
from slurmfab.core.status.snapshot import Node
from slurmfab.hosts.session import Line
from slurmfab.on_hosts.agent.accounting.job_shapes import Shape
from slurmfab.on_hosts.agent.nodes.states import NodeState
from slurmfab.on_hosts.agent.slurm.reading import JOB_FIELDS

ANN = TwinJob(Shape("ann", 4001, "physics", "main", "normal", "", 1, 1, 0, "", 60, 9, 900, 0))
BOB = TwinJob(Shape("bob", 4002, "maths", "main", "normal", "", 1, 1, 0, "", 60, 4, 900, 0))
NODES = tuple(
    Node(name, NodeState(frozenset({"IDLE"})), 4, 0, 0, 0, 1024, 0, ("main",), "24.11") for name in ("n1", "n2")
)
WELL = JobTally(1, 1)


@dataclass
class Slurm:
    """A slurmctld that takes jobs.

    `says` has what sbatch prints for a user or an option, `states` how each job is when asked.
    """

    says: Mapping[str, str] = field(default_factory=dict)
    states: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    seconds: int = 5
    errors: Sequence[str] = ()
    scripts: list[str] = field(default_factory=list)
    partition: str = ""
    taken: int = 0
    now: float = 0.0

    def shell(self, script: str, host: str = "ctl") -> str:
        self.scripts.append(script)
        if script.startswith("tail"):
            return f"said on {host}\n"
        rows = [self.sbatch(number, line) for number, line in enumerate(re.findall(".*sbatch.*", script))]
        return "\n".join(reversed(rows))  # whichever ends first

    def sbatch(self, number: int, line: str) -> str:
        user = line.partition("--user=")[2].split()[0]
        if said := next((said for part, said in self.says.items() if part == user or part in line), ""):
            return f"{number}|1|{said}"
        self.taken += 1
        return f"{number}|0|sbatch: lua: hello {self.taken}"

    def call(self, host: str, request: Mapping[str, Any]) -> tuple[Line, ...]:
        assert host == "ctl"
        if request["op"] == "daemon-errors":
            return ({"daemon_errors": {"errors": list(self.errors)}},)
        rows = [self.row(one) for one in request["numbers"] if self.states.get(one, ("",))[0] != "gone"]
        return ({"slurm": {"ping": "Slurmctld(primary) at ctl is UP\n", "trouble": "", "named": rows}},)

    def row(self, number: str) -> Sequence[str]:
        state, reason = self.states.get(number, ("COMPLETED", "None"))
        known = {"JobID": number, "JobArrayID": number, "UserName": "ann", "State": state, "Reason": reason,
                 "Partition": self.partition,
                 "NumCPUs": "1", "TimeUsed": f"0:{self.seconds:02}", "NodeList": "n1", "Name": "wrap"}  # fmt: skip
        return [known.get(name, "") for name in JOB_FIELDS]

    def site(self) -> Site:
        return Site(self.call, "ctl", self.shell, self.pause, lambda: self.now)

    def pause(self, seconds: float) -> None:
        self.now += seconds


def test_a_job_is_submitted_as_its_user_with_what_its_kind_asks_for() -> None:
    slurm = Slurm()
    probe(slurm.site(), [ANN])
    assert slurm.scripts[0].startswith(
        "cd /\n{ said=$(timeout 20 runuser --user=ann -- sbatch --parsable "
        "--output=/var/tmp/slurmfab-rehearsal-%u-%A --chdir=/ --nodes=1 --ntasks=1 --cpus-per-task=1 --account=physics "
        "--partition=main --qos=normal --time=60 '--wrap=exec srun true' 2>&1 </dev/null)"
    )


@pytest.mark.parametrize(
    ("state", "reason", "fate", "why"),
    [
        ("COMPLETED", "None", "ended", ""),
        ("gone", "", "ended", ""),
        ("PENDING", "Resources", "room", "Resources"),
        ("PENDING", "QOSMaxSubmitJobPerUserLimit", "waits", "QOSMaxSubmitJobPerUserLimit"),
        ("RUNNING", "None", "hangs", "RUNNING"),
        ("COMPLETING", "None", "hangs", "COMPLETING"),
        ("FAILED", "NonZeroExitCode", "failed", "FAILED, NonZeroExitCode, said on n1"),
        ("NODE_FAIL", "None", "failed", "NODE_FAIL, said on n1"),
    ],
)
def test_a_short_job_fares_as_slurmctld_says_of_it(state: str, reason: str, fate: str, why: str) -> None:
    slurm = Slurm(states={"1": (state, reason)})
    assert probe(slurm.site(), [ANN]) == (Fate(ANN, fate, why),)
    left = [script for script in slurm.scripts if "scancel" in script]
    assert len(left) == (state in {"PENDING", "RUNNING"})


def test_a_job_that_sbatch_refuses_has_its_words() -> None:
    assert probe(Slurm(says={"ann": "no such QOS"}).site(), [ANN, BOB]) == (
        Fate(ANN, "refused", "no such QOS"),
        Fate(BOB, "ended"),
    )


WIDE = replace(ANN, whole=ANN.shape._replace(nodes=40))


@pytest.mark.parametrize(
    ("says", "states", "fate", "whole"),
    [
        ({}, {"2": ("PENDING", "Resources")}, "ended", "room"),
        ({}, {"2": ("PENDING", "Nodes required for job are DOWN, DRAINED")}, "ended", "room"),
        ({}, {"2": ("PENDING", "QOSMaxNodePerJobLimit")}, "ended", "waits"),
        ({}, {"1": ("PENDING", "QOSMinCpuNotSatisfied"), "2": ("PENDING", "Resources")}, "room", "room"),
        ({"--nodes=40": "bad count"}, {}, "ended", "refused"),
        ({"--nodes=1": "too few nodes"}, {"1": ("PENDING", "Resources")}, "room", "room"),
        ({"--nodes=": "no such QOS"}, {}, "refused", "refused"),
    ],
)
def test_a_kind_that_asks_for_more_than_the_twin_has_is_tried_in_its_own_size_as_well(
    says: Mapping[str, str], states: Mapping[str, tuple[str, str]], fate: str, whole: str
) -> None:
    slurm = Slurm(says=says, states=states)
    (found,) = probe(slurm.site(), [WIDE])
    assert found.whole is not None
    assert (found.state, found.whole.state) == (fate, whole)
    assert found.whole.job.title == "ann, account physics, partition main, QOS normal, 40 nodes"


def test_a_limit_that_only_the_own_size_of_a_kind_reaches_is_told_with_this_size() -> None:
    full = Fate(replace(WIDE, shape=ANN.shape._replace(nodes=40), whole=None), "room")
    refused = replace(full, state="refused", why="too many nodes")
    told = outcome(Before((Fate(WIDE, "ended", whole=full),)), WELL, (Fate(WIDE, "ended", whole=refused),))
    assert told.worse == (
        "Jobs of 1 kind of last week's (9 jobs) are refused after the change: too many nodes. "
        "Such as those of ann, account physics, partition main, QOS normal, 40 nodes.",
    )
    already = outcome(Before((Fate(WIDE, "ended", whole=refused),)), WELL, (Fate(WIDE, "ended", whole=refused),))
    assert (already.worse, already.unplayed) == ((), ())


def test_before_a_change_jobs_run_on_half_of_each_node_and_others_wait_for_them() -> None:
    slurm = Slurm(states={str(number): ("RUNNING", "None") for number in range(3, 20)})
    before = begin(slurm.site(), [ANN, BOB], NODES)
    long = [line for script in slurm.scripts for line in script.splitlines() if "exec sleep" in line]
    assert [word for line in long for word in line.split() if "nodelist" in word] == ["--nodelist=n1", "--nodelist=n2"]
    assert ["--array=1-3" in long[2], "--dependency=afterany:3" in long[3]] == [True, True]
    assert [job.number for job in before.jobs] == ["3", "4", "5", "6"]


@pytest.mark.parametrize(
    ("state", "reason", "said"),
    [
        ("FAILED", "None", "LOST: job 1 (ann) on n1: FAILED."),
        ("NODE_FAIL", "NodeDown", "LOST: job 1 (ann) on n1: NODE_FAIL, NodeDown."),
        ("PENDING", "BeginTime",
         "LOST: job 1 (ann) on n1: it must start again from the beginning (PENDING, BeginTime)."),
        ("gone", "", "LOST: job 1 (ann) on n1: slurmctld no longer knows it."),
    ],
)  # fmt: skip
def test_a_job_that_ran_and_does_not_run_on_is_told_as_lost(state: str, reason: str, said: str) -> None:
    ran = Slurm(states={"1": ("RUNNING", "None")}).site().jobs(["1"])["1"]
    slurm = Slurm(states={"1": (state, reason)}, taken=1)
    told = end(slurm.site(), Before((), (ran,)))
    assert told.tally is not None
    assert [one.loss for one in told.tally.lost] == [said]
    assert said in told.lines


def test_a_job_that_runs_on_is_no_harm_and_is_cancelled_at_the_end() -> None:
    states = {"1": ("RUNNING", "None")}
    slurm = Slurm(states=states)
    told = end(slurm.site(), Before((), (slurm.site().jobs(["1"])["1"],)))
    assert (told.worse, told.lines) == ((), ("Jobs: 1 ran before, 1 runs now.",))
    assert "scancel --quiet -- 1" in slurm.scripts


def test_kinds_that_fare_worse_than_before_are_told_once_for_each_reason() -> None:
    before = Before((Fate(ANN, "ended"), Fate(BOB, "ended")))
    told = outcome(before, WELL, (Fate(ANN, "refused", "no"), Fate(BOB, "refused", "no")))
    assert told.worse == told.lines[:1]
    assert told.lines[0] == (
        "Jobs of 2 kinds of last week's (13 jobs) are refused after the change: no. "
        "Such as those of ann, account physics, partition main, QOS normal."
    )


@pytest.mark.parametrize(
    ("old", "new", "is_worse"),
    [
        ("ended", "ended", False),
        ("ended", "room", False),
        ("ended", "waits", True),
        ("room", "hangs", True),
        ("refused", "refused", False),
        ("refused", "ended", False),
        ("waits", "failed", True),
    ],
)
def test_a_kind_that_fares_as_before_or_waits_for_room_is_no_harm(old: str, new: str, is_worse: bool) -> None:
    assert bool(outcome(Before((Fate(ANN, old),)), WELL, (Fate(ANN, new),)).worse) == is_worse


def test_a_kind_that_was_refused_before_the_change_as_well_is_told_as_not_played() -> None:
    told = outcome(Before((Fate(ANN, "refused", "no such account"),)), WELL, (Fate(ANN, "refused"),))
    assert told.unplayed == (
        "Jobs of 1 kind of last week's (9 jobs) are refused already before the change: no such account. "
        "Such as those of ann, account physics, partition main, QOS normal.",
    )


def test_kinds_made_from_the_cluster_file_are_not_called_last_weeks() -> None:
    shapes = (ANN.shape._replace(jobs=1), BOB.shape._replace(jobs=1))
    kinds = fit(Workload(shapes, is_recorded=False), NODES)
    before = Before(tuple(Fate(kind, "ended") for kind in kinds))
    told = outcome(before, WELL, tuple(Fate(kind, "refused", "no") for kind in kinds))
    assert told.worse == (
        "Jobs of 2 kinds made from the cluster file are refused after the change: no. "
        "Such as those of ann, account physics, partition main, QOS normal.",
    )


def test_a_slurmctld_that_does_not_answer_after_the_change_is_harm() -> None:
    told = end(Site(lambda *_: ({"slurm": {"ping": "", "trouble": "down"}},), "ctl", lambda *_: ""), Before((), ()))
    assert told.tally is None
    assert told.lines == ("slurmctld of the twin does not answer after the change.",)


def test_errors_that_slurmctld_writes_after_a_change_are_told_unless_it_wrote_such_before() -> None:
    slurm = Slurm(errors=["error: job 12 is odd", "error: job_submit/lua: nosuch"])
    assert end(slurm.site(), Before((), (), ("error: job 7 is odd",))).errors == ("error: job_submit/lua: nosuch",)


def test_users_of_the_jobs_who_are_not_there_are_made_on_each_host_with_one_uid() -> None:
    stranger = ANN.shape._replace(user="zoe", uid=0)
    assert people_script(Workload(shapes=(BOB.shape, stranger, BOB.shape))) == (
        "id bob >/dev/null 2>&1 || useradd --no-create-home --non-unique --uid 4002 bob\n"
        "id zoe >/dev/null 2>&1 || useradd --no-create-home --non-unique --uid 60101 zoe\n"
    )


def test_jobs_are_submitted_on_a_login_host_where_there_is_one() -> None:
    asked: list[str] = []

    def shell(script: str, host: str = "") -> str:
        asked.extend([host] if "sbatch" in script else ())
        return "0|1|no\n"

    probe(replace(Slurm().site(), shell=shell, login="login1"), [ANN])
    assert asked == ["login1"]


def test_a_kind_with_arrays_is_played_by_the_last_task_of_one() -> None:
    slurm = Slurm()
    probe(slurm.site(), [replace(ANN, shape=ANN.shape._replace(array=100)), BOB])
    assert [re.findall(r"--array=\S+", line) for line in slurm.scripts[0].splitlines() if "sbatch" in line] == [
        ["--array=99"],
        [],
    ]


def test_each_user_has_a_job_that_names_nothing() -> None:
    slurm = Slurm(says={"bob": "no"})
    (ann, bob) = plain(Workload((ANN.shape, BOB.shape, ANN.shape)))
    assert [one.state for one in probe(slurm.site(), [ann, bob])] == ["ended", "refused"]
    assert not re.search("--(time|account|partition|qos|mem)", slurm.scripts[0])
    told = outcome(Before((Fate(bob, "ended"),)), WELL, (Fate(bob, "refused", "no"),))
    assert told.worse == (
        "Jobs of 1 user that name no partition, account, memory and time limit are refused after the change: no. "
        "Such as those of bob.",
    )
    assert outcome(Before((Fate(bob, "refused", "no"),)), WELL, (Fate(bob, "refused", "no"),)).lines == WELL.lines


def test_jobs_that_get_something_else_than_before_are_told() -> None:
    old = ("main", "physics", "normal", "1:00:00", "cpu=1,mem=50M", "n1")
    new = ("main", "maths", "normal", "1:00", "cpu=1", "n1")
    told = outcome(Before((Fate(ANN, "ended", landed=old),)), WELL, (Fate(ANN, "ended", landed=new),))
    assert told.moved == (
        "Jobs of 1 kind of last week's (9 jobs) get account maths in place of physics, time limit 1:00 in place of "
        "1:00:00, TRES cpu=1 in place of cpu=1,mem=50M. "
        "Such as those of ann, account physics, partition main, QOS normal.",
    )
    assert told.worse == ()


def test_a_job_for_several_partitions_may_get_any_of_them_and_what_its_nodes_have() -> None:
    several = replace(ANN, shape=ANN.shape._replace(partition="main,long"))
    old = ("main", "physics", "normal", "1:00:00", "cpu=2", "n1")
    new = ("long", "physics", "normal", "1:00:00", "cpu=4", "n2")
    assert (
        outcome(Before((Fate(several, "ended", landed=old),)), WELL, (Fate(several, "ended", landed=new),)).moved == ()
    )


def test_groups_of_partitions_have_those_who_ran_jobs_there() -> None:
    text = """\
cluster: titanic
controllers: [mn01]
nodes: [{hosts: cn01}]
partitions: [{PartitionName: main, Nodes: ALL, AllowGroups: "hpc,root"}, {PartitionName: long, Nodes: ALL}]
"""
    assert groups_script(Workload((ANN.shape, BOB.shape)), loading.parse(text, "cluster.yaml").partitions) == (
        "getent group hpc >/dev/null || groupadd hpc\n"
        "usermod --append --groups hpc ann\nusermod --append --groups hpc bob\n"
    )


@pytest.mark.parametrize("kills", [True, False])
def test_a_job_that_ends_when_another_one_of_its_user_ends_on_its_node_is_told(kills: bool) -> None:
    slurm = Slurm(states={"90": ("RUNNING", "None")}, partition="main")

    def shell(script: str, host: str = "ctl") -> str:
        if "--nodelist=n1" in script and kills:
            slurm.states = {"90": ("FAILED", "None")}
        return slurm.shell(script, host)

    before = Before((Fate(ANN, "ended"),), tuple(slurm.site().jobs(["90"]).values()))
    told = end(replace(slurm.site(), shell=shell), before)
    said = "A job of ann on n1 ended (FAILED) when another one of ann ended there: does an epilog end all processes"
    assert [one.startswith(said) for one in told.moved] == [True] * kills
