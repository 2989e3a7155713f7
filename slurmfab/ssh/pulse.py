"""The deployer's signs of life to the agents, so that a host that hears none can tell that nobody is there any more."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable
from typing import Protocol

from slurmfab.agent.lifeline import HEARTBEAT


class Heart(Protocol):
    """What can give a sign of life: a session."""

    def beat(self) -> None:
        """Give it, without waiting for anything."""


class Pulse:
    """One thread that gives signs of life in all sessions of a run, also while other hosts are worked on.

    Args:
        hearts: the sessions at this moment.
        seconds: how often.
    """

    def __init__(self, hearts: Callable[[], Iterable[Heart]], seconds: float = HEARTBEAT) -> None:
        self.hearts = hearts
        self.seconds = seconds
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.beat, daemon=True, name="pulse")
        self.starting = threading.Lock()

    def start(self) -> None:
        """Begin, if that has not been done yet."""
        with self.starting:
            if self.thread.ident is None and not self.ended.is_set():
                self.thread.start()

    def beat(self) -> None:
        """Give signs of life until the end; a host that takes none is noticed by whoever asks it."""
        while not self.ended.wait(self.seconds):
            for heart in self.hearts():
                with contextlib.suppress(Exception):
                    heart.beat()

    def end(self) -> None:
        """Give no more."""
        self.ended.set()
