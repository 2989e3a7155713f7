"""A page: one file that loads nothing, in which no text of a host or user is markup."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser

from made_pages import HOSTILE, sources

from slurmfab.commands.report.section import Missing
from slurmfab.commands.report.writing import page

SMALL = sources()
TEXT = page(SMALL)


class Elements(HTMLParser):
    """The start tags of a page with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


ELEMENTS = Elements(TEXT).found


def test_page_when_a_reason_is_a_script_then_it_is_text() -> None:
    assert HOSTILE not in TEXT
    assert "&lt;script&gt;" in TEXT
    assert [tag for tag, _ in ELEMENTS].count("script") == 1


def test_page_when_made_then_its_policy_allows_its_own_style_and_script_and_nothing_else() -> None:
    policy = next(str(values["content"]) for tag, values in ELEMENTS if values.get("http-equiv"))
    inline = [re.findall(rf"<{tag}>(.*?)</{tag}>", TEXT, re.S) for tag in ("style", "script")]
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for [text] in inline]
    assert policy.split("; ") == [
        "default-src 'none'", f"style-src 'sha256-{hashes[0]}'", f"script-src 'sha256-{hashes[1]}'",
        "base-uri 'none'", "form-action 'none'",
    ]  # fmt: skip


def test_page_when_made_then_it_loads_nothing_and_has_nothing_that_its_policy_would_stop() -> None:
    names = {name for _, values in ELEMENTS for name in values}
    assert not {"style", "src", "srcset", "action", "background"} & names
    assert not [name for name in names if name.startswith("on")]
    assert {str(values["href"])[:1] for _, values in ELEMENTS if "href" in values} == {"#"}
    assert not re.search(r"url\(|@import|https?:", TEXT)


def test_page_when_made_then_each_link_leads_to_an_element_and_ids_are_unique() -> None:
    ids = [values["id"] for _, values in ELEMENTS if "id" in values]
    assert len(ids) == len({*ids})
    assert {str(values["href"])[1:] for _, values in ELEMENTS if "href" in values} <= {str(one) for one in ids}


def test_page_when_a_host_did_not_answer_then_it_is_named_with_the_reason() -> None:
    assert "cn0004 does not answer" in TEXT
    assert "nothing listens at port 22." in TEXT


def test_page_when_things_are_missing_then_it_says_why() -> None:
    lacking = page(replace(SMALL, plan=Missing("The hosts could not be compared."), checks=Missing("Never checked.")))
    assert "The hosts could not be compared." in lacking
    assert "Never checked." in lacking


def test_page_when_the_cluster_has_1000_nodes_then_it_is_smaller_than_2_mb() -> None:
    assert len(page(sources(200, 800)).encode()) < 2_000_000
