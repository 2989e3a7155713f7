"""Call a function for many hosts at the same time, and return each result as it arrives."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import Generic, Protocol, TypeVar

from slurmfab.base.answers import ADVICE
from slurmfab.base.errors import AgentFailed, SlurmfabError

FAN_OUT = 64  # the most hosts that are asked at the same time
MOST_THREADS = 320  # the most of them, with those that are only waited for: one that is off takes its time limit

UNUSABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What reading an answer raises that its model has let through: the failure of one host, and not of the run."""

_own = threading.local()  # `turn`: in a thread of `on_each` what limits how many calls are at work; empty when given up

Result = TypeVar("Result")


class Turn(Protocol):
    """What a call has while it is at work."""

    def release(self) -> None:
        """Let the call for another host begin."""


class PendingAnswers(Generic[Result]):
    """Running calls for many hosts: an iterable of each host with its result or its SlurmfabError.

    When the iteration ends, or after `close`, no further call begins. `pool`: the threads in which the calls run.
    `futures`: the calls, by host.
    """

    def __init__(self, pool: ThreadPoolExecutor, futures: dict[Future[Result], str]) -> None:
        self.pool = pool
        self.futures = futures
        self.is_closed = False

    def __iter__(self) -> Iterator[tuple[str, Result | SlurmfabError]]:
        """Yield each host with its result or error, in the order in which the calls end."""
        try:
            for future in as_completed(self.futures):
                host = self.futures.pop(future)
                try:
                    yield host, future.result()
                except SlurmfabError as error:
                    yield host, error
                except UNUSABLE as error:
                    told = f"its answer cannot be used ({type(error).__name__}: {str(error)[:200]!r}). {ADVICE}"
                    failed = AgentFailed(host, told)
                    failed.__cause__ = error
                    yield host, failed
        finally:
            self.close()

    def close(self) -> None:
        """Begin no further call."""
        self.is_closed = True
        self.pool.shutdown(wait=False, cancel_futures=True)


def give_up_turn() -> None:
    """Let the call for another host begin, as the one in this thread waits for a host that may be off."""
    release(getattr(_own, "turn", []))


def take(turn: Turn) -> None:
    """Have this thread's call give up this turn where it waits for a host that may be off."""
    _own.turn = [turn]


def turn_for(seconds: float) -> AbstractContextManager[None]:
    """Let the call for another host begin if this context lasts longer than so many seconds."""
    return overdue(seconds, partial(release, getattr(_own, "turn", [])))


@contextmanager
def overdue(seconds: float, act: Callable[[], object]) -> Iterator[None]:
    """Calls a function, in another thread, if the block takes longer than so many seconds."""
    limit = threading.Timer(seconds, act)
    limit.daemon = True
    limit.start()
    try:
        yield
    finally:
        limit.cancel()


def release(turn: list[Turn]) -> None:
    """Give up a turn, unless that was done."""
    with suppress(IndexError):
        turn.pop().release()


def on_each(hosts: Iterable[str], function: Callable[[str], Result], fan_out: int = FAN_OUT) -> PendingAnswers[Result]:
    """Call a function for each host in threads; yields host and result, or SlurmfabError, as calls end."""
    turns = threading.Semaphore(max(1, fan_out))
    pool = ThreadPoolExecutor(max_workers=max(fan_out, MOST_THREADS), thread_name_prefix="host")
    pending: PendingAnswers[Result] = PendingAnswers(pool, {})

    def in_turn(host: str) -> Result:
        turns.acquire()
        _own.turn = [turns]
        try:
            if pending.is_closed:
                raise CancelledError
            return function(host)
        finally:
            give_up_turn()

    for host in hosts:
        pending.futures[pool.submit(in_turn, host)] = host
    return pending
