"""The text of figures for Prometheus, and the page that documents them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slurmfab.on_hosts.programs.slurm_metrics.figures import COUNTER, TABLE, Figures, bounded, label

PAGE = Path(__file__).parents[4] / "docs" / "monitoring.md"


def test_figures_when_written_then_prometheus_can_read_them() -> None:
    figures = Figures()
    figures.put("slurm_up", True)
    figures.put("slurm_nodes_out_of_service", 2, "down", 'a "loose"\ncable\\')
    figures.put("slurm_account_level_fairshare", float("inf"), "maths")
    figures.put("slurm_account_usage_ratio", 0.25, "maths")
    lines = [line for line in figures.text().splitlines() if not line.startswith("#")]
    assert lines == [
        "slurm_up 1",
        'slurm_nodes_out_of_service{state="down",reason="a \\"loose\\"\\ncable\\\\"} 2',
        'slurm_account_usage_ratio{account="maths"} 0.25',
        'slurm_account_level_fairshare{account="maths"} +Inf',
    ]
    assert "# TYPE slurm_up gauge" in figures.text()


def test_a_figure_that_the_table_lacks_or_with_other_labels_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        Figures().put("slurm_coffee", 1)
    with pytest.raises(ValueError, match="state"):
        Figures().put("slurm_nodes", 1)


def test_texts_of_people_are_bounded_lines() -> None:
    assert label("two\n lines\x1b[31m\t") == "two lines [31m"
    assert len(label("x" * 500)) == len(label("y" * 101))
    assert label("a\udc80") == "a"


def test_more_counts_than_allowed_are_added_up() -> None:
    counts: dict[tuple[str, ...], float] = {("down", f"reason {number:02}"): 1 for number in range(100)}
    found = bounded(counts, most=30)
    assert len(found) == 31
    assert found[("down", "other")] == 70


def test_names_follow_prometheus_conventions() -> None:
    for figure in TABLE:
        assert re.fullmatch(r"slurm(fab)?(_[a-z]+)+", figure.name), figure
        assert figure.name.endswith("_total") == (figure.kind == COUNTER), figure
        assert len({one.name for one in TABLE}) == len(TABLE)


def test_the_page_documents_all_figures_as_they_are() -> None:
    section = PAGE.read_text().partition("\n## Slurm's figures\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `slurm")]
    wanted = []
    for figure in TABLE:
        labels = ", ".join(f"`{one}`" for one in figure.labels) or "none"
        wanted.append(f"| `{figure.name}` | {labels} | {figure.kind} | {figure.help} |")
    assert rows == wanted, "\n".join(wanted)
