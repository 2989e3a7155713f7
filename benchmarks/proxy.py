"""A link that is long but not narrow: a TCP proxy that delays both directions and limits neither.

    python -m benchmarks.proxy --round-trip 100 PORT=ADDRESS:PORT...

Each piece of data leaves half a round trip after it came in, however much is under way meanwhile, as on a fast line to
a far place. A new connection reaches its target after one and a half round trips, as the three segments of TCP's
handshake would take (RFC 9293, 3.5). The kernel's own acknowledgements are not delayed, so TCP never waits for them.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import socket
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

PIECE = 256 * 1024
"""Bytes read at a time."""

ON_THE_WAY = 64 * 1024 * 1024
"""Bytes that may be under way in one direction: more than any link of the benchmarks holds, and yet bounded."""

HANDSHAKE = 3
"""Segments that cross the link before a connection is there on both sides."""

READY = "ready"

SERVED: set[asyncio.Task[None] | None] = set()
"""The connections that are served; asyncio itself would forget one whose sockets are closed before its last words."""


@dataclass(frozen=True)
class Link:
    """Where one port of the proxy leads.

    Args:
        port: on the loopback address.
        address: of the target.
        target_port: of the target.
    """

    port: int
    address: str
    target_port: int

    @classmethod
    def parse(cls, text: str) -> Link:
        """The link that is written `PORT=ADDRESS:PORT`.

        Raises:
            ValueError: it is none.
        """
        port, _, target = text.partition("=")
        address, _, target_port = target.rpartition(":")
        return cls(int(port), address, int(target_port))


class Line:
    """One direction of a connection.

    Args:
        reader: where data comes from.
        writer: where it goes to.
        delay: seconds that each piece takes.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
        self.reader, self.writer, self.delay = reader, writer, delay
        self.pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(ON_THE_WAY // PIECE)

    async def carry(self) -> None:
        """Carry everything, until the sender ends this direction, and then end it for the receiver."""
        taking = asyncio.create_task(self.take())
        try:
            await self.deliver()
        finally:
            taking.cancel()

    async def take(self) -> None:
        """Take in what comes, and note when it is due on the other side; an empty piece is the end."""
        now = asyncio.get_running_loop().time
        data = b"-"
        while data:
            try:
                data = await self.reader.read(PIECE)
            except OSError:
                data = b""
            await self.pieces.put((now() + self.delay, data))

    async def deliver(self) -> None:
        """Hand each piece on when it is due."""
        now = asyncio.get_running_loop().time
        while True:
            due, data = await self.pieces.get()
            await asyncio.sleep(max(0.0, due - now()))
            with contextlib.suppress(OSError, RuntimeError):
                if not data:
                    if self.writer.can_write_eof():
                        self.writer.write_eof()
                    return
                self.writer.write(data)
                await self.writer.drain()


async def connected(link: Link, round_trip: float, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one connection until both directions have ended, or its target is not there."""
    task = asyncio.current_task()
    SERVED.add(task)
    try:
        # One that is cut off when the proxy ends is no news, and Python 3.11 would print a traceback of it.
        with contextlib.suppress(asyncio.CancelledError):
            await joined(link, round_trip, reader, writer)
    finally:
        SERVED.discard(task)


async def joined(link: Link, round_trip: float, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Join a connection with its target, as long as either side sends."""
    without_waiting(writer)
    try:
        await asyncio.sleep(HANDSHAKE * round_trip / 2)
        far_reader, far_writer = await asyncio.open_connection(link.address, link.target_port, limit=PIECE)
    except OSError:
        writer.close()
        return
    without_waiting(far_writer)
    half = round_trip / 2
    try:
        await asyncio.gather(Line(reader, far_writer, half).carry(), Line(far_reader, writer, half).carry())
    finally:
        for one in (writer, far_writer):
            one.close()


def without_waiting(writer: asyncio.StreamWriter) -> None:
    """Have small segments leave at once; the delay shall be ours alone."""
    opened: socket.socket = writer.get_extra_info("socket")
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


async def listen(links: Iterable[Link], round_trip: float) -> tuple[asyncio.Server, ...]:
    """Open all ports; a port of 0 is any that is free.

    Args:
        links: where each port leads.
        round_trip: seconds.
    """

    async def server(link: Link) -> asyncio.Server:
        return await asyncio.start_server(
            lambda reader, writer: connected(link, round_trip, reader, writer),
            "127.0.0.1", link.port, limit=PIECE, backlog=1024,
        )  # fmt: skip

    return tuple([await server(link) for link in links])


def ports(servers: Iterable[asyncio.Server]) -> tuple[int, ...]:
    """The ports that are really open."""
    return tuple(server.sockets[0].getsockname()[1] for server in servers)


async def serve(links: Iterable[Link], round_trip: float) -> None:
    """Say which ports are open, and serve until the end of standard input."""
    servers = await listen(links, round_trip)
    sys.stdout.write(f"{READY} {' '.join(map(str, ports(servers)))}\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.buffer.read)
    for server in servers:
        server.close()


def command(round_trip: float, targets: Mapping[str, tuple[str, int]]) -> list[str]:
    """The words that start the proxy as a program of its own.

    Args:
        round_trip: seconds.
        targets: address and port by any name; the order is that of the ports that it prints.
    """
    links = [f"0={address}:{port}" for address, port in targets.values()]
    return [sys.executable, "-m", "benchmarks.proxy", "--round-trip", f"{round_trip * 1000:g}", *links]


def main() -> None:
    """Serve the links of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--round-trip", type=float, required=True, help="milliseconds there and back")
    parser.add_argument("links", nargs="+", type=Link.parse, metavar="PORT=ADDRESS:PORT")
    options = parser.parse_args()
    asyncio.run(serve(options.links, options.round_trip / 1000))


if __name__ == "__main__":
    main()
