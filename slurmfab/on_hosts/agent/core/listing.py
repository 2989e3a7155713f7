"""Lists in messages: the first of many, and how many others there are."""

from __future__ import annotations

from typing import Iterable, List


def first_of(texts: Iterable[str], most: int, way: str = "") -> List[str]:
    """The first texts, and if there are others a last one, such as `and 4 more`, with the way to see them."""
    found = list(texts)
    return found if len(found) <= most else [*found[:most], "and %d more%s" % (len(found) - most, way)]


def listed(texts: Iterable[str], most: int = 12) -> str:
    """Texts as a part of a sentence, such as `a, b, c and 4 more`."""
    shown = first_of(texts, most)
    return ", ".join(shown[:most]) + "".join(" " + more for more in shown[most:])
