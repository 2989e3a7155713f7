"""Answers that are remembered: what several checks want to know of a host is asked once in a run."""

from __future__ import annotations

import threading
from concurrent.futures import Future

from slurmfab.checks.shell import SECONDS, Answer, Shell


class RememberingShell:
    """A shell that runs each command once, and gives its first answer to whoever asks again; errors as well.

    For questions alone, whose answers may be as old as the run.

    Args:
        shell: runs the commands.
    """

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.answers: dict[tuple[str, str], Future[Answer]] = {}
        self.looking_up = threading.Lock()

    def run(self, command: str, stdin: str = "", seconds: float = SECONDS) -> Answer:
        """What a command said when it ran first; see `Shell`. Those who ask meanwhile wait for it."""
        with self.looking_up:
            is_new = (command, stdin) not in self.answers
            answer = self.answers.setdefault((command, stdin), Future())
        if is_new:
            try:
                answer.set_result(self.shell.run(command, stdin, seconds))
            except BaseException as error:  # whoever waits has to hear of it, whatever it is
                answer.set_exception(error)
        return answer.result()
