"""The pages of docs/reference are what the code says today."""

from __future__ import annotations

import pytest

from reference import PAGES, PLACE
from reference.markdown import anchor, plain


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_code_says(name: str) -> None:
    assert (PLACE / name).read_text() == PAGES[name](), "run: make reference"


def test_every_written_page_is_linked_from_the_index() -> None:
    index = (PLACE / "index.md").read_text()
    assert [name for name in PAGES if name.endswith(".md") and f"({name})" not in index] == []


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
