"""What slurmfab says about itself."""

from __future__ import annotations

import itertools

import pytest
from slurmfab.cli.tasks.help import columns, overview, task_help

from slurmfab.cli.tasks import GROUPS, TASKS, all_tasks


def test_all_tasks_are_shown_under_a_sentence_about_the_program() -> None:
    first, *rest = overview(GROUPS).splitlines()
    assert first.startswith("slurmfab turns bare machines into a working Slurm cluster")
    headings = [line for line in rest if line and not line.startswith(" ")]
    assert headings == [*(f"{title}:" for title, _ in GROUPS), "Help for one task: fab help TASK, or fab TASK --help."]


@pytest.mark.parametrize("width", [60, 80, 200])
def test_help_fits_into_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    texts = (task_help(task).split("\n\n") for task in TASKS.values())
    paragraphs = [text for text in itertools.chain.from_iterable(texts) if not text.startswith("  Examples:")]
    assert max(len(line) for text in paragraphs for line in text.splitlines()) < width


def test_a_text_that_is_too_long_goes_on_below_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert columns([("--a", "one two three four five six seven eight")]).splitlines() == [
        "  --a   one two three four five six",
        "        seven eight",
    ]


def test_values_of_options_are_named_in_help_as_in_the_manual_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    for task in all_tasks():
        shown = task_help(TASKS[task.name])
        assert "STRING" not in shown
        assert all(f"  {option.flags[0]}={option.value} " in shown for option in task.options if option.value)
    assert "--timeout=MINUTES" in task_help(TASKS["drain"])
    assert "-v, --verbose" in task_help(TASKS["drain"])
    assert "(default: 10%)" in task_help(TASKS["upgrade"])
