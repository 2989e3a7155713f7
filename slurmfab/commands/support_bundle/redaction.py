"""The filter that every text of a support bundle passes: known secrets in any common form, and what looks like one.

Known values are looked for as they are, escaped, in base64 at each alignment, and in hexadecimal digits. Of long ones
every piece of some length counts, so that neither a line break nor a cut hides the rest. What may be encoded is
decoded, some times over, and looked at again: in the lines, and in the text without its line breaks.
"""

from __future__ import annotations

import base64
import binascii
import html
import json
import re
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from operator import ne
from typing import NamedTuple
from urllib.parse import quote, unquote

from slurmfab.base.grouping import grouped
from slurmfab.on_hosts.agent.logs import secret_detectors
from slurmfab.on_hosts.agent.logs.secret_detectors import Place

_BREAK = re.compile(r"\r?\n|(?:\\r)?\\n")
_BEFORE = re.compile(
    r"[ \t]{0,64}"
    r"(?:\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[^\s\]]{0,12}\]?[ \t]{1,8}"
    r"|(?:[A-Z][a-z]{2} {1,2}\d{1,2} )\d\d:\d\d:\d\d[ \t]{1,8})?"
    r"(?:[\w.-]{1,64}[ \t]{1,8}[\w./@-]{1,64}(?:\[\d{1,9}\])?:[ \t]{1,8})?"
    r"(?:\[\d{1,9}(?:\.\w{1,16})?\] )?(?:(?:fatal|error|info|verbose|debug\d?): )?"
    r"[ \t>|\"']{0,64}"
)
"""What is before the text of a line: white space, a time, `host program[pid]:`, or marks of a quotation."""

_AFTER = " \t\\\"'\ufffd"  # what may be between the text of a line and its end; a carriage return was replaced before


class JoinedText:
    """A text whose lines are `joined` directly; `is_split` if it had more than one."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._joined_at: list[int] = []
        self._text_at: list[int] = []
        parts, size, begin = [], 0, 0
        for end, following in self._lines():
            first = begin
            if begin:
                before = _BEFORE.match(text, begin, end)
                first = before.end() if before else begin
            part = text[first:end].rstrip(_AFTER)
            self._joined_at.append(size)
            self._text_at.append(first)
            parts.append(part)
            size += len(part)
            begin = following
        self.joined = "".join(parts)
        self.is_split = len(parts) > 1

    def _lines(self) -> Iterator[tuple[int, int]]:
        """Yield the end of each line, and the beginning of the next one."""
        for found in _BREAK.finditer(self.text):
            yield found.span()
        yield len(self.text), len(self.text)

    def places(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the places in the text, one in each line, of a part of the joined text."""
        line = bisect_right(self._joined_at, first) - 1
        while first < end:
            next_line = self._joined_at[line + 1] if line + 1 < len(self._joined_at) else len(self.joined)
            size = min(end, next_line) - first
            if size > 0:
                begin = self._text_at[line] + first - self._joined_at[line]
                yield begin, begin + size
                first += size
            line += 1

    @cached_property
    def line_begins(self) -> list[int]:
        """Where the lines of the text begin that line breaks end, in order."""
        return [0, *(found.end() for found in re.finditer("\n", self.text))]

    def line(self, place: int) -> tuple[int, int]:
        """Where the line begins and ends that has a place of the text."""
        number = bisect_right(self.line_begins, place)
        end = self.line_begins[number] - 1 if number < len(self.line_begins) else len(self.text)
        return self.line_begins[number - 1], end


SHORTEST, LONG = 20, 40
"""Characters of the shortest run that counts as opaque, and of one that needs no digits for that."""

MIXED = 0.4
"""The share of neighbours of different kinds (capital, small letter, digit) from which on a run is no words. Of random
base64 it is 0.62, of names in CamelCase 0.3 at most."""

MOST_CODED = 64 << 10  # the most characters that are decoded at once; longer runs of base64 are opaque
MOST_UNPACKED = 256 << 10  # the most bytes that are unpacked

SHORTEST_CODED = 8

