"""What somebody meant who has misspelt a word."""

from __future__ import annotations

from collections.abc import Iterable


def closest(word: str, known: Iterable[str]) -> str:
    """The known word that is most like a misspelt one; empty if none is."""
    from difflib import get_close_matches  # only where something is misspelt

    return next(iter(get_close_matches(word, known, n=1, cutoff=0.7)), "")


def did_you_mean(word: str) -> str:
    """A question, with a space in front; empty without a word."""
    return f" Did you mean {word}?" if word else ""
