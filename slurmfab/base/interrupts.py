"""Ctrl-C while the program starts: one line and the usual exit code, in place of Python's traceback.

A task that has begun handles it itself.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

from slurmfab.base.exit_codes import INTERRUPTED

SENTENCE = b"\nInterrupted before anything was done.\n"


def end_quietly() -> None:
    """From now on Ctrl-C ends the program with a line; not where a shell has it ignored, as for a command with `&`."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_again() -> None:
    """From now on Ctrl-C raises KeyboardInterrupt, as Python has it."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(_number: int, _frame: FrameType | None) -> None:
    """End the program at once, in the middle of whatever it loads."""
    os.write(2, SENTENCE)
    os._exit(INTERRUPTED)
