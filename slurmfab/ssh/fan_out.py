"""The same for many hosts at once: calls that begin together, and answers as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import Generic, TypeVar

from slurmfab.errors import SlurmfabError

FAN_OUT = 64
"""How many hosts are talked to at a time."""

Result = TypeVar("Result")


class Asked(Generic[Result]):
    """Hosts for each of which a function was called: an iterable of each with its result, or its error for people.

    When nobody listens any more, or after `close`, no further call begins.

    Args:
        pool: where the calls run.
        futures: the calls, by host.
    """

    def __init__(self, pool: ThreadPoolExecutor, futures: dict[Future[Result], str]) -> None:
        self.pool = pool
        self.futures = futures

    def __iter__(self) -> Iterator[tuple[str, Result | SlurmfabError]]:
        """Each host as its answer comes."""
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


def on_each(hosts: Iterable[str], function: Callable[[str], Result], fan_out: int = FAN_OUT) -> Asked[Result]:
    """Begin to call a function for each host, many at a time; each host's result or error as it comes.

    Args:
        hosts: their names.
        function: what to do; its errors that are meant for people become results, all others are raised.
        fan_out: how many at a time.
    """
    pool = ThreadPoolExecutor(max_workers=max(1, fan_out), thread_name_prefix="host")
    return Asked(pool, {pool.submit(function, host): host for host in hosts})
