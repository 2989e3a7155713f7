"""The deployer's signs of life: in all sessions, whatever one of them does, and no longer than the run."""

from __future__ import annotations

import threading

import pytest

from slurmfab.base.errors import ConnectionLost
from slurmfab.hosts.session import EMPTY_FRAME, Session
from slurmfab.hosts.transport import Heartbeat

PATIENCE = 10


class Beating:
    """What counts its beats, up to three."""

    def __init__(self, broken: bool = False) -> None:
        self.broken = broken
        self.beats = 0
        self.enough = threading.Event()

    def beat(self) -> None:
        self.beats += 1
        if self.beats >= 3:
            self.enough.set()
        if self.broken:
            raise ConnectionLost("n1", "gone.")


class Stream:
    """A stream that takes what it is sent; while it is stuck, as long as that takes."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.reads = True
        self.is_stuck = threading.Event()
        self.goes_on = threading.Event()

    def sendall(self, data: bytes) -> None:
        if data != EMPTY_FRAME:
            self.is_stuck.set()
            assert self.goes_on.wait(PATIENCE)
        self.sent.append(data)

    def recv(self, size: int) -> bytes:  # noqa: ARG002
        return b""

    def close(self) -> None: ...

    def has_room(self) -> bool:
        return self.reads


def test_every_session_gets_signs_of_life_also_beside_one_that_is_broken() -> None:
    hearts = (Beating(broken=True), Beating(), Beating())
    pulse = Heartbeat(lambda: hearts, 0.01)
    pulse.start()
    pulse.start()
    assert all(heart.enough.wait(PATIENCE) for heart in hearts)
    pulse.end()
    pulse.thread.join(PATIENCE)
    assert not pulse.thread.is_alive()


def test_a_pulse_that_has_ended_is_not_begun_again() -> None:
    pulse = Heartbeat(lambda: (pytest.fail("nobody is there"),), 0.0)
    pulse.end()
    pulse.start()
    assert not pulse.thread.is_alive()


def test_a_sign_of_life_never_gets_into_the_middle_of_a_request_nor_waits_for_its_end() -> None:
    stream = Stream()
    session = Session("n1", stream)
    session.beat()
    sender = threading.Thread(target=session.send, args=(b"5\nhello",))
    sender.start()
    assert stream.is_stuck.wait(PATIENCE)
    session.beat()
    stream.goes_on.set()
    sender.join(PATIENCE)
    session.beat()
    assert stream.sent == [b"0\n", b"5\nhello", b"0\n"]


def test_a_host_that_reads_nothing_when_others_get_signs_of_life_then_is_passed_over() -> None:
    stream = Stream()
    stream.reads = False
    Session("n1", stream).beat()
    assert stream.sent == []
