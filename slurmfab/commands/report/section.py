"""One section of a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from slurmfab.base.markup import Markup

Tone = Literal["good", "watch", "bad", "plain"]
"""How a section is marked in the table of contents; each has a sign of its own besides the colour."""


@dataclass(frozen=True)
class Section:
    """One section of a page."""

    id: str  # of its element, for links, such as `nodes`; letters and hyphens
    title: str
    html: Markup
    note: str = ""  # one line below the heading: what it shows, from when it is, or why it is empty
    badge: str = ""  # a few characters behind its name in the table of contents, such as `2 failed`; empty for none
    tone: Tone = "plain"  # how the badge is marked
