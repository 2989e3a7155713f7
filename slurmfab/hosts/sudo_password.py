"""The sudo password of a run: asked for when the first sudo wants it, and again if sudo rejects it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

from slurmfab.base.errors import BecomeRefused, SudoPasswordNeeded, SudoPasswordWrong
from slurmfab.hosts.hidden_input import hidden_input

TRIES = 3  # the most times that the user is asked, as with sudo (sudoers(5), passwd_tries)
ONE_TRY = ("incorrect password attempt", "incorrect authentication attempt")
"""Parts of the last message of sudo, and of sudo-rs, where it asks only once (sudoers(5), passwd_tries)."""

NEEDED = (
    "sudo asks for a password; give it with --ask-sudo-password. sudo asks users whom it will refuse, too: "
    "`sudo -l` on the host tells whether this one may use it."
)
"""What is said where sudo asks and no password is known: only after a right password sudo tells who may use it."""

WRONG = "sudo does not accept the password."

WITHOUT_RIGHTS = (
    "is not in the sudoers file",
    "is not allowed to execute",
    "may not run sudo",
    "I'm afraid I can't do that",  # sudo-rs
)
"""Parts of sudo's message about a user to whom sudoers(5) gives no right to become root."""

Login = TypeVar("Login")


def refusal(host: str, output: str) -> BecomeRefused:
    """The error for a sudo that ended instead of running a command."""
    lines = [line.strip().rstrip(".") for line in output.strip().splitlines()]
    if any(part in output for part in ONE_TRY):
        return SudoPasswordWrong(host, WRONG)
    for line in lines:
        part = next((part for part in WITHOUT_RIGHTS if part in line), "")
        if part:  # behind it, the message may have the whole command
            return BecomeRefused(
                host,
                f"sudo refused: {line[: line.index(part)]}{part}, so no password helps. Allow it there (usermod -aG "
                "sudo USER, or sudoers), or log in as another user (--user at first contact, ssh: {user: ...} in the "
                "cluster file).",
            )
    return BecomeRefused(host, f"sudo refused: {lines[-1] if lines else 'it said nothing'}.")


class SudoPassword:
    """The sudo password of all hosts, asked for once however many of them want it.

    Args:
        ask: asks the user; `None` without a terminal. After an empty answer the user is not asked again.
        known: the password, if it is already known.
    """

    def __init__(self, ask: Callable[[], str] | None, known: str = "") -> None:
        self.ask = ask
        self.known = known
        self.tries = 1 if known else 0
        self.is_accepted = False
        self.lock = threading.Lock()
        self.under_way = 0
        self.counting = threading.Lock()

    def log_in(self, attempt: Callable[[str], tuple[Login, bool]]) -> Login:
        """Become root on a host, and ask for another password if sudo rejects the known one.

        `attempt`: logs in with a password, perhaps empty; the login, and whether sudo used it. Raises
        SudoPasswordNeeded or SudoPasswordWrong, also for a password that another host accepted.
        """
        with self.counting:
            self.under_way += 1
        try:
            return self.log_in_with_passwords(attempt)
        finally:
            with self.counting:
                self.under_way -= 1
                # Nobody judges a password any more, and where no sudo has asked for one, nobody has called this yet.
                if not self.under_way:
                    hidden_input.show()

    def log_in_with_passwords(self, attempt: Callable[[str], tuple[Login, bool]]) -> Login:
        """Try one password after the other; see `log_in`."""
        password = self.known
        while True:
            try:
                login, was_used = attempt(password)
            except (SudoPasswordNeeded, SudoPasswordWrong) as refused:
                password = self.another(password, refused)
            else:
                if was_used:
                    self.is_accepted = True
                    hidden_input.show()
                return login

    def another(self, tried: str, refused: BecomeRefused) -> str:
        """The next password to try: the one that another thread has asked for meanwhile, else a new answer of the user.

        `tried`: the password that was refused; empty for none. `refused`: the error of that attempt. Raises
        BecomeRefused if there is no other password; this is `refused`.
        """
        with self.lock:
            if self.known != tried:
                return self.known
            if self.ask is None or self.tries >= TRIES or (tried and self.is_accepted):
                hidden_input.show()
                raise refused
            if tried:
                text = f"{refused.host}: sudo does not accept this password. Try again."
                print(text, file=sys.stderr)  # noqa: T201 - whoever is asked reads why
            self.tries += 1
            answer = self.ask()
            if not answer:
                self.ask = None
                hidden_input.show()
                raise refused
            self.known = answer
            return answer
