"""The deployer's heartbeats to the agents: an agent that receives none knows that the deployer is gone."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable
from typing import Protocol

from slurmfab.on_hosts.agent.core.lifeline import HEARTBEAT


class Beating(Protocol):
    """Something that can send a heartbeat: a session."""

    def beat(self) -> None:
        """Send a heartbeat without waiting."""


class Heartbeat:
    """One thread that sends heartbeats in a run's sessions every so many seconds, also while others work."""

    def __init__(self, hearts: Callable[[], Iterable[Beating]], seconds: float = HEARTBEAT) -> None:
        self.hearts = hearts
        self.seconds = seconds
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.beat, daemon=True, name="heartbeat")
        self.starting = threading.Lock()

    def start(self) -> None:
        """Start the thread, if it does not run yet."""
        with self.starting:
            if self.thread.ident is None and not self.ended.is_set():
                self.thread.start()

    def beat(self) -> None:
        """Send heartbeats until `end`; errors are ignored, since the next request to that host reports them."""
        while not self.ended.wait(self.seconds):
            for heart in self.hearts():
                with contextlib.suppress(Exception):
                    heart.beat()

    def end(self) -> None:
        """Send no more heartbeats."""
        self.ended.set()
