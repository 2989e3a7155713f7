"""docs/explain.md shows the score that is in the record, and the answer that a lab gave."""

from __future__ import annotations

import explained


def test_the_page_when_the_record_is_renewed_then_it_has_its_figures() -> None:
    assert explained.PAGE.read_text() == explained.page(), "run .venv/bin/python tests/lab/explained.py"
