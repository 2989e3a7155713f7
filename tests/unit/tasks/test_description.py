"""Tasks as data."""

from __future__ import annotations

import pytest

from reference.description import VALUES, Description, Option, Word, all_tasks
from slurmfab.base.exit_codes import DONE, EXIT_CODES, WRONG_INPUT
from slurmfab.cli.tasks import namespace

TASKS = {task.name: task for task in all_tasks()}


def option(task: str, name: str) -> Option:
    return next(one for one in TASKS[task].options if one.name == name)


def test_all_tasks_are_described() -> None:
    assert sorted(TASKS) == sorted(name.replace("_", "-") for name in namespace.task_names)


@pytest.mark.parametrize("task", TASKS.values(), ids=list(TASKS))
def test_every_task_has_a_sentence_examples_and_exit_codes(task: Description) -> None:
    assert task.summary.endswith(".")
    assert task.examples
    assert {WRONG_INPUT, DONE} & task.exit_codes.keys(), "end a paragraph with: Exit codes: 0 done, 1 failed."
    assert not any("Exit code" in part and ": 0" in part for part in task.paragraphs)
    if task.name != "ssh":
        assert task.exit_codes.keys() < EXIT_CODES.keys()
        assert DONE in task.exit_codes


@pytest.mark.parametrize("task", TASKS.values(), ids=list(TASKS))
def test_every_example_calls_a_task_with_options_that_it_has(task: Description) -> None:
    for line in task.examples:
        words = line.split("#")[0].split("|")[0].split()
        assert words[:2] == ["fab", task.name]
        inside = [one for one in all_tasks() if task.name == "rehearse" and one.name in words]
        flags = {flag for known in (task, *inside) for one in known.options for flag in one.flags}
        assert {word for word in words if word.startswith("--")} - {"--"} <= flags


def test_an_option_has_flags_value_default_and_help() -> None:
    assert option("drain", "verbose").flags == ("--verbose", "-v")
    assert option("drain", "verbose").value == ""
    cluster = option("drain", "cluster")
    assert (cluster.flags, cluster.value) == (("--cluster",), "FILE")
    assert (cluster.default, cluster.help) == ("$SLURMFAB_CLUSTER, else configs/cluster.yaml", "cluster file")
    assert option("deploy", "allow").is_repeatable
    assert (option("quickcheck", "timeout").value, option("drain", "timeout").value) == ("SECONDS", "MINUTES")


def test_a_default_in_the_signature_is_the_default_in_the_help() -> None:
    assert option("lab-up", "nodes").default == "2"
    assert option("reboot", "timeout").default == "20"
    assert option("usage", "since").default == "30d"


def test_words_are_told_with_what_stands_behind_the_options() -> None:
    assert TASKS["drain"].usage == "fab drain HOSTS [OPTIONS]"
    assert TASKS["ssh"].usage == "fab ssh HOST [OPTIONS] -- COMMAND"
    assert TASKS["ssh"].words == (Word("HOST", "a member of the cluster"),)
    assert TASKS["ssh"].rest == Word("COMMAND", "what runs there; a shell if left out")


def test_exit_codes_are_read_from_the_help() -> None:
    assert TASKS["remove-node"].exit_codes == {
        0: "done",
        1: "failed, or jobs still run after the timeout",
        2: "wrong input",
        3: "removed from the cluster, but not reached for cleaning",
    }
    assert "Exit" not in "".join(TASKS["remove-node"].paragraphs)


def test_values_are_named_for_options_that_exist() -> None:
    known = {one.name for task in TASKS.values() for one in task.options}
    known |= {word.name.lower() for task in TASKS.values() for word in task.words}
    assert set(VALUES) <= known
