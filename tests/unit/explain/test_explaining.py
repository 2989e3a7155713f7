"""What `fab explain` asks of whom, and what it shows when some of them do not answer."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from json_shapes import assert_fits
from support import THREE_HOSTS, cluster
from told_jobs import record, told

from slurmfab.base.errors import InputError, SlurmfabError, Unreachable
from slurmfab.base.json_output import as_json
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.explain import explaining, job_chain
from slurmfab.hosts.session import Line

CLUSTER = cluster(THREE_HOSTS)
FAILED = record(JobID="12", State="FAILED", ExitCode="3:0", NodeList="n1")
NOW = time.time()
KILL = ["slurmctld", "_slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=12 uid 4001"]


@dataclass
class Hosts:
    """Hosts that answer, but for those that are away.

    Args:
        records: what slurmdbd has.
        away: hosts that do not answer.
        missing: what does not answer on the controller.
        in_log: what slurmctld's log tells of a job.
    """

    records: list[list[str]] = field(default_factory=lambda: [FAILED])
    away: tuple[str, ...] = ()
    missing: list[list[str]] = field(default_factory=list)
    in_log: list[list[Any]] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)

    def call(
        self,
        host: str,
        request: Mapping[str, Any],
        heard: Callable[[Line], None] = lambda _: None,  # noqa: ARG002
    ) -> tuple[Line, ...]:
        self.asked.append((host, request["op"]))
        if host in self.away:
            raise Unreachable(host, "nothing listens at port 22.")
        if request["op"] == "job":
            return ({"job": {"rows": self.in_log, "origin": "slurmctld's log"}},)
        if request["op"] == "logs":
            at = float(self.records[0][9]) if self.records else NOW - 100
            lines = [[*KILL, at, at, 1]] if host == "c1" else []
            return ({"logs": {"lines": lines, "notes": [], "now": time.time(), "files": {"slurmd": "/log"}}},)
        if "uids" in request:
            return ({"evidence": {"names": dict.fromkeys(request["uids"], "ann")}},)
        if "home" in request:
            return ({"evidence": {"account": {"trouble": "there is no such user"}}},)
        rows = {"memory": [], "records": self.records, "others": [], "events": []}
        return ({"evidence": {"now": time.time(), "ping": "", "missing": self.missing, **rows}},)


def run(hosts: Hosts, tmp_path: Path) -> Any:
    return SimpleNamespace(inventory=Inventory(CLUSTER, Lock(), tmp_path / "cluster.yaml"), transport=hosts)


def test_a_job_when_asked_about_then_the_controller_and_its_node_are_asked_once_each(tmp_path: Path) -> None:
    hosts = Hosts()
    found = explaining.of_job(run(hosts, tmp_path), "12")
    assert sorted(hosts.asked) == [("c1", "evidence"), ("c1", "evidence"), ("c1", "logs"), ("n1", "logs")]
    assert "its script ended with exit code 3" in "\n".join(link.text for link in found.links)
    assert (found.title, found.exit_code) == ("job 12 of ann (account physics, QOS normal, partition main): FAILED", 0)
    assert_fits("explain", json.loads(json.dumps(as_json(found))))


def test_a_node_when_it_is_away_then_the_rest_is_told_and_the_exit_code_is_3(tmp_path: Path) -> None:
    found = explaining.of_job(run(Hosts(away=("n1",)), tmp_path), "12")
    assert (found.exit_code, set(found.lost)) == (3, {"n1"})
    assert found.links[-1].text == "whether the node was at fault is not known: n1 could not be asked"


def test_a_job_when_nobody_knows_it_then_the_error_says_who_was_asked(tmp_path: Path) -> None:
    with pytest.raises(SlurmfabError, match="Job 12 is not known: it is not in slurmctld's memory, nor on record"):
        explaining.of_job(run(Hosts(records=[]), tmp_path), "12")


def test_a_job_when_its_database_is_silent_then_it_is_not_called_unknown(tmp_path: Path) -> None:
    silent = Hosts(records=[], missing=[["slurmctld", "it does not answer"]])
    with pytest.raises(SlurmfabError, match=r"slurmctld does not tell \(it does not answer\)"):
        explaining.of_job(run(silent, tmp_path), "12")


def test_a_job_when_only_slurmctlds_log_has_it_then_its_end_is_told_from_there(tmp_path: Path) -> None:
    row = ["12", "12", "", int(NOW - 300), int(NOW - 200), int(NOW - 90), "n1", ""]
    hosts = Hosts(records=[], in_log=[row], missing=[["slurmdbd", "Connection refused"]])
    found = explaining.of_job(run(hosts, tmp_path), "12")
    assert "cancelled by ann" in found.links[-1].text
    assert found.links[-1].quotes[0].line == KILL[1]


def test_a_user_when_no_host_has_one_then_it_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SlurmfabError, match="eve is no host of the cluster, and not known as a user"):
        explaining.of_user(run(Hosts(records=[]), tmp_path), "eve")


def test_a_word_when_it_is_nearly_that_of_a_host_then_the_error_asks_for_that_host(tmp_path: Path) -> None:
    with pytest.raises(SlurmfabError, match=r"Did you mean n1\?$"):
        explaining.of_user(run(Hosts(records=[]), tmp_path), "N1")


def test_a_step_when_it_is_asked_about_then_the_chain_of_its_job_ends_with_it(tmp_path: Path) -> None:
    steps = [record(JobID="12.0", State="CANCELLED by 4001", ExitCode="0:9"), record(JobID="12.1")]
    found = explaining.of_job(run(Hosts(records=[FAILED, *steps]), tmp_path), "12.0")
    assert found.links[-1].text == "step 12.0: CANCELLED by ann"


def test_tasks_when_some_are_asked_about_then_the_others_are_left_out(tmp_path: Path) -> None:
    tasks = [record(JobID=f"12_{task}", JobIDRaw=str(task)) for task in range(5)]
    found = explaining.of_job(run(Hosts(records=tasks), tmp_path), "12_[1-2,4]")
    assert [link.text for link in found.links if link.what == "task"] == [
        f"job 12_{task}: COMPLETED" for task in (1, 2, 4)
    ]


@pytest.mark.parametrize(
    ("word", "about"),
    [
        *(("n1", "node"), ("ann", "user"), ("n9", "user")),
        *((word, "job") for word in ("12", "12_3", "12_[3-7%2]", "12+1", "12.0", "12_3.batch", "JobId=12", "012")),
    ],
)
def test_a_word_when_it_is_given_then_it_is_a_node_a_job_or_a_user(word: str, about: str, tmp_path: Path) -> None:
    assert explaining.kind_of(run(Hosts(), tmp_path).inventory, word) == about


@pytest.mark.parametrize("word", ["n[1-2]", "", "-x", "a b", "12;id", "000", "12.a;b", "47l1"])
def test_a_word_when_it_is_none_of_these_then_it_is_refused(word: str, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        explaining.kind_of(run(Hosts(), tmp_path).inventory, word)


def test_the_text_when_a_link_has_lines_then_they_are_below_it_with_their_place() -> None:
    known = told(records=[record(State="FAILED", ExitCode="3:0")])
    out = io.StringIO()
    explaining.write(explaining.Explanation("t", "job", "3", "job 3 of ann", job_chain.links(known)), out)
    assert out.getvalue().splitlines()[:5] == [
        "job 3 of ann",
        "  started 14:00:01 on n1, 1 s after it was submitted",
        "      ctl$ sacct -j 3: JobID=3 NodeList=n1 Submit=2026-11-27T14:00:00 Start=2026-11-27T14:00:01",
        "  ended 14:30:00 after 29 min 59 s: its script ended with exit code 3",
        "      ctl$ sacct -j 3: JobID=3 State=FAILED ExitCode=3:0 End=2026-11-27T14:30:00 NodeList=n1",
    ]