_OPAQUE_RUN = re.compile(r"[A-Za-z0-9+/_-]{20,}={0,2}")
_DIGEST = re.compile(r"(?<![A-Za-z0-9])(?:[0-9a-f]{32,}|[0-9A-F]{32,})(?![A-Za-z0-9])")
UUID = re.compile(r"(?<![A-Za-z0-9])[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}(?![A-Za-z0-9])")
_PUBLIC = re.compile(r"AAAA(?:B3NzaC1|C3NzaC1|E2VjZHNh|Gnnrc|GnNrL|Inc)")
_FINGERPRINT = "SHA256:"
_KINDS = str.maketrans({
    **dict.fromkeys("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "A"),
    **dict.fromkeys("abcdefghijklmnopqrstuvwxyz", "a"),
    **dict.fromkeys("0123456789", "0"),
    **dict.fromkeys("+/_-=", None),
})  # fmt: skip

_CODED = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,6}")
_ESCAPED = re.compile(r"[^\s\"'<>()\[\]{},;]{3,4096}")
_ESCAPES = re.compile(r"\\{1,2}(?:x([0-9A-Fa-f]{2})|u00([0-9A-Fa-f]{2})|([0-3][0-7]{2}))")
_HEX = re.compile(r"(?:[0-9A-Fa-f]{2})+")
_BASE32 = re.compile(r"[A-Z2-7]{8,}=*")
_ENTITIES = re.compile(r"(?:&#(?:\d{2,5}|x[0-9A-Fa-f]{2,4});[\w.+-]{0,16}){2,4096}")
_GZIP, _ZLIB = b"\x1f\x8b", (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")


def opaque_runs(text: str) -> Iterator[Place]:
    """Yield the places of long runs of mixed characters, such as a key's body, but not public SSH keys."""
    for found in _OPAQUE_RUN.finditer(text):
        is_public = _PUBLIC.match(found[0]) or text.endswith(_FINGERPRINT, 0, found.start())
        if not is_public and is_mixed(UUID.sub("", found[0])):
            yield found.span()


def is_mixed(run: str) -> bool:
    """Whether a run of characters is no words."""
    kinds = run.translate(_KINDS)
    if len(kinds) < SHORTEST or not ("A" in kinds and "a" in kinds and ("0" in kinds or len(kinds) >= LONG)):
        return False
    changes: int = sum(map(ne, kinds, kinds[1:]))
    return changes >= MIXED * (len(kinds) - 1)


LEAST_RANDOM = 12  # letters and digits of the shortest value that is random


def is_random(value: bytes) -> bool:
    """Whether a value can be no text that somebody wants to read, in any form: so it may be hidden wherever it is."""
    text = value.decode(errors="ignore")
    shown = [base64.b64encode(bytes(shift) + value).decode()[2 * shift : -4] for shift in range(3)]
    if value.decode(errors="replace") == text:
        if re.search(r"\s", text):
            return False
        shown.append(text)
    for one in shown:
        kinds = re.sub("[^A-Za-z0-9]", "", one).translate(_KINDS)
        changes: int = sum(map(ne, kinds, kinds[1:]))
        if len(kinds) < LEAST_RANDOM or len({*kinds}) < len("Aa0") or changes < MIXED * (len(kinds) - 1):
            return False
    return True


def opaque_digests(text: str) -> Iterator[Place]:
    """Yield the places of long numbers in hexadecimal digits: digests of files, and keys."""
    yield from (found.span() for found in _DIGEST.finditer(text))


def opaque_encoded(text: str) -> Iterator[Place]:
    """Yield the places in a text that may have another one encoded; `decoded` says which."""
    yield from (found.span() for found in _CODED.finditer(text))
    if "%" in text or "\\" in text:
        for found in _ESCAPED.finditer(text):
            if "%" in found[0] or "\\" in found[0]:
                yield found.span()
    if "&#" in text:
        yield from (found.span() for found in _ENTITIES.finditer(text))


def opaque_decoded(run: str) -> Iterator[str]:
    """Yield readable texts of base64, hexadecimal, URLs or escapes, unpacked from gzip up to some size."""
    if run.isalpha() and (run.islower() or run.isupper() or run.istitle()):
        return
    if "&#" in run:
        yield html.unescape(run)
    elif "%" in run or "\\" in run:
        text = _ESCAPES.sub(lambda found: chr(int(found[1] or found[2] or "0", 16) or int(found[3] or "0", 8)), run)
        yield from (one for one in (text, unquote(text)) if one != run)
        return
    run = run[:MOST_CODED]
    if _HEX.fullmatch(run):
        yield from readable(bytes.fromhex(run))
    if _BASE32.fullmatch(run):
        whole = run.rstrip("=")
        yield from readable(base64.b32decode(whole[: len(whole) // 8 * 8]))
    standard = run.rstrip("=").replace("-", "+").replace("_", "/")
    # Where the digits begin is not known if a word of the same characters is before them.
    for shift in range(4):
        digits = standard[shift:]
        digits = digits[: len(digits) - (len(digits) % 4 == 1)]
        if len(digits) >= SHORTEST_CODED:
            try:
                yield from readable(base64.b64decode(digits + "=" * (-len(digits) % 4)))
            except binascii.Error:
                continue


def readable(data: bytes) -> Iterator[str]:
    """Yield bytes as text if they are one, or if one is packed in them."""
    if data.startswith((_GZIP, *_ZLIB)):
        try:
            data = zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(data, MOST_UNPACKED)
        except zlib.error:
            return
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return
    if text.translate({9: None, 10: None, 13: None}).isprintable():
        yield text


HIDDEN = "(not-shown)"  # stands for a secret

PIECE, STEP = 16, 8
"""Characters of a piece of a long value, and from one piece to the next: shorter pieces are found by chance, and all
pieces of the keys of a thousand hosts would fill the memory."""

SHORT = 6  # characters of the shortest value that is also replaced within words
CODED = 6  # characters of the shortest base64 that is looked for
BITS_PER_DIGIT = 6  # of base64
DEEPEST = 3  # how many times over a text is decoded
MOST_SEEN = 200_000  # so many words are remembered that have nothing encoded
LEAST_LINE = 80  # characters of the shortest line that is left out as a whole if most of it is opaque
LEAST_WORDS = 2  # words that the rest of such a line has at least, if the line stays
MOST_SPACES = 8  # of a secret: at each, a line break may be in its place

_RUN = re.compile(r"[A-Za-z0-9+/=_-]{16,}")
_SPACED = re.compile(r"(?:[0-9A-Fa-f]{2,4}[ :]){5,}[0-9A-Fa-f]{1,4}")  # digits of a dump, with separators
_PAIR = re.compile("(..)(..)")  # two bytes, which hexdump(1) and od(1) exchange

_WORD = re.compile(r"[A-Za-z0-9+/=_-]+")

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")

_PLAIN = re.compile(r"[A-Za-z]?[a-z]{0,15}\d{0,4}[-_/]?")
_READABLE = re.compile(r"[A-Za-z]{3,}")

_WRAPPED = re.compile(r"[ \t]{0,64}(?:\r?\n|\\n)[ \t]{0,64}([^\s\"'\\]+)")


class Hidden(NamedTuple):
    """A place in a text that is hidden."""

    first: int  # where it begins
    end: int  # where it ends
    shown: str = HIDDEN  # what is shown instead
    is_opaque: bool = False  # whether it is hidden because nobody can read it
    is_known: bool = False  # whether it is a value that was looked for


class Filter:
    """Replaces secrets in texts.

    `public`: texts with public keys, which private ones repeat; their pieces are not secret. `others`: filters whose
    values are looked for as well.
    """

    def __init__(self, secrets: Iterable[bytes], public: Iterable[str] = (), others: Iterable[Filter] = ()) -> None:
        whole: set[str] = set()
        self.words: set[str] = set()
        self.pieces: set[str] = set()
        self.public: set[str] = set()
        self.digests: dict[str, str] = {}
        self.harmless: set[str] = set()
        for value in dict.fromkeys(secrets):
            for form in forms(value):
                if len(value) < SHORT and form == value.decode(errors="replace"):
                    self.words.add(form)
                elif len(form) >= PIECE and _RUN.fullmatch(form):
                    self.pieces.update(pieces_of(form))
                elif form:
                    whole.update((form, JoinedText(form).joined))
        for text in public:
            for run in _RUN.findall(text):
                self.public.add(run)
                self.pieces.difference_update(pieces_of(run, 1))
        for other in others:
            whole.update(other.whole)
            self.words |= other.words
            self.pieces |= other.pieces
            self.digests = other.digests  # equal digests have one number in all texts
        self.whole: list[str] = sorted(whole - {""}, key=lambda form: (-len(form), form))

    def text(self, text: str) -> str:
        """A text without secrets, and without control characters, which could change a terminal."""
        return self.clean(text)[0]

    def clean(self, text: str) -> tuple[str, int]:
        """A text without secrets, and how many of its lines are left out because most of them is opaque."""
        text = _CONTROL.sub("�", text)
        joined = JoinedText(text)
        alone = merged((*self.in_lines(text), *self.anywhere(text)))
        places = merged((*alone, *self.across(joined, alone)))
        places, lines = with_lines(places, joined)
        parts: list[str] = []
        end = 0
        for place in places:
            parts += (text[end : place.first], place.shown)
            end = place.end
        return "".join((*parts, text[end:])), lines

    def in_lines(self, text: str) -> Iterator[Hidden]:
        """Yield what the words before it tell: values of settings, and of options on command lines."""
        for first, end in (
            *secret_detectors.settings(text),
            *secret_detectors.slurm_options(text),
            *secret_detectors.after_words(text),
            *secret_detectors.command_line_secrets(text),
        ):
            yield Hidden(first, end)
            following = _WRAPPED.match(text, end)
            if following and end - line_begin(text, end) in secret_detectors.WIDTHS:
                yield Hidden(*following.span(1))

    def across(self, joined: JoinedText, alone: list[Hidden]) -> Iterator[Hidden]:
        """Yield what a line break has split."""
        if not joined.is_split:
            return
        begins, ends = {place.first for place in alone}, {place.end for place in alone}
        for place in self.anywhere(joined.joined):
            parts = list(joined.places(place.first, place.end))
            # What is whole at the end of a line does not go on with a plain word in the next one.
            if place.is_opaque and place.end - place.first < LONG:
                continue
            while len(parts) > 1 and not place.is_known and parts[-2][1] in ends and is_word(joined.text, parts[-1]):
                parts.pop()
            while len(parts) > 1 and not place.is_known and parts[1][0] in begins and is_word(joined.text, parts[0]):
                parts.pop(0)
            if len(parts) > 1:
                yield from (place._replace(first=first, end=end) for first, end in parts)

    def anywhere(self, text: str, depth: int = 0) -> Iterator[Hidden]:
        """Yield what is a secret wherever it is, also encoded."""
        for first, end in self.known(text):
            yield Hidden(first, end, is_known=True)
        for first, end in (*secret_detectors.tokens(text), *secret_detectors.shapes(text)):
            yield Hidden(first, end)
        for first, end in opaque_runs(text):
            if text[first:end] not in self.public:
                yield Hidden(first, end, is_opaque=True)
        for first, end in opaque_digests(text):
            digest = text[first:end].lower()
            yield Hidden(first, end, self.digests.setdefault(digest, f"(digest-{len(self.digests) + 1})"))
        if depth < DEEPEST:
            for first, end in opaque_encoded(text):
                if self.has_encoded(text[first:end], depth):
                    yield Hidden(first, end)

    def has_encoded(self, run: str, depth: int) -> bool:
        """Whether a run of characters has a secret encoded."""
        if run in self.harmless or run in self.public:
            return False
        if any(self.has_secret(text, depth + 1) for text in opaque_decoded(run)):
            return True
        if depth == 0 and len(self.harmless) < MOST_SEEN:
            self.harmless.add(run)
        return False

    def has_secret(self, text: str, depth: int) -> bool:
        """Whether a decoded text has a secret."""
        return any(True for _ in self.in_lines(text)) or any(True for _ in self.anywhere(text, depth))

    def known(self, text: str) -> Iterator[secret_detectors.Place]:
        """Yield the places of known values."""
        for form in self.whole:
            if form in text:
                yield from (found.span() for found in re.finditer(re.escape(form), text))
        if self.pieces:
            for found in _RUN.finditer(text):
                yield from self.pieces_in(found)
            yield from (found.span() for found in _SPACED.finditer(text) if self.is_dump(found[0]))
        if self.words:
            yield from (found.span() for found in _WORD.finditer(text) if found[0] in self.words)
            for form in self.words:
                if not _WORD.fullmatch(form):
                    yield from (found.span() for found in re.finditer(re.escape(form), text))

    def pieces_in(self, found: re.Match[str]) -> Iterator[secret_detectors.Place]:
        """Yield the part of a run of characters that has pieces of secrets."""
        run, begin = found[0], found.start()
        known = [first for first in range(len(run) - PIECE + 1) if run[first : first + PIECE] in self.pieces]
        if known:
            # What is left of the secret before the first and after the last piece has less than STEP characters, and no
            # `=` before other digits.
            first = max(0, known[0] - STEP, run.rfind("=", 0, known[0]) + 1)
            yield begin + first, begin + min(len(run), known[-1] + PIECE + STEP)

    def is_dump(self, dump: str) -> bool:
        """Whether a dump of hexadecimal digits has a piece of a secret."""
        digits = re.sub("[ :]", "", dump).lower()
        return any(piece in self.pieces for piece in pieces_of(digits, 1))


def line_begin(text: str, place: int) -> int:
    """Where the line begins that a place of a text is in, if not far before."""
    before = text[max(0, place - max(secret_detectors.WIDTHS) - 2) : place]
    return place - len(re.split(r"\n|\\n", before)[-1])


def is_word(text: str, place: secret_detectors.Place) -> bool:
    """Whether a place of a text has a plain word."""
    return _PLAIN.fullmatch(text, *place) is not None


def merged(places: Iterable[Hidden]) -> list[Hidden]:
    """The places in order, those that overlap as one."""
    found: list[Hidden] = []
    for place in sorted(one for one in places if one.first < one.end):
        last = found[-1] if found else None
        if last is None or place.first >= last.end:
            found.append(place)
            continue
        shown = last.shown if last.shown == place.shown else HIDDEN
        found[-1] = Hidden(last.first, max(last.end, place.end), shown, last.is_opaque or place.is_opaque)
    return found


def with_lines(places: list[Hidden], joined: JoinedText) -> tuple[list[Hidden], int]:
    """The places, with whole lines for those that are opaque for the most part, and how many such lines there are."""
    by_line = grouped((joined.line(place.first), place) for place in places if place.is_opaque)
    lines = [
        Hidden(*line) for line, opaque_places in by_line.items() if is_opaque_line(joined.text, line, opaque_places)
    ]
    return (merged((*places, *lines)), len(lines)) if lines else (places, 0)


def is_opaque_line(text: str, line: secret_detectors.Place, places: list[Hidden]) -> bool:
    """Whether most of a line is opaque, and the rest of it says nothing."""
    first, end = line
    if end - first < LEAST_LINE or 2 * sum(place.end - place.first for place in places) <= end - first:
        return False
    ends = (first, *(place.end for place in places))
    begins = (*(place.first for place in places), end)
    rest = " ".join(text[one:other] for one, other in zip(ends, begins, strict=True))
    return len(_READABLE.findall(rest)) < LEAST_WORDS


def pieces_of(form: str, step: int = STEP) -> Iterator[str]:
    """Yield pieces of a text, the last characters among them."""
    last = len(form) - PIECE
    yield from (form[first : first + PIECE] for first in range(0, last + 1, step))
    if last > 0:
        yield form[last:]


def forms(value: bytes) -> Iterator[str]:
    """Yield the forms in which a value may be in a text.

    >>> sorted(forms(b"p\\"w"))
    ['227077', '702277', 'p"w', 'p%22w', 'p\\\\"w']
    """
    try:
        text = value.decode()
    except UnicodeDecodeError:
        pass
    else:
        yield from dict.fromkeys((text, json.dumps(text)[1:-1], quote(text, safe=""), *without_a_space(text)))
    digits, swapped = value.hex(), _PAIR.sub(r"\2\1", value.hex())
    yield from dict.fromkeys((digits, digits.upper(), swapped))
    if len(value) >= SHORT:
        yield base64.b32encode(value).decode().rstrip("=")[:-1]
    for shift in range(3):
        coded = coded_at(value, shift)
        if len(coded) >= CODED:
            yield from dict.fromkeys((coded, coded.replace("+", "-").replace("/", "_")))


def without_a_space(text: str) -> Iterator[str]:
    """Yield a text without each of its spaces, as it is where a line break is in the place of one."""
    for found in list(re.finditer(" +", text))[:MOST_SPACES]:
        yield text[: found.start()] + text[found.end() :]


def coded_at(value: bytes, shift: int) -> str:
    """The digits of base64 that a value alone decides where it begins at a byte 3n + shift of what is encoded."""
    whole = base64.b64encode(bytes(shift) + value).decode()
    first = (shift * 8 + BITS_PER_DIGIT - 1) // BITS_PER_DIGIT
    return whole[first : (shift + len(value)) * 8 // BITS_PER_DIGIT]
