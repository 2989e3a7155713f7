"""The pages of docs/reference are what the code says today."""

from __future__ import annotations

import pytest
from json_shapes import mistakes
from jsonschema import Draft202012Validator

from reference import PAGES, PLACE
from reference.description import all_tasks
from reference.json_outputs import ALL, OUTPUTS, Output, schema_of, tasks_without_schema
from reference.markdown import anchor, plain


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_code_says(name: str) -> None:
    assert (PLACE / name).read_text() == PAGES[name](), "run: make reference"


def test_every_task_with_json_has_a_schema() -> None:
    assert tasks_without_schema() == []
    known = {task.name for task in all_tasks() if task.has_json}
    assert [task for one in OUTPUTS for task in one.tasks if task.split()[0] not in known] == []


@pytest.mark.parametrize("output", ALL, ids=lambda one: str(one.name))
def test_a_schema_is_one_and_describes_every_key(output: Output) -> None:
    schema = schema_of(output)
    Draft202012Validator.check_schema(schema)
    objects = schema["$defs"].values()
    first = schema["$defs"][schema["$ref"].rpartition("/")[2]]
    assert first["required"][0] == "version"
    assert [key for one in objects for key, about in one["properties"].items() if "description" not in about] == []


def test_an_output_with_another_key_or_without_one_does_not_fit_its_schema() -> None:
    empty = {"version": 1, "runs": []}
    assert mistakes("history", empty) == []
    assert mistakes("history", {**empty, "more": 1})
    assert mistakes("history", {"version": 1})
    assert mistakes("history", {**empty, "runs": [1]})


def test_every_written_page_is_linked_from_the_index() -> None:
    index = (PLACE / "index.md").read_text()
    assert [
        name for name in PAGES if name.endswith(".md") and not name.startswith("..") and f"({name})" not in index
    ] == []


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("all_reduce_perf of nccl-tests", "all_reduce_perf of nccl-tests"),
        ("every *.j2 in <NAME>", r"every \*.j2 in \<NAME\>"),
        ("with --drain-first, or not", "with `--drain-first`, or not"),
        ("a -- b, n--1", "a -- b, n--1"),
    ],
)
def test_texts_for_terminals_mean_nothing_else_in_markdown(text: str, markdown: str) -> None:
    assert plain(text) == markdown


def test_a_heading_is_linked_as_github_does() -> None:
    assert anchor("Lab: hosts on this machine, to try") == "lab-hosts-on-this-machine-to-try"
