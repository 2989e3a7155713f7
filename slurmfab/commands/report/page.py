"""A page from its sources: the head, the sections, one style sheet and one script, all in one file."""

from __future__ import annotations

from slurmfab import __version__
from slurmfab.base.markup import Markup, fill, joined, policy
from slurmfab.commands.report import head
from slurmfab.commands.report.section import Sources
from slurmfab.commands.report.sections import SECTIONS

STYLES = ("colours.css", "page.css", "charts.css")
SCRIPTS = ("page.js",)
"""Files of `templates/report/` that become the page's one style sheet and its one script, in this order."""


def page(sources: Sources) -> str:
    """The whole page as HTML."""
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
