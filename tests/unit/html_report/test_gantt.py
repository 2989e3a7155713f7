"""The chart of a run: bars, axis, labels, and the SVG that is drawn."""

from __future__ import annotations

from pathlib import Path

from report_data import HOSTILE, big_record, record, step

from slurmfab.base.markup import fill
from slurmfab.commands.report.gantt import LEFT, WIDTH, gantt, timeline

GOLDEN = Path(__file__).with_name("gantt.svg")
STEPS = (
    step("ctl", "packages", 2, 10), step("ctl", "slurm.conf", 12, 0.2), step("n1", "packages", 2, 40),
    step("n1", "slurmd", 45, 3), step("n2", "packages", 2.5, 40), step("n2", "slurmd", 45, 12, "failed"),
)  # fmt: skip


def test_gantt_when_drawn_then_it_is_the_svg_that_was_looked_at() -> None:
    chart = gantt(timeline(record(STEPS, timeline=((0.5, "asking"), (1, "comparing"), (2, "packages")))))
    assert fill("gantt.svg.j2", chart=chart) == GOLDEN.read_text(encoding="utf-8").rstrip("\n")


def test_gantt_when_drawn_then_bars_stay_between_the_axis_and_the_right_edge() -> None:
    bars = [bar for line in gantt(timeline(big_record())).lines for bar in line.bars]
    assert min(bar.x for bar in bars) >= LEFT
    assert max(bar.x + bar.width for bar in bars) <= WIDTH
    assert min(bar.width for bar in bars) >= 1.5


def test_gantt_when_a_phase_failed_then_its_bar_and_its_row_have_a_sign_and_words() -> None:
    line = gantt(timeline(record(STEPS))).lines[0]
    assert (line.label, line.sign, ["failed" in bar.css for bar in line.bars]) == ("n2", "✕", [False, True])
    assert line.bars[1].title == "slurmd, failed: 12.0 s, from 45.0 s to 57.0 s (n2)"


def test_gantt_when_hosts_are_many_then_the_label_names_the_slowest_and_the_table_all() -> None:
    chart = gantt(timeline(big_record()))
    assert [line.label for line in chart.lines[:3]] == ["all hosts", "n0733", "n[0017,0400]"]
    assert chart.lines[3].label.endswith(" others")
    assert sum(row.count for row in chart.table) == 1000


def test_gantt_when_drawn_then_the_longest_phases_have_a_colour_and_a_number() -> None:
    steps = [step("n1", f"p{number}", number, 10 + number) for number in range(10)]
    chart = gantt(timeline(record(steps)))
    assert [(key.series, key.phase) for key in chart.legend] == [(number, f"p{number + 2}") for number in range(1, 8)]
    assert {bar.css for bar in chart.lines[-1].bars} == {f"series-{number}" for number in range(8)}


def test_gantt_when_read_aloud_then_its_summary_says_what_took_the_time() -> None:
    assert gantt(timeline(record(STEPS, hosts=("ctl", "n1", "n2", "n3")))).summary == (
        "1 min for 3 hosts; the last was n2, most of it for packages (40.0 s). Nothing to change on 1 more."
    )


def test_gantt_when_a_name_is_a_script_then_it_is_text() -> None:
    drawn = fill(
        "gantt.svg.j2", chart=gantt(timeline(record([step(HOSTILE, HOSTILE, 0, 50)], lost={HOSTILE: HOSTILE})))
    )
    assert "<script" not in drawn
    assert '"1"' not in drawn
