"""Numbers that no sound Slurm tells: of a damaged record, of a broken clock. They are shown or left out."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from explain.test_explaining import CLUSTER, Hosts
from hypothesis import given, settings
from hypothesis import strategies as st
from programs.user_tools import test_job_story, test_sstatus
from slurm_output_files import VERSIONS, answer
from told_jobs import record, remembered, told

from slurmfab.base.errors import SlurmfabError
from slurmfab.base.json_output import as_json
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.explain import explaining, job_chain, node_chain
from slurmfab.core.status import text as status_text
from slurmfab.core.status.cluster_state import Status
from slurmfab.core.status.snapshot import from_answer
from slurmfab.on_hosts.agent.accounting import job_records
from slurmfab.on_hosts.agent.client.amounts import LATEST, bounded, moment_of
from slurmfab.on_hosts.agent.core.resource import ResourceFailed
from slurmfab.on_hosts.agent.logs.job_record import row_of
from slurmfab.on_hosts.agent.nodes import lost_jobs
from slurmfab.on_hosts.programs.slurm_metrics import slurm
from slurmfab.on_hosts.programs.slurm_metrics.figures import Figures
from slurmfab.on_hosts.programs.user_tools import endings
from slurmfab.on_hosts.programs.user_tools.job_story import story

ODD = st.one_of(
    st.sampled_from((
        "132668214192000", "4294967294", "4294967295", "18446744073709551614", "-1", "0", "9" * 5000, "1e999", "inf",
        "nan", "²", "٣", "0x10", "", "Unknown", "INVALID", "4204150-01-01T00:00:00", "99999999-00:00:00",
        "1:99999999999", "253402300800", "253370764800", "9" * 19 + "P", "1.5", "1-", ":", "cpu=" + "9" * 400,
    )),
    st.integers(-(1 << 70), 1 << 70).map(str),
)  # fmt: skip
"""Texts in the place of a number."""

RECORD = (
    "Submit", "Eligible", "Start", "End", "ExitCode", "NCPUS", "ReqMem", "Timelimit", "AllocTRES", "MaxRSS",
)  # fmt: skip
MEMORY = (
    "exit_code", "SubmitTime", "EligibleTime", "StartTime", "EndTime", "NumCPUs", "MinMemory", "TimeLimit",
    "tres-alloc", "restartcnt", "PriorityLong",
)  # fmt: skip
odd = settings(max_examples=150, derandomize=True, database=None, deadline=None)


def some(names: tuple[str, ...]) -> st.SearchStrategy[dict[str, str]]:
    """Odd texts for some of these fields."""
    return st.dictionaries(st.sampled_from(names), ODD, min_size=1, max_size=3)


def shown(look: Callable[[], Any]) -> None:
    """Look, and be content with an error that says what it is."""
    with contextlib.suppress(SlurmfabError, ResourceFailed):
        look()


@odd
@given(some(RECORD), st.sampled_from(("COMPLETED", "FAILED", "RUNNING", "PENDING", "TIMEOUT", "OUT_OF_MEMORY")))
def test_a_record_of_sacct_when_its_numbers_are_odd_then_explain_tells_the_job(
    fields: dict[str, str], state: str
) -> None:
    row = record(**{"JobID": "12", "State": state, **fields})
    hosts = Hosts(records=[row])
    run = SimpleNamespace(inventory=Inventory(CLUSTER, Lock(), Path("cluster.yaml")), transport=Quiet(hosts))

    def look() -> None:
        found = explaining.of_job(run, "12")  # type: ignore[arg-type]
        explaining.write(found, io.StringIO())
        as_json(found)

    shown(look)


class Quiet:
    """The same hosts, without lines in their logs."""

    def __init__(self, hosts: Hosts) -> None:
        self.hosts = hosts

    def call(self, host: str, request: Any, heard: Any = None) -> Any:  # noqa: ARG002
        if request["op"] == "logs":
            return ({"logs": {"lines": [], "notes": [], "now": 1795440000.0, "files": {}}},)
        return self.hosts.call(host, request)


@odd
@given(some(MEMORY), some(RECORD), st.sampled_from(("PENDING", "RUNNING", "COMPLETING")), ODD, ODD)
def test_rows_of_squeue_and_events_when_their_numbers_are_odd_then_chains_are_made(
    fields: dict[str, str], other: dict[str, str], state: str, begin: str, end: str
) -> None:
    event = ["n1", begin, end, "DOWN", "root(0)", "fan"]
    found = told(memory=[remembered(State=state, **fields)], others=[record(JobID="7", **other)], events=[event])
    job_chain.links(found)
    node_chain.links(found, "n1", {}, ())


@odd
@given(some(RECORD), some(MEMORY), st.sampled_from(("COMPLETED", "RUNNING", "PENDING", "TIMEOUT", "OUT_OF_MEMORY")))
def test_rows_when_their_numbers_are_odd_then_sstatus_tells_the_job(
    fields: dict[str, str], memory: dict[str, str], state: str
) -> None:
    fits = {name: value for name, value in fields.items() if name in test_job_story.RECORDED_FIELDS}
    also = {name: value for name, value in memory.items() if name in test_job_story.REMEMBERED_FIELDS}
    records = [test_job_story.record(State=state, **fits)]
    assert story([test_job_story.remembered(State=state, **also)], records, 1795440000.0)
    assert story([], records, 1795440000.0)
    endings.codes(fits.get("ExitCode", ""))


@odd
@given(st.dictionaries(st.sampled_from(("NumNodes", "NumCPUs", "NumTasks", "TimeUsed", "TimeLimit", "tres-alloc",
                                        "StartTime", "MinMemory")), ODD, max_size=3),
       st.sampled_from(("RUNNING", "PENDING")))  # fmt: skip
def test_rows_of_a_users_jobs_when_their_numbers_are_odd_then_sstatus_shows_them(
    fields: dict[str, str], state: str
) -> None:
    fits = {name: value for name, value in fields.items() if name in test_sstatus.BASE}
    row = tuple({**test_sstatus.BASE, "State": state, **fits}.values())
    assert test_sstatus.shown(test_sstatus.told(row))


@pytest.mark.parametrize("version", VERSIONS)
@odd
@given(part=st.sampled_from(("nodes", "partitions", "jobs")), place=st.integers(0, 400), text=ODD)
def test_real_output_when_one_number_in_it_is_odd_then_status_shows_the_cluster(
    version: str, part: str, place: int, text: str
) -> None:
    whole = Path(__file__).parent.joinpath("slurm_output", version, f"{part}.txt").read_text(encoding="utf-8")
    numbers = list(re.finditer(r"(?<=[=:/|])\d+", whole))
    at = numbers[place % len(numbers)]

    def look() -> None:
        try:
            seen = from_answer(answer(version, **{part: whole[: at.start()] + text + whole[at.end() :]}))
        except (ValueError, KeyError):  # `readable` makes the host's failure of it
            return
        found = Status("lab", seen, {}, user="ann")
        status_text.write(found, "ann", io.StringIO())
        as_json(found)

    shown(look)


@odd
@given(st.lists(ODD, min_size=6, max_size=6))
def test_numbers_for_figures_sums_and_lost_jobs_when_they_are_odd_then_they_are_counted_or_left_out(
    texts: list[str],
) -> None:
    figures = Figures()
    slurm.collect_queue(figures, [("12", "PENDING", "main", "Priority", texts[0])], 1795440000.0)
    slurm.parse(f"Jobs: {texts[1]}\n")
    job_records.amounts(f"cpu={texts[0]},mem={texts[1]},gres/gpu={texts[2]}")
    job_records.capacity_of([[texts[0], texts[1], f"cpu={texts[2]},gres/gpu={texts[3]}"]], 1795440000, 1795443600)
    row = [texts[0], "12", "ann", "RUNNING", "1", "n1", "n1", texts[1], "1", ""]
    for lost in lost_jobs.jobs_in("|".join(row)):
        assert lost_jobs.Lost(lost, 1e18).why
        assert lost_jobs.Lost(lost).name
    lost_jobs.unknown([["12", "12", "ann", "RUNNING", texts[4], texts[5]]], [("12", 5)], 1795440000.0)
    row_of(["12", "12", "FAILED", *texts[:3], "n1", texts[3]])


def test_a_time_when_no_calendar_has_it_then_it_is_none_or_the_last_one() -> None:
    assert [moment_of(text) for text in ("1795392000", "132668214192000", "9" * 5000, "-1", "None")] == [
        1795392000, 0, 0, 0, 0,
    ]  # fmt: skip
    assert [bounded(one) for one in (5.0, -1, 1e300, float("inf"), float("nan"))] == [5.0, 0, LATEST, LATEST, 0]


DATES = re.compile(r"\b(?:fromtimestamp|localtime|gmtime)\((?!\)|bounded\()(?P<what>[^()]*)")
OUR_OWN = frozenset((
    "path.stat", "now", "time.time", "answers.period.until", "now - int", "when", "since", "following + HOUR * 12",
    "seconds", "start.since", "min",
))  # fmt: skip
"""Times of a machine's own clock or file, and those that a command line names."""


def test_no_module_makes_a_date_of_a_number_that_is_not_bounded() -> None:
    found = [
        f"{path.relative_to(Path(__file__).parents[2])}: {match['what']}"
        for path in sorted(Path(__file__).parents[2].glob("slurmfab/**/*.py"))
        if "slurmfab/lab/" not in str(path)
        for match in DATES.finditer(path.read_text(encoding="utf-8"))
        if match["what"] not in OUR_OWN
    ]
    assert found == []
