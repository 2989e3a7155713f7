"""A plan as people read it: an overview, Slurm's part, and every detail."""

from __future__ import annotations

import time

import pytest
from json_shapes import assert_fits
from terminals import Terminal, shown_on

from slurmfab.base.errors import HostError, Unreachable
from slurmfab.base.json_output import as_json
from slurmfab.base.terminal import write
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.core.engine.plan_text import plan_text, refusals
from slurmfab.core.engine.report import Report, Step
from slurmfab.core.impact.disruptive_changes import Disruption
from slurmfab.core.impact.forecast import Forecast, labelled
from slurmfab.core.impact.slurm_diff import differences
from slurmfab.core.status.snapshot import Job
from slurmfab.on_hosts.agent.core.resource import Change, Outcome

BEFORE = """\
SlurmdTimeout=300
SlurmdPort=6818
NodeName=n[1-3] CPUs=4 RealMemory=4000
PartitionName=debug Nodes=n1
"""
AFTER = """\
SlurmdTimeout=400
SlurmdPort=7000
NodeName=n[1-3] CPUs=4 RealMemory=3000
"""
USER = Outcome("user:slurm", "would change", (Change("uid", "1001", "64030"),))
CONF = Outcome("slurm-files:/etc/slurm", "would change", (Change("slurm.conf", diff="--- a\n+++ b\n-x\n+y\n"),))
LOADED = Outcome(
    "service:slurmd", "would change", (Change("loaded", "older slurm.conf", "as on disk"),), drift="older file loaded"
)


def report(*steps: Step, forecast: Forecast | None = None, **lost: HostError) -> Report:
    return Report("plan", "lab", ("c1", "n1", "n2", "n3"), steps, lost, 2.0, forecast or Forecast())


def text(*steps: Step, forecast: Forecast | None = None, **lost: HostError) -> list[str]:
    return plan_text(report(*steps, forecast=forecast, **lost), steps).splitlines()


def forecast(before: str = BEFORE, after: str = AFTER, version: str = "24.11", *disruptions: Disruption) -> Forecast:
    found = differences({"slurm.conf": before}, {"slurm.conf": after})
    return Forecast(labelled(found, SlurmVersion.parse(version)), "slurmctld on c1 restarts.", disruptions)


def test_a_plan_without_differences_says_so() -> None:
    assert text() == ["lab: nothing would be changed (2.0 s)."]


def test_a_plan_begins_with_an_overview_folded_over_equal_hosts_and_ends_with_every_detail() -> None:
    steps = [Step("users", host, (USER,)) for host in ("n1", "n2", "n3")]
    steps += [Step("slurm.conf", host, (CONF, Outcome("directory:/x", "ok"))) for host in ("c1", "n1", "n2", "n3")]
    assert text(*steps) == [
        "n[1-3]: 2 changes (users, slurm.conf)",
        "c1:     1 change (slurm.conf)",
        "",
        "n[1-3]: users",
        "    user:slurm: would change",
        "      uid: 1001 -> 64030",
        "",
        "c1,n[1-3]: slurm.conf",
        "    slurm-files:/etc/slurm: would change",
        "      slurm.conf:",
        "        --- a",
        "        +++ b",
        "        -x",
        "        +y",
        "",
        "lab: 7 changes would be made on 4 hosts (2.0 s).",
    ]


def test_slurms_differences_are_told_with_what_each_needs_and_what_the_daemons_do() -> None:
    lines = text(Step("slurm.conf", "c1", (CONF,)), forecast=forecast())
    begin = lines.index("slurm.conf")
    assert lines[begin : lines.index("", begin)] == [
        "slurm.conf",
        "    SlurmdTimeout: 300 -> 400                [reconfigure]",
        "    SlurmdPort: 6818 -> 7000                 [restart of slurmctld and slurmd]",
        "    nodes n[1-3]: RealMemory: 4000 -> 3000   [reconfigure]",
        "    partition debug: removed                 [never while jobs run]",
        "    => slurmctld on c1 restarts.",
    ]


def test_a_danger_is_told_as_the_refusal_that_deploy_would_answer_with() -> None:
    job = Job("7", "7", "ann", ("debug",), "RUNNING", "", 1, 1, 0, 60, "1:00", "n1", "x")
    danger = Disruption("partition-removed", "partition debug: removed", "It hurts.", (job,), ("n1",))
    lines = text(Step("slurm.conf", "c1", (CONF,)), forecast=forecast(BEFORE, AFTER, "24.11", danger))
    begin = lines.index("deploy would refuse:")
    assert lines[begin : lines.index("", begin)] == [
        "deploy would refuse:",
        "    partition debug: removed: It hurts.",
        "        job 7 of ann, on n1",
        "        To proceed anyway: fab deploy --drain-first or fab deploy --allow partition-removed.",
    ]


