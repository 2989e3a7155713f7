"""A compressed stream, cut into pieces of one size."""

from __future__ import annotations

import contextlib
import gzip
from typing import Any, BinaryIO, Callable, Iterator, cast

Sink = Callable[[bytes], None]  # gets the next bytes; raises an error to stop
PIECE_BYTES = 48 * 1024  # bytes per piece: 64 KiB in base64

COMPRESSION_LEVEL = 6


class Pieces:
    """A file object that passes what is written to a sink, in pieces of one size."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.buffer = bytearray()

    def write(self, data: bytes) -> int:
        """Buffer the bytes and pass on full pieces."""
        self.buffer += data
        while len(self.buffer) >= PIECE_BYTES:
            self.sink(bytes(self.buffer[:PIECE_BYTES]))
            del self.buffer[:PIECE_BYTES]
        return len(data)

    def flush(self) -> None:
        """Does nothing; a piece is passed on when it is full."""

    def end(self) -> None:
        """Pass on the last piece."""
        if self.buffer:
            self.sink(bytes(self.buffer))


@contextlib.contextmanager
def compressed(sink: Sink) -> Iterator[BinaryIO]:
    """A file object whose bytes reach a sink compressed by gzip."""
    pieces = Pieces(sink)
    with gzip.GzipFile("", "wb", COMPRESSION_LEVEL, cast(Any, pieces), 0) as file:
        yield cast(BinaryIO, file)
    pieces.end()
