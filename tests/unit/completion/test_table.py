"""What shells are told of the tasks: everything that takes a value says which."""

from __future__ import annotations

import pytest
from reference.completion import CHECK_GROUPS, DISRUPTIONS, OWN_CHECKS, entry
from slurmfab.cli.completion.takes import Takes, read_table

from slurmfab.cli.completion import takes
from slurmfab.cli.tasks import TASKS


@pytest.mark.parametrize("task", TASKS)
def test_each_option_of_a_task_says_what_it_takes(task: str) -> None:
    made = entry(TASKS[task])  # KeyError names a parameter that reference/completion.py does not know
    assert made.help
    assert all(option.help for option in made.options.values())
    assert read_table()[task] == made, "run: make reference"


def test_the_table_when_read_then_says_what_options_and_words_take() -> None:
    made = read_table()
    assert made["deploy"].options["--allow"].takes == Takes(takes.CHOICES, choices=tuple(DISRUPTIONS))
    assert made["check-cluster"].options["--only"].takes == Takes(takes.CHOICES, True, (*CHECK_GROUPS, OWN_CHECKS))
    assert made["history"].words == (Takes(takes.RUNS),)
    assert "--run" in made["history"].options
    assert made["ssh"].words == (Takes(takes.HOSTS), Takes(takes.TEXT))
    assert made["bundle"].options["--from"].takes == Takes(takes.HOSTS)
    assert made["deploy"].options["--allow"].repeats
    assert made["deploy"].options["--prune"].takes is None
