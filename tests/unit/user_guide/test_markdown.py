"""Markdown: paragraphs that are wrapped, texts of others, and HTML."""

from __future__ import annotations

import pytest

from slurmfab.core.user_guide.markdown import WIDTH, code, html, plain, wrapped


def test_a_text_when_wrapped_then_code_tables_and_headings_stay_as_they_are() -> None:
    long = "word " * 40
    row = f"| {long}|"
    text = f"# Title\n{long}\n{long}\n- {long}\n- b\n\n\n\n{row}\n\n```\n{long}\n\n\n{long}\n```\n"
    lines = wrapped(text).splitlines()
    assert lines[:2] == ["# Title", ""]
    assert [line for line in lines if len(line) > WIDTH] == [row, long.rstrip(), long.rstrip()]
    assert "\n\n\nword" in wrapped(text)
    assert "\n\n\n\n" not in wrapped(text)
    assert wrapped(wrapped(text)) == wrapped(text)


@pytest.mark.parametrize("text", ["cn[01-16]", "a`b", "``", "`x"])
def test_code_is_shown_as_it_was(text: str) -> None:
    assert f"<code>{text}</code>" in html(code(text))[0]


@pytest.mark.parametrize(
    "text", ["*a* _b_", "# no heading", "1. no list", "a | b", "<b>", "[x](y)", "- no item", "&amp;"]
)
def test_a_text_of_others_is_a_text(text: str) -> None:
    shown = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert html(plain(text))[0].strip() == f"<p>{shown}</p>"


def test_headings_get_names_to_link_to() -> None:
    page, headings = html("# A\n\n## CPUs & `memory`\n\n### Not this\n")
    assert headings == [("cpus-memory", "CPUs & memory")]
    assert '<h2 id="cpus-memory">' in page
