"""Passwords typed at a terminal: nothing is shown, not even what is typed before or after the prompt."""

from __future__ import annotations

import atexit
import contextlib
import os
import termios
import threading
from getpass import getpass

from slurmfab.base.terminal import without_status_line

ECHO = 3  # the index of the flags about echo in a terminal's attributes (termios(3), c_lflag)


class HiddenInput:
    """The terminal's echo, switched off from the first question for a password until `show` is called.

    `getpass` alone switches it on again after each line. While a host's sudo takes seconds to judge a password, a user
    may type the next one already: it would show, and the shell would get it as a command.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.before: list[int | list[bytes | int]] | None = None
        self.terminal = -1

    def ask(self, prompt: str) -> str:
        """Read a line that the user types after the prompt. `prompt`: text before the input."""
        self.hide()
        with without_status_line():
            return getpass(prompt)

    def hide(self) -> None:
        """Switch the echo off, until `show` or the end of the program; without a terminal, do nothing."""
        with self.lock, contextlib.suppress(OSError, termios.error):
            if self.before is not None:
                return
            self.terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
            before, hidden = termios.tcgetattr(self.terminal), termios.tcgetattr(self.terminal)
            hidden[ECHO] &= ~termios.ECHO
            termios.tcsetattr(self.terminal, termios.TCSAFLUSH, hidden)
            self.before = before
            atexit.register(self.show)

    def show(self) -> None:
        """Discard what was typed without a prompt, so that no shell gets it, and switch the echo on again."""
        with self.lock, contextlib.suppress(OSError, termios.error):
            if self.before is None:
                return
            before, self.before = self.before, None
            termios.tcflush(self.terminal, termios.TCIFLUSH)
            termios.tcsetattr(self.terminal, termios.TCSAFLUSH, before)
            os.close(self.terminal)
            atexit.unregister(self.show)


hidden_input = HiddenInput()  # the instance of this process, which has one terminal
