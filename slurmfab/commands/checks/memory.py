"""A cache of commands' results: a command that several checks use runs once."""

from __future__ import annotations

import threading
from concurrent.futures import Future

from slurmfab.commands.checks.shell import SECONDS, CommandResult, Shell


class RememberingShell:
    """A shell that runs each command, which changes nothing, once, and returns its result or error to all callers."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.answers: dict[tuple[str, str], Future[CommandResult]] = {}
        self.looking_up = threading.Lock()

    def run(self, command: str, stdin: str = "", seconds: float = SECONDS) -> CommandResult:
        """The result, or error, of the first run of this command and input, for which concurrent callers wait."""
        with self.looking_up:
            is_new = (command, stdin) not in self.answers
            answer = self.answers.setdefault((command, stdin), Future())
        if is_new:
            try:
                answer.set_result(self.shell.run(command, stdin, seconds))
            except BaseException as error:  # the other callers wait for it and must get the error
                answer.set_exception(error)
        return answer.result()
