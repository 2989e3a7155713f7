"""The table of breakages: all rows, the share of them that a run plays, and their text for docs/checks.md.

`python tests/breakages/table.py` writes the table into the page.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import cases
import counts
from breakage import Breakage, Checked, Mended, Oddity, Row, Setting
from falsified import Falsified
from scenes import SCENES
from sentences import ROWS

PARTS = 12
"""A run of all tests plays one of so many parts of the rows, each on one suite; `TURN=all` plays all rows on both."""

SHARES = 2 * PARTS
"""So many runs play each row on both suites."""

SENTENCE_PARTS = 24
"""A run of all tests makes one of so many parts of the sentences false, each on one suite."""

PAGE = Path(__file__).parents[2] / "docs" / "checks.md"
BEGIN, END = "<!-- table of breakages: written by tests/breakages/table.py -->", "<!-- end of the table -->"
COUNTS = "<!-- table of counts: written by tests/breakages/table.py -->"
SENTENCES = "<!-- table of sentences: written by tests/breakages/table.py -->"


@cache
def rows() -> tuple[Row, ...]:
    """All rows, sorted by module and in the order of each module."""
    modules = sorted(found.name for found in pkgutil.iter_modules(cases.__path__))
    return tuple(row for name in modules for row in importlib.import_module(f"cases.{name}").ROWS)


def share(all_rows: Sequence[Row], seed: str) -> tuple[tuple[Row, str], ...]:
    """The rows that a run plays, with their suites.

    Args:
        all_rows: the rows to select from.
        seed: `all`, or a number whose remainder by `SHARES` selects the share.
    """
    if seed == "all":
        return tuple((row, suite) for row in all_rows for suite in row.suites)
    round_, part = divmod(int(seed), PARTS)
    chosen = ((place, row) for place, row in enumerate(all_rows) if place % PARTS == part)
    return tuple((row, row.suites[(place + round_) % len(row.suites)]) for place, row in chosen)


def share_of_sentences(seed: str, suites: Sequence[str]) -> set[tuple[str, str]]:
    """The checks whose sentence a run makes false, with the suites; `seed` is as for `share`."""
    if seed == "all":
        return {(row.check, suite) for row in ROWS for suite in row.among(suites)}
    round_, part = divmod(int(seed), SENTENCE_PARTS)
    # Rows of a cluster of their own are played in one run, on one suite.
    numbered = ((place if not row.scene else list(SCENES).index(row.scene), row) for place, row in enumerate(ROWS))
    chosen = ((number, row, row.among(suites)) for number, row in numbered if number % SENTENCE_PARTS == part)
    return {(row.check, its[(number + round_) % len(its)]) for number, row, its in chosen if its}


def sentence_lines() -> Iterator[str]:
    """The table of checks and of what makes their sentences false, as lines of Markdown."""
    yield "| check | what makes it false, and the test saw it fail | it says |"
    yield "|---|---|---|"
    for row in ROWS:
        yield f"| {in_words(row.check)} | {of_sentence(row)} | {quoted((row.says,))} |"


def in_words(check: str) -> str:
    """Group and name of a check with spaces, at which a narrow table breaks lines: `munge: key is safe`."""
    return check.replace(".", ": ", 1).replace(".", " ").replace("_", " ")


def of_sentence(row: Falsified) -> str:
    """What makes a sentence false, and on which host."""
    return f"{row.what} ({row.place})"


def page_lines() -> Iterator[str]:
    """The table as lines of Markdown, without oddities, which have a table of their own."""
    yield "| what is broken | `check-cluster` says | `deploy` |"
    yield "|---|---|---|"
    for row in rows():
        if isinstance(row, Breakage):
            yield f"| {row.what} | {quoted(row.check)} | {remedy(row)} |"
    yield ""
    yield "| what is wrong in the cluster file | `plan` says | `deploy` |"
    yield "|---|---|---|"
    for row in rows():
        if isinstance(row, Setting):
            yield f"| {row.what} | {quoted(row.plan)} | {refusal(row)} |"
    yield ""
    yield "Unusual, and no reason for a complaint: " + "; ".join(x.what for x in rows() if isinstance(x, Oddity)) + "."


def refusal(row: Setting) -> str:
    """What `deploy` does about a bad value."""
    if row.plan_code == row.deploy_code:
        return "refuses it, too, and changes nothing"
    return f"says {quoted(row.deploy)}, and the daemons run with the files that they had"


def remedy(row: Breakage) -> str:
    """What `deploy` does about a breakage."""
    if isinstance(row.deploy, Mended):
        return "repairs it" + (f", and says {quoted(row.deploy.words)}" if row.deploy.words else "")
    if isinstance(row.deploy, Checked):
        return f"leaves it, which is the site's. Repair: `{code(row.deploy.repair)}`"
    return f"says {quoted(row.deploy.words)}. Repair: `{code(row.deploy.repair)}`"


def quoted(words: Sequence[str]) -> str:
    """Words as code, or a dash if there are none."""
    return ", ".join(f"`{code(word)}`" for word in words) or "-"


def code(text: str) -> str:
    """A text within backticks in a table."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|").replace("`", "'")


def page() -> str:
    """docs/checks.md with the tables of today."""
    text = filled(filled(PAGE.read_text(), BEGIN, page_lines()), SENTENCES, sentence_lines())
    return filled(text, COUNTS, counts.lines())


def filled(text: str, begin: str, lines: Iterator[str]) -> str:
    """A page with these lines from a mark to the next end of a table."""
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(END)
    table = "\n".join(lines)
    return f"{before}{begin}\n\n{table}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page())
