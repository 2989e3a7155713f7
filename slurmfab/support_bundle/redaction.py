"""The filter that every text of a support bundle passes: known secrets in any common form, and what looks like one.

Known values are looked for as they are, escaped, in base64 at each alignment, and in hexadecimal digits. Of long ones
every piece of some length counts, so that neither a line break nor a cut hides the rest.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote

HIDDEN = "(not-shown)"
"""Stands for a secret."""

PIECE, STEP = 16, 8
"""Characters of a piece of a long value, and from one piece to the next: shorter pieces are found by chance, and all
pieces of the keys of a thousand hosts would fill the memory."""

SHORT = 6
"""Characters of the shortest value that is also replaced within words."""

CODED = 6
"""Characters of the shortest base64 that is looked for."""

BITS_PER_DIGIT = 6
"""Of base64."""

_RUN = re.compile(r"[A-Za-z0-9+/=_-]{16,}")
_SPACED = re.compile(r"(?:[0-9A-Fa-f]{2,4}[ :]){8,}[0-9A-Fa-f]{1,4}")
"""Digits of a dump, with separators."""

_WORD = re.compile(r"[A-Za-z0-9+/=_-]+")

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")

_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----(?:[^-]|-(?!----)){0,100000}"
            r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----)?"
        ),
        HIDDEN,
    ),
    (re.compile(r"MUNGE:[A-Za-z0-9+/=]{16,}:?"), HIDDEN),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]{4,}\.[\w-]*"), HIDDEN),
    (re.compile(r"\$(?:2[aby]|y|1|5|6|7|apr1)\$[./A-Za-z0-9$=,]{16,}"), HIDDEN),
    (re.compile(r"(?i)(\b(?:bearer|basic)[ \t]{1,8})[A-Za-z0-9+/=._~-]{8,}"), rf"\1{HIDDEN}"),
    (re.compile(r"(?i)(\bidentified[ \t]+by[ \t]+)(?:'[^'\n]*'?|\"[^\"\n]*\"?|\S+)"), rf"\1{HIDDEN}"),
    (re.compile(r"(://[^\s/:@]{0,256}:)[^\s/@]{1,256}@"), rf"\1{HIDDEN}@"),
)
"""What is a secret wherever it is, with what takes its place."""

_KEY = (
    r"(?i)((?:pass|passwd|password|passphrase|pwd|secret|token|credentials?|community"
    r"|(?:api|access|secret|private|auth|encryption)[_-]?key)"
    r"\\?[\"']?[ \t]{0,8}"
)
_KEY_WORDS = ("pass", "pwd", "secret", "token", "credential", "community", "key")
"""Each key has one of these words in it."""

_QUOTED = r"\\?\"[^\"\n]*\"?|\\?'[^'\n]*'?"
_SETTINGS = (
    re.compile(rf"{_KEY}=[ \t]{{0,8}})({_QUOTED}|[^\s\"']+)"),
    re.compile(rf"{_KEY}:[ \t]{{0,8}})({_QUOTED}|[^\s\"'][^\n\"']*)"),
)
"""A key that ends so, and its value: a word after `=`, as in slurm.conf, and the rest of the line after `:`."""

_EMPTY = re.compile(r"""\(null\)|\\?["']{2}|null\b|None\b|\(not-shown\)""")


