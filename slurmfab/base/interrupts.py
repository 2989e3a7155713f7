"""Ctrl-C while the program starts: one line and exit code, no traceback; a task that has begun handles it itself."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

from slurmfab.base.exit_codes import INTERRUPTED

SENTENCE = b"\nInterrupted before anything was done.\n"


going_on = "Run the same command again to go on"  # what a task that has begun says; a task may know better
LATER = 0.02  # seconds until an interrupt that came at a wrong moment is looked at again


def end_quietly() -> None:
    """From now on Ctrl-C ends the program with a line; not where a shell has it ignored, as for a command with `&`."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_again() -> None:
    """From now on Ctrl-C raises KeyboardInterrupt, as Python has it, but not within pydantic."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, _raise)


def _end(_number: int, _frame: FrameType | None) -> None:
    """End the program at once, in the middle of whatever it loads."""
    os.write(2, SENTENCE)
    os._exit(INTERRUPTED)


def _raise(_number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, within pydantic as soon as that has ended.

    pydantic takes an exception that comes from outside for a mistake in what it looks at, so that a file which is whole
    is called damaged, or it prints and forgets the exception. Raises KeyboardInterrupt unless pydantic is at work.
    """
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith("pydantic"):
            # To the process, and so to its main thread, which may be waiting by then.
            timer = threading.Timer(LATER, os.kill, (os.getpid(), signal.SIGINT))
            timer.daemon = True
            timer.start()
            return
        frame = frame.f_back
    raise KeyboardInterrupt
