"""Packages of rpm to test with, made without rpm."""

from __future__ import annotations

import struct
from pathlib import Path

LEAD = b"\xed\xab\xee\xdb" + bytes(92)
HEADER = b"\x8e\xad\xe8\x01" + bytes(4)
TEXT, NUMBER, TEXTS = 6, 4, 8


def header(*values: tuple[int, int, list[str]]) -> bytes:
    """A header with values: tag, type, and texts or one number."""
    index, store = b"", b""
    for tag, kind, texts in values:
        store += bytes(-len(store) % 4) if kind == NUMBER else b""
        index += struct.pack(">4I", tag, kind, len(store), len(texts))
        if kind == NUMBER:
            store += struct.pack(">I", int(texts[0]))
        else:
            store += b"".join(text.encode() + b"\0" for text in texts)
    return HEADER + struct.pack(">2I", len(index) // 16, len(store)) + index + store


def rpm(
    name: str, version: str = "26.05.5-1.el9", architecture: str = "x86_64", *needed: str, source: str = "a"
) -> bytes:
    """A package without content; `source`: of which package of sources it was made, empty for one of sources."""
    own = [
        (1000, TEXT, [name]),
        (1001, TEXT, [version.rpartition("-")[0]]),
        (1002, TEXT, [version.rpartition("-")[2]]),
        (1009, NUMBER, ["4000"]),
        (1022, TEXT, [architecture]),
        *([(1044, TEXT, [source])] if source else []),
        (1049, TEXTS, ["/bin/sh", "libc.so.6()(64bit)", *needed]),
    ]
    signatures = header((1000, TEXT, ["x"]))
    return LEAD + signatures + bytes(-len(signatures) % 8) + header(*own)


def saved(folder: Path, name: str, version: str = "26.05.5-1.el9", architecture: str = "x86_64", *needed: str) -> Path:
    """A package in a file of a directory, under the name that rpmbuild gives it."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-{version}.{architecture}.rpm"
    path.write_bytes(rpm(name, version, architecture, *needed))
    return path
