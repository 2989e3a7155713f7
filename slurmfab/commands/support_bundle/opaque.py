"""Texts that nobody can read, which may be keys: long runs of mixed characters, and texts that have others encoded."""

from __future__ import annotations

import base64
import binascii
import html
import re
import zlib
from collections.abc import Iterator
from operator import ne
from urllib.parse import unquote

from slurmfab.on_hosts.agent.logs.secret_detectors import Place

SHORTEST, LONG = 20, 40
"""Characters of the shortest run that counts as opaque, and of one that needs no digits for that."""

MIXED = 0.4
"""The share of neighbours of different kinds (capital, small letter, digit) from which on a run is no words. Of random
base64 it is 0.62, of names in CamelCase 0.3 at most."""

MOST_CODED = 64 << 10  # the most characters that are decoded at once; longer runs of base64 are opaque
MOST_UNPACKED = 256 << 10  # the most bytes that are unpacked

SHORTEST_CODED = 8

_RUN = re.compile(r"[A-Za-z0-9+/_-]{20,}={0,2}")
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


def runs(text: str) -> Iterator[Place]:
    """Yield the places of long runs of mixed characters, such as a key's body, but not public SSH keys."""
    for found in _RUN.finditer(text):
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


def digests(text: str) -> Iterator[Place]:
    """Yield the places of long numbers in hexadecimal digits: digests of files, and keys."""
    yield from (found.span() for found in _DIGEST.finditer(text))


def encoded(text: str) -> Iterator[Place]:
    """Yield the places in a text that may have another one encoded; `decoded` says which."""
    yield from (found.span() for found in _CODED.finditer(text))
    if "%" in text or "\\" in text:
        for found in _ESCAPED.finditer(text):
            if "%" in found[0] or "\\" in found[0]:
                yield found.span()
    if "&#" in text:
        yield from (found.span() for found in _ENTITIES.finditer(text))


def decoded(run: str) -> Iterator[str]:
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
