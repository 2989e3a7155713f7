"""What is saved of a host, compressed and in pieces of one size."""

from __future__ import annotations

import contextlib
import gzip
from typing import Any, BinaryIO, Callable, Iterator, cast

Sink = Callable[[bytes], None]
"""Takes the next bytes; raises an error when there is no use in going on."""

PIECE = 48 * 1024
"""Bytes that a sink is given at a time: 64 KiB in base64."""

LEVEL = 6


class Pieces:
    """A file to write to that gives a sink pieces of one size.

    Args:
        sink: takes them.
    """

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.buffer = bytearray()

    def write(self, data: bytes) -> int:
        """Take these bytes."""
        self.buffer += data
        while len(self.buffer) >= PIECE:
            self.sink(bytes(self.buffer[:PIECE]))
            del self.buffer[:PIECE]
        return len(data)

    def flush(self) -> None:
        """Nothing; pieces are given when they are full."""

    def end(self) -> None:
        """Give the last piece."""
        if self.buffer:
            self.sink(bytes(self.buffer))


@contextlib.contextmanager
def compressed(sink: Sink) -> Iterator[BinaryIO]:
    """A file whose bytes reach a sink compressed."""
    pieces = Pieces(sink)
    with gzip.GzipFile("", "wb", LEVEL, cast(Any, pieces), 0) as file:
        yield cast(BinaryIO, file)
    pieces.end()
