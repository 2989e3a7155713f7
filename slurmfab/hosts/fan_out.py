"""Call a function for many hosts at the same time, and return each result as it arrives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import Generic, TypeVar

from slurmfab.base.errors import SlurmfabError

FAN_OUT = 64  # the most hosts that are asked at the same time

Result = TypeVar("Result")


class PendingAnswers(Generic[Result]):
    """Running calls for many hosts: an iterable of each host with its result or its SlurmfabError.

    When the iteration ends, or after `close`, no further call begins. `pool`: the threads in which the calls run.
    `futures`: the calls, by host.
    """

    def __init__(self, pool: ThreadPoolExecutor, futures: dict[Future[Result], str]) -> None:
        self.pool = pool
        self.futures = futures

    def __iter__(self) -> Iterator[tuple[str, Result | SlurmfabError]]:
        """Yield each host with its result or error, in the order in which the calls end."""
        try:
            for future in as_completed(self.futures):
                host = self.futures.pop(future)
                try:
                    yield host, future.result()
                except SlurmfabError as error:
                    yield host, error
        finally:
            self.close()

    def close(self) -> None:
        """Begin no further call."""
        self.pool.shutdown(wait=False, cancel_futures=True)


def on_each(hosts: Iterable[str], function: Callable[[str], Result], fan_out: int = FAN_OUT) -> PendingAnswers[Result]:
    """Call a function for each host in threads; yields host and result, or SlurmfabError, as calls end."""
    pool = ThreadPoolExecutor(max_workers=max(1, fan_out), thread_name_prefix="host")
    return PendingAnswers(pool, {pool.submit(function, host): host for host in hosts})
