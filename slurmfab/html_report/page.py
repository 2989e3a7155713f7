"""A page from its sources: the head, the sections, one style sheet and one script, all in one file."""

from __future__ import annotations

import base64
import hashlib

from slurmfab import __version__
from slurmfab.html_report import head
from slurmfab.html_report.markup import Markup, fill, source
from slurmfab.html_report.sections import SECTIONS
from slurmfab.html_report.sources import Sources

STYLES = ("page.css", "charts.css")
SCRIPTS = ("page.js",)
"""Files of `templates/report/` that become the page's one style sheet and its one script, in this order."""


def page(sources: Sources) -> str:
    """The whole page as HTML.

    Args:
        sources: what it shows.
    """
    style, script = joined(STYLES), joined(SCRIPTS)
    return fill(
        "page.html.j2",
        name=sources.inventory.cluster.name,
        policy=policy(style, script),
        # Both are files of this package, and neither holds its own end tag.
        style=Markup(style),
        script=Markup(script),
        head=head.head(sources),
        sections=[made for section in SECTIONS if (made := section(sources))],
        version=__version__,
    )


def joined(names: tuple[str, ...]) -> str:
    """The text of several files, with the line breaks around it that are between the tags."""
    return "\n" + "\n".join(source(name) for name in names)


def policy(style: str, script: str) -> str:
    """The Content-Security-Policy: nothing is loaded, and only this style sheet and this script count.

    Args:
        style: the text between the tags of the style sheet.
        script: the text between the tags of the script.
    """
    return "; ".join((
        "default-src 'none'",
        f"style-src {digest(style)}",
        f"script-src {digest(script)}",
        "base-uri 'none'",
        "form-action 'none'",
    ))  # fmt: skip


def digest(text: str) -> str:
    """The hash of an inline style sheet or script as a source of a policy, such as `'sha256-…'`."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
