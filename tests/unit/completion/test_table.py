"""What shells are told of the tasks: everything that takes a value says which."""

from __future__ import annotations

import pytest

from slurmfab.cli.completion import takes
from slurmfab.cli.completion.takes import Takes, from_plain, plain
from slurmfab.cli.tasks import TASKS
from slurmfab.cli.tasks.completion import entry, table


@pytest.mark.parametrize("task", TASKS)
def test_each_option_of_a_task_says_what_it_takes(task: str) -> None:
    made = entry(TASKS[task])  # KeyError names a parameter that slurmfab/cli/tasks/values.py does not know
    assert made.help
    assert all(option.help for option in made.options.values())


def test_the_table_when_kept_as_json_then_is_the_same_afterwards() -> None:
    assert from_plain(plain(table())) == table()


def test_the_table_when_made_then_says_where_words_are_that_take_long_to_load() -> None:
    made = table()
    assert made["deploy"].options["--allow"].takes == Takes(takes.DISRUPTIONS)
    assert made["check-cluster"].options["--only"].takes == Takes(takes.CHECK_GROUPS, many=True)
    assert made["history"].words == (Takes(takes.RUNS),)
    assert "--run" in made["history"].options
    assert made["ssh"].words == (Takes(takes.HOSTS), Takes(takes.TEXT))
    assert made["bundle"].options["--from"].takes == Takes(takes.HOSTS)
    assert made["deploy"].options["--allow"].repeats
    assert made["deploy"].options["--prune"].takes is None
