"""Whether somebody logs in to a cluster while its twin is up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from slurmfab.lab import state

Logins = TypeVar("Logins")

LOGINS = "journalctl --sync; journalctl --unit=ssh --output=cat | grep --count Accepted || :"
"""Prints how many logins a host has seen."""


@contextmanager
def watched(logins: Callable[[], Logins], twin: str) -> Iterator[list[Logins]]:
    """Counts the logins on a cluster as soon as its twin, a lab of this name, is there."""
    counts: list[Logins] = []
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.2):
            if twin in state.names():
                counts.append(logins())
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield counts
    finally:
        ended.set()
        watcher.join()
