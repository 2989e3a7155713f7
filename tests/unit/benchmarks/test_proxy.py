"""The delaying proxy: every byte arrives, half a round trip late in either direction, as fast as without it."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable

import pytest

from benchmarks.proxy import Link, listen, ports

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Client = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
ROUND_TRIP = 0.2


class Ticks:
    """Counts tenths of round trips that this process had time for, so that a busy machine makes it none the higher."""

    def __init__(self) -> None:
        self.count = 0

    async def __aenter__(self) -> Ticks:
        self.task = asyncio.create_task(self.tick())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()

    async def tick(self) -> None:
        while True:
            await asyncio.sleep(ROUND_TRIP / 10)
            self.count += 1

    @property
    def round_trips(self) -> float:
        return self.count / 10


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


def through(handler: Handler, client: Client, round_trip: float = ROUND_TRIP) -> None:
    """Run a client against a server behind the proxy."""

    async def run() -> None:
        server = await asyncio.start_server(handler, "127.0.0.1", 0)
        proxies = await listen([Link(0, "127.0.0.1", ports([server])[0])], round_trip)
        reader, writer = await asyncio.open_connection("127.0.0.1", ports(proxies)[0])
        try:
            await client(reader, writer)
        finally:
            writer.close()
            for one in (server, *proxies):
                one.close()

    asyncio.run(asyncio.wait_for(run(), 60))


def test_a_question_when_its_answer_has_come_then_took_a_round_trip() -> None:
    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"first")
        assert await reader.readexactly(5) == b"first"
        for _ in range(3):
            begun = time.monotonic()
            async with Ticks() as passed:
                writer.write(b"question")
                assert await reader.readexactly(8) == b"question"
            assert time.monotonic() - begun + 0.002 >= ROUND_TRIP
            assert passed.round_trips < 2

    through(echo, client)


def test_a_new_connection_when_the_server_speaks_first_then_has_cost_two_round_trips() -> None:
    async def greeting(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0\n")
        await writer.drain()
        writer.close()

    begun = time.monotonic()

    async def client(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        assert await reader.read() == b"SSH-2.0\n"
        assert time.monotonic() - begun + 0.002 >= 2 * ROUND_TRIP

    through(greeting, client)


def test_many_pieces_when_under_way_at_once_then_are_late_together_and_not_one_after_the_other() -> None:
    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"x")
        await reader.readexactly(1)
        async with Ticks() as passed:
            for number in range(50):
                writer.write(b"%04d" % number)
                await writer.drain()
                await asyncio.sleep(0.005)
            data = await reader.readexactly(200)
        assert data == b"".join(b"%04d" % number for number in range(50))
        # One after the other they would take 50 round trips.
        assert passed.round_trips < 25

    through(echo, client)


def test_much_data_when_sent_both_ways_then_arrives_whole_and_without_a_limit_of_speed() -> None:
    sent = bytes(range(256)) * 4096 * 8

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def send() -> None:
            writer.write(sent)
            await writer.drain()
            writer.write_eof()

        async with Ticks() as passed:
            sending = asyncio.create_task(send())
            got = await reader.read(-1)
            await sending
        assert hashlib.sha256(got).digest() == hashlib.sha256(sent).digest()
        # With a window of 64 KiB per round trip 8 MiB would take 128 of them.
        assert passed.round_trips < 64

    through(echo, client)


def test_an_end_when_sent_in_one_direction_then_leaves_the_other_one_open() -> None:
    async def counts(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"%d" % len(await reader.read()))
        await writer.drain()
        writer.close()

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"12345")
        writer.write_eof()
        assert await reader.read() == b"5"

    through(counts, client)


def test_a_target_that_is_not_there_when_connected_to_then_ends_the_connection() -> None:
    async def run() -> None:
        closed = await asyncio.start_server(echo, "127.0.0.1", 0)
        (port,) = ports([closed])
        closed.close()
        await closed.wait_closed()
        (server,) = await listen([Link(0, "127.0.0.1", port)], 0.01)
        reader, writer = await asyncio.open_connection("127.0.0.1", ports([server])[0])
        assert await reader.read() == b""
        writer.close()
        server.close()

    asyncio.run(asyncio.wait_for(run(), 60))


@pytest.mark.parametrize("text", ["", "80", "x=1.2.3.4:22", "80=1.2.3.4", "80=1.2.3.4:ssh"])
def test_a_link_when_it_is_none_then_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"invalid literal"):
        Link.parse(text)


def test_a_link_when_written_then_names_a_port_and_a_target() -> None:
    assert Link.parse("0=10.1.2.3:22") == Link(0, "10.1.2.3", 22)
