"""The lines of one of the old files with the comments that stand above them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from slurmfab.cluster.slurm.conf_text import COMMENT, logical_lines

MOST_COMMENTS = 12
"""The most lines of comments that come along with one key; a longer block is about more than this key."""

LONGEST_COMMENT = 160

EMPTY = ("", "#")  # lines that separate comments from what follows
_OFF = re.compile(r"[A-Za-z0-9_]+\s*=")  # the beginning of a key that somebody has switched off by a `#`


@dataclass(frozen=True)
class OldLine:
    """One line that sets something."""

    pairs: tuple[tuple[str, str], ...]  # its keys and values, spelled as in the file
    comments: tuple[str, ...] = ()  # the comments directly above it and behind it, without `#`

    @property
    def kind(self) -> str:
        """Its first key in lower case."""
        return self.pairs[0][0].lower()


def old_lines(text: str) -> Iterator[OldLine]:
    """Yield the lines of a file that set something, in its order."""
    above: list[str] = []
    for raw in text.replace("\\\n", "").splitlines():
        pairs = next(logical_lines(raw), ())
        found = COMMENT.search(raw)
        behind = comment_text(found[0]) if found else ""
        if pairs:
            yield OldLine(tuple(pairs), tuple(filter(None, (*above[-MOST_COMMENTS:], behind))))
        if pairs or raw.strip() in EMPTY:
            above = []
        else:
            above.append(behind)


def comment_text(comment: str) -> str:
    """The text of a comment; empty for a decoration, and for a key that is switched off."""
    text = "".join(char if char.isprintable() else " " for char in comment.strip().lstrip("#")).strip(" -=*#")
    is_telling = any(map(str.isalnum, text)) and not _OFF.match(text)
    return text[:LONGEST_COMMENT] if is_telling else ""


def comments_by_key(text: str) -> Mapping[str, tuple[str, ...]]:
    """The comments of each setting, by its key in lower case; those of its last line."""
    lines = (line for line in old_lines(text) if line.comments)
    return {line.kind: line.comments for line in lines}
