"""The report of the benchmarks: its table, its remarks, its plot, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import plot, report
from benchmarks.results import MEMORY, PROCESSORS, SECONDS, Result, Sample, Target, save

MACHINE = {
    "cores": "2",
    "memory": "24 GiB",
    "kernel": "6.1",
    "system": "Debian",
    "python": "3.11",
    "openssh": "OpenSSH_9",
}
NO_CHANGE = Result(
    "no-change",
    "nothing to change",
    {
        "floor": (Sample(1.0), Sample(1.0)),
        "slurmfab": (Sample(2.0, 0.8), Sample(3.0, 1.0)),
        "Ansible": (Sample(40.0), Sample(44.0)),
    },
    (
        Target("slurmfab", "floor", 2.0),
        Target("Ansible", "floor"),
        Target("pyinfra", "floor"),
        Target("slurmfab", at_most=300, unit=MEMORY),
        Target("slurmfab", at_most=12, unit=PROCESSORS, hosts=64),
    ),
    {**MACHINE, "Ansible": "2.19", "slurmfab": "0.1", "load before": "0.5"},
    skipped={"pyinfra": "pip does not install it here"},
    notes=("Each peer has a cluster of its own.",),
)
START = Result("start", "start", {"list": (Sample(0.2),)}, (Target("list", at_most=0.4, unit=SECONDS),), MACHINE)


def test_a_table_when_rendered_then_has_a_line_for_each_target_that_was_measured_with_the_peers_beside_it() -> None:
    table = [line for line in report.rendered([NO_CHANGE, START]).splitlines() if line.startswith("|")][2:]
    assert table == [
        "| nothing to change | floor: 1.00 s | 2.50 s, **2.50 x** | 2.00 - 3.00 | <= 2 x | **not met** | 42.0 x |  |",
        "| nothing to change: memory |  | **0 MiB** | 0 - 0 | <= 300 MiB | met |  |  |",
        "| nothing to change: processor time for each host |  | **14.1 ms** | 12.5 - 15.6 | <= 12 ms | **not met** "
        "|  |  |",
        "| start: list |  | **0.20 s** | 0.20 - 0.20 | <= 0.4 s | met |  |  |",
    ]


def test_a_figure_when_it_has_no_target_then_stands_in_a_table_of_its_own() -> None:
    aside = replace(START, targets=(*START.targets, Target("list", unit=SECONDS)))
    said = report.rendered([NO_CHANGE, aside])
    _, _, rest = said.partition("Without a target:")
    assert [line for line in rest.splitlines() if line.startswith("|")][2:] == [
        "| start | list | 0.20 s | 0.20 - 0.20 |"
    ]
    assert "Without a target:" not in report.rendered([NO_CHANGE])


def test_remarks_when_rendered_then_tell_notes_what_was_left_out_and_the_machine_in_general() -> None:
    said = report.rendered([NO_CHANGE, NO_CHANGE])
    assert said.count("Each peer has a cluster of its own.") == 1
    assert "pyinfra was left out of “nothing to change”: pip does not install it here" in said
    assert "2 cores, 24 GiB, Linux 6.1, Debian, Python 3.11, OpenSSH_9" in said
    assert "Peers: Ansible 2.19." in said


def test_a_document_when_written_again_then_keeps_all_that_is_not_measured(tmp_path: Path) -> None:
    document = tmp_path / "performance.md"
    document.write_text(f"# Before\n\n{report.BEGIN}\nold\n{report.END}\n\n# After\n")
    for _ in range(2):
        save(START, tmp_path / "results")
        report.write(tmp_path / "results", document, ("start",))
    text = document.read_text()
    assert text.startswith(f"# Before\n\n{report.BEGIN}\n| measured")
    assert text.endswith(f"{report.END}\n\n# After\n")
    assert "old" not in text
    assert (tmp_path / report.PLOT).exists()


def test_a_document_when_nothing_was_measured_then_says_how_to() -> None:
    assert "make bench" in report.rendered([])


def test_a_document_when_a_mark_is_missing_then_is_left_alone(tmp_path: Path) -> None:
    document = tmp_path / "performance.md"
    document.write_text("no marks")
    with pytest.raises(ValueError, match="missing"):
        report.write(tmp_path / "results", document, ())
    assert document.read_text() == "no marks"


def test_the_document_of_this_tree_when_read_then_has_both_marks() -> None:
    text = (Path(__file__).parents[3] / "docs" / "performance.md").read_text()
    assert text.count(report.BEGIN) == text.count(report.END) == 1


def test_a_plot_when_drawn_then_is_well_formed_and_has_a_bar_for_each_target_and_peer() -> None:
    curve = Target("floor", "slurmfab")
    picture = ElementTree.fromstring(plot.bars([replace(NO_CHANGE, targets=(*NO_CHANGE.targets, curve)), START]))
    space = "{http://www.w3.org/2000/svg}"
    assert len(picture.findall(f"{space}rect")) == 1 + 2
    words = [element.text for element in picture.findall(f"{space}text")]
    assert {"nothing to change", "slurmfab / floor", "2.50", "target 2", "42.0"} <= set(words)
    assert "start" not in words


def test_a_plot_when_there_is_no_ratio_then_is_an_empty_picture() -> None:
    ElementTree.fromstring(plot.bars([START]))


def test_factors_when_placed_then_equal_factors_have_equal_lengths() -> None:
    scale = plot.Scale(0.5, 50)
    assert scale.x(4) - scale.x(2) == pytest.approx(scale.x(2) - scale.x(1), abs=0.2)
    assert scale.x(0.5) > plot.LABELS
    assert scale.x(50) < plot.WIDTH - plot.RIGHT


def test_a_result_when_told_on_a_terminal_then_is_a_line_for_each_figure() -> None:
    assert report.in_words(START) == "  list: 0.20 s (0.20 - 0.20) <= 0.4 s met"