class Filter:
    """Replaces secrets in texts.

    Args:
        secrets: known values.
        public: texts with public keys, which private ones repeat; their pieces are not secret.
    """

    def __init__(self, secrets: Iterable[bytes], public: Iterable[str] = ()) -> None:
        whole: set[str] = set()
        self.words: set[str] = set()
        self.pieces: set[str] = set()
        for value in dict.fromkeys(secrets):
            for form in forms(value):
                if len(value) < SHORT and form == value.decode(errors="replace"):
                    self.words.add(form)
                elif len(form) >= PIECE and _RUN.fullmatch(form):
                    self.pieces.update(pieces_of(form))
                elif form:
                    whole.add(form)
        for text in public:
            for run in _RUN.findall(text):
                self.pieces.difference_update(pieces_of(run, 1))
        self.whole = sorted(whole, key=lambda form: (-len(form), form))

    def text(self, text: str) -> str:
        """A text without secrets, and without control characters, which could change a terminal."""
        text = _CONTROL.sub("�", text)
        for form in self.whole:
            if form in text:
                text = text.replace(form, HIDDEN)
        if self.pieces:
            text = _SPACED.sub(self.without_dump, _RUN.sub(self.without_pieces, text))
        if self.words:
            text = _WORD.sub(lambda found: HIDDEN if found[0] in self.words else found[0], text)
            for form in self.words:
                if not _WORD.fullmatch(form):
                    text = text.replace(form, HIDDEN)
        for pattern, replacement in _PATTERNS:
            text = pattern.sub(replacement, text)
        # Most lines have no such key, which is found out sooner without a regular expression.
        return "\n".join(map(without_settings, text.split("\n")))

    def without_pieces(self, found: re.Match[str]) -> str:
        """A run of characters in which the part with pieces of secrets is replaced."""
        run = found[0]
        known = [first for first in range(len(run) - PIECE + 1) if run[first : first + PIECE] in self.pieces]
        if not known:
            return run
        # What is left of the secret before the first and after the last piece has less than STEP characters, and no `=`
        # before other digits.
        first = max(0, known[0] - STEP, run.rfind("=", 0, known[0]) + 1)
        return run[:first] + HIDDEN + run[known[-1] + PIECE + STEP :]

    def without_dump(self, found: re.Match[str]) -> str:
        """A dump of hexadecimal digits, replaced if it has a piece of a secret."""
        digits = re.sub("[ :]", "", found[0]).lower()
        return HIDDEN if any(piece in self.pieces for piece in pieces_of(digits, 1)) else found[0]


def without_settings(line: str) -> str:
    """A line without the values of settings that are secret."""
    lowered = line.lower()
    if any(word in lowered for word in _KEY_WORDS):
        for setting in _SETTINGS:
            line = setting.sub(without_value, line)
    return line


def without_value(found: re.Match[str]) -> str:
    """A setting without its value, unless that is empty."""
    value = found[2]
    if _EMPTY.match(value):
        return found[0]
    quoted = re.match(r"\\?[\"']", value)
    if quoted:
        # Where the value ends with its quote, the quote stays, so that JSON stays JSON.
        end = quoted[0] if len(value) > len(quoted[0]) and value.endswith(quoted[0]) else ""
        return f"{found[1]}{quoted[0]}{HIDDEN}{end}"
    return found[1] + HIDDEN + (value[len(value.rstrip("\\")) :] if value.endswith("\\") else "")


def pieces_of(form: str, step: int = STEP) -> Iterator[str]:
    """Yield pieces of a text, the last characters among them.

    Args:
        form: the text.
        step: characters from one to the next.
    """
    last = len(form) - PIECE
    yield from (form[first : first + PIECE] for first in range(0, last + 1, step))
    if last > 0:
        yield form[last:]


def forms(value: bytes) -> Iterator[str]:
    """Yield the forms in which a value may be in a text.

    >>> sorted(forms(b"p\\"w"))
    ['702277', 'p"w', 'p%22w', 'p\\\\"w']
    """
    try:
        text = value.decode()
    except UnicodeDecodeError:
        pass
    else:
        yield from dict.fromkeys((text, json.dumps(text)[1:-1], quote(text, safe="")))
    digits = value.hex()
    yield from dict.fromkeys((digits, digits.upper()))
    for shift in range(3):
        coded = coded_at(value, shift)
        if len(coded) >= CODED:
            yield from dict.fromkeys((coded, coded.replace("+", "-").replace("/", "_")))


def coded_at(value: bytes, shift: int) -> str:
    """The digits of base64 that a value alone decides where it begins at a byte 3n + shift of what is encoded."""
    whole = base64.b64encode(bytes(shift) + value).decode()
    first = (shift * 8 + BITS_PER_DIGIT - 1) // BITS_PER_DIGIT
    return whole[first : (shift + len(value)) * 8 // BITS_PER_DIGIT]