def test_a_plan_without_dangers_has_no_refusal() -> None:
    assert refusals(Report("plan", "lab", ("c1",), (), {}, 1.0)) == []


def test_many_and_long_differences_are_bounded() -> None:
    before = "".join(f"Key{number}=1\n" for number in range(100)) + "SlurmdPort=1\n"
    long = forecast(before, before.replace("=1\n", "=" + "y" * 500 + "\n"))
    lines = text(Step("slurm.conf", "c1", (CONF,)), forecast=long)
    begin = lines.index("slurm.conf")
    shown = lines[begin + 1 : lines.index("", begin)]
    assert len(shown) == 42
    assert shown[40] == "    and 61 more   [reconfigure, restart of slurmctld and slurmd]"
    assert max(map(len, shown)) < 120
    assert shown[0].startswith("    Key0: 1 -> yyyy")


def test_what_no_deployment_changes_and_what_failed_are_counted_by_themselves() -> None:
    odd = Outcome("hardware", "differs", (Change("RealMemory", "1", "2"),), "repair it", drift="other hardware")
    failed = Outcome("service:munge", "failed", message="masked")
    assert text(Step("hardware", "n1", (odd,)), Step("munge", "n2", (failed,)))[:2] == [
        "n1: 1 other difference (hardware)",
        "n2: 1 failure (munge)",
    ]


def test_a_plan_with_what_could_not_be_compared_does_not_end_as_if_nothing_would_be_changed() -> None:
    failed = Step("munge", "n2", (Outcome("service:munge", "failed", message="masked"),))
    assert text(failed)[-1] == "lab: 1 resource on n2 could not be compared (see above) (2.0 s)."
    assert text(failed, Step("users", "n1", (USER,)))[-1] == (
        "lab: 1 change would be made on 1 host; 1 resource on n2 could not be compared (see above) (2.0 s)."
    )


def test_hosts_that_could_not_be_asked_are_named() -> None:
    lines = text(n1=Unreachable("n1", "off."))
    assert lines[-2:] == ["n1: off.", "lab: not compared: n1 (2.0 s)."]


def test_the_json_of_a_plan_has_the_same_as_data() -> None:
    job = Job("7", "7", "ann", ("debug",), "PENDING", "", 1, 1, 0, 60, "1:00", "", "x")
    danger = Disruption("partition-removed", "partition debug: removed", "It hurts.", (job,))
    told = as_json(report(forecast=forecast(BEFORE, AFTER, "22.05", danger)))
    assert_fits("run", told)
    assert told["slurm_conf"][2] == {
        "file": "slurm.conf",
        "kind": "node",
        "name": "nodes n[1-3]: RealMemory",
        "actual": "4000",
        "wanted": "3000",
        "needs": "restart of slurmctld and slurmd",
    }
    assert told["daemons"] == "slurmctld on c1 restarts."
    assert told["dangers"] == [
        {
            "name": "partition-removed",
            "change": "partition debug: removed",
            "reason": "It hurts.",
            "ways": ["--allow partition-removed"],
            "jobs": [{"id": "7", "user": "ann", "state": "PENDING", "partitions": ["debug"], "nodes": ""}],
        }
    ]


def test_ten_thousand_hosts_are_told_in_a_few_lines_and_two_seconds() -> None:
    steps = [Step("slurm.conf", f"cn{number:05}", (CONF,)) for number in range(10000)]
    steps += [Step("slurmd", f"cn{number:05}", (LOADED,)) for number in range(10000)]
    begun = time.process_time()
    lines = text(*steps)
    assert time.process_time() - begun < 2
    assert lines[0] == "cn[00000-09999]: 2 changes (slurm.conf, slurmd)"
    assert len(lines) < 20


def test_a_plan_on_a_terminal_of_60_columns_breaks_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    hosts = [f"n{number}" for number in range(1, 97)]
    steps = [Step("slurm.conf", host, (CONF, USER)) for host in hosts[::2]] + [Step("users", "c1", (USER,))]
    wide = Outcome(
        "file:/etc/slurm/slurm.conf", "would change", (Change("content", diff=BEFORE.replace("\n", " x\n")),)
    )
    told = report(*steps, Step("files", "n1", (wide,)), forecast=forecast(), n2=Unreachable("n2", "no answer. " * 9))
    out = Terminal()
    write(plan_text(told, told.steps), out)
    lines = shown_on(out)
    assert max(map(len, lines)) <= 60
    words = {word for line in lines for word in line.split()}
    assert {word for word in plan_text(told, told.steps).split() if "," not in word} <= words
