"""The sections about runs, changes, GPU checks, accounts and drift: what they show, and what they say without data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from made_pages import sources
from report_data import ASSOCIATIONS, HOSTILE, big_record, measured, record, step, usage

from slurmfab.commands.report.section import Missing, Section, Sources
from slurmfab.commands.report.sections import accounts, changes, drift, gpu_checks, runs
from slurmfab.commands.report.sections import usage as use
from slurmfab.commands.report.writing import page
from slurmfab.core.engine.report import Report, Step
from slurmfab.core.status import limits_in_use
from slurmfab.on_hosts.agent.core.resource import Change, Outcome

EMPTY = sources()
FILE = Outcome("file:/etc/slurm/slurm.conf", "would change", (Change("content", "", "", f"-a\n+{HOSTILE}"),))
FULL = replace(
    EMPTY,
    records=(record([step("n1", HOSTILE, 1, 5)], by=HOSTILE, lost={"n2": HOSTILE}, error=HOSTILE), big_record()),
    gpu_checks=(measured(0, "g1", 90, "falls short", why=HOSTILE, gpus=HOSTILE), measured(0, "g2", 200)),
    usage=usage(),
    limits=limits_in_use.parse(ASSOCIATIONS.replace("ada", "<script>a\"b")),
    plan=Report("report", "lab", ("n1", "n2"), (Step("slurm.conf", "n1", (FILE,)), Step("x", "n2", ())), {}, 1.0),
)  # fmt: skip


def made(section: Callable[[Sources], Section | None], **given: Any) -> Section:
    """A section that is there."""
    found = section(replace(EMPTY, **given))
    assert found is not None
    return found


def test_page_when_names_are_scripts_then_they_are_text_in_all_sections() -> None:
    text = page(FULL)
    assert HOSTILE not in text
    assert '<script>a"b' not in text
    assert text.count("<script") == 1


def test_page_when_full_then_it_has_no_style_attribute_and_no_handler_which_its_policy_would_stop() -> None:
    text = page(FULL)
    assert " style=" not in text
    assert " onclick" not in text


def test_page_when_1000_hosts_were_deployed_then_the_charts_of_five_runs_take_less_than_200_kb() -> None:
    assert len(made(runs.section, records=(big_record(),) * 5).html) < 200_000


@pytest.mark.parametrize(
    "section", [runs.section, changes.section, gpu_checks.section, accounts.section, drift.section]
)
def test_section_when_nobody_asked_for_it_then_there_is_none(section: Callable[[Sources], Section | None]) -> None:
    assert section(EMPTY) is None


@pytest.mark.parametrize(
    ("section", "name"), [(gpu_checks.section, "gpu_checks"), (accounts.section, "limits"), (drift.section, "plan")]
)
def test_section_when_its_data_are_missing_then_it_says_why(section: Any, name: str) -> None:
    assert made(section, **{name: Missing("The controller is off.")}).note == "The controller is off."


@pytest.mark.parametrize(
    ("section", "given", "words"),
    [
        (runs.section, {"records": ()}, "No recorded run has changed anything"),
        (changes.section, {"records": ()}, "No runs are recorded"),
        (gpu_checks.section, {"gpu_checks": ()}, "Nothing has been measured yet"),
        (drift.section, {"plan": Report("report", "lab", ("n1",), (Step("x", "n1", ()),), {}, 1.0)}, "All 1 hosts"),
    ],
)
def test_section_when_there_is_nothing_then_its_note_says_so(section: Any, given: dict[str, Any], words: str) -> None:
    assert words in made(section, **given).note


def test_runs_when_many_are_recorded_then_the_newest_five_with_steps_have_charts() -> None:
    one, other = record([step("n1", "users", 0, 1)]), record([], hosts=("n1",))
    assert len(runs.chosen((one,) * 7 + (other,))) == 5


def test_changes_when_a_run_left_hosts_out_then_its_row_says_result_exit_code_and_reasons() -> None:
    run = record([step("n1", "users", 0, 1)], exit_code=3, lost={"n2": "no answer.", "n3": "no answer."})
    page = made(changes.section, records=(run,)).html
    assert '<span class="badge watch">done without n[2-3]</span><small>exit code 3</small>' in page
    assert "<small>took 1 min</small>" in page
    assert '<small class="trouble">n[2-3]: no answer.</small>' in page


def test_changes_when_a_run_is_unfinished_then_it_has_no_exit_code() -> None:
    page = made(changes.section, records=(replace(record([], hosts=("n1",)), ended=None),)).html
    assert ">interrupted</span></td>" in page


def test_gpu_checks_when_a_node_falls_short_then_the_badge_says_so() -> None:
    found = made(gpu_checks.section, gpu_checks=FULL.gpu_checks)
    assert (found.badge, found.tone) == ("1 short", "bad")


def test_accounts_when_a_limit_is_used_up_then_it_says_so_in_words() -> None:
    found = made(accounts.section, limits=limits_in_use.parse(ASSOCIATIONS))
    assert (found.badge, found.tone) == ("1 used up", "watch")
    assert "4 of 4 GPUs <b>▲ used up</b>" in found.html
    assert "95 of 100 CPU hours <b>▲ nearly used up</b>" in found.html
    assert "2 of 4 GiB of memory" in found.html


def test_accounts_when_they_have_parents_then_they_are_in_the_order_of_the_tree() -> None:
    named = [
        limits_in_use.LimitedUse(name, parent=parent)
        for name, parent in (("root", ""), ("b", "a"), ("a", "root"), ("c", "gone"), ("loop", "loop"))
    ]
    assert [(one.account, depth) for one, depth in accounts.in_tree(named)] == [
        ("root", 0), ("a", 1), ("b", 2), ("c", 0), ("loop", 0),
    ]  # fmt: skip


def test_drift_when_hosts_differ_alike_then_they_are_one_entry_under_its_kind() -> None:
    older = replace(FILE, id="service:slurmd", drift="older file loaded")
    kinds = drift.kinds_of(
        [Step("slurm.conf", name, (replace(FILE, drift="changed file"), older)) for name in ("n1", "n2")]
    )
    assert [(kind.name, kind.hosts, kind.differences[0].hosts) for kind in kinds] == [
        ("changed file", 2, "n[1-2]"), ("older file loaded", 2, "n[1-2]"),
    ]  # fmt: skip


def test_drift_when_a_difference_is_long_then_its_first_lines_are_shown() -> None:
    long = replace(FILE, changes=(Change("content", "", "", "\n".join(f"+{line}" for line in range(100))),))
    (kind,) = drift.kinds_of([Step("slurm.conf", "n1", (long,))])
    assert (kind.name, len(kind.differences[0].lines), kind.differences[0].more) == ("to be deployed", 40, 62)


def test_usage_when_slurm_counts_gpus_then_both_are_drawn_and_accounts_are_compared_by_gpu_hours() -> None:
    found = usage()
    assert [one.unit for one in use.resources(found)] == ["GPU hours", "CPU hours"]
    assert [(row.name, row.gpu, row.percent) for row in use.rows(found, "account", 9)] == [
        ("physics", "48", 100.0), ("biology", "0", 0.0),
    ]  # fmt: skip
    assert use.rows(found, "account", 9)[0].wait == "1 min, at most 1 min 30 s"
    assert use.rows(found, "user", 9)[1].cpu_efficiency == "25 %"


def test_usage_when_slurm_counts_no_gpus_then_cpus_alone_are_drawn() -> None:
    without = usage(tracks_gpus=False, groups=(), idle=())
    assert [one.unit for one in use.resources(without)] == ["CPU hours"]
    assert (use.rows(without, "account", 9), use.badge_of(without)) == ((), ("0 %", "plain"))


def test_usage_when_jobs_hold_gpus_idle_then_the_badge_says_so_and_a_guess_is_told_as_one() -> None:
    assert use.badge_of(usage()) == ("1 idle on GPUs", "watch")
    assert use.idle(usage())[0][1] == "2 GPU hours on 2 GPUs, running; it had hardly any CPU time"
