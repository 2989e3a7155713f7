"""What slurmfab says about itself."""

from __future__ import annotations

import itertools

import pytest

from slurmfab.tasks import GROUPS, namespace
from slurmfab.tasks.help import columns, name_of, overview, task_help


def test_every_task_is_in_one_group() -> None:
    grouped = [name_of(task) for _, tasks in GROUPS for task in tasks]
    assert sorted(grouped) == sorted(namespace.task_names)


def test_all_tasks_are_shown_under_a_sentence_about_the_program() -> None:
    first, *rest = overview(GROUPS).splitlines()
    assert first.startswith("slurmfab turns bare machines into a working Slurm cluster")
    headings = [line for line in rest if line and not line.startswith(" ")]
    assert headings == [*(f"{title}:" for title, _ in GROUPS), "Help for one task: fab help TASK, or fab TASK --help."]


@pytest.mark.parametrize("width", [60, 80, 200])
def test_help_fits_into_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    texts = (task_help(namespace[name]).split("\n\n") for name in namespace.task_names)
    paragraphs = [text for text in itertools.chain.from_iterable(texts) if not text.startswith("  Examples:")]
    assert max(len(line) for text in paragraphs for line in text.splitlines()) < width


def test_a_text_that_is_too_long_goes_on_below_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert columns([("--a", "one two three four five six seven eight")]).splitlines() == [
        "  --a   one two three four five six",
        "        seven eight",
    ]


def test_help_can_be_read_twice() -> None:
    deploy = namespace["deploy"]
    assert task_help(deploy) == task_help(deploy)
