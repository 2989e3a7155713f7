"""How jobs ended, in plain words, by Slurm's states and exit codes; for users and for administrators."""

from __future__ import annotations

import signal
from typing import Dict

from slurmfab.on_hosts.agent.client.amounts import number_of

STATES: Dict[str, str] = {
    "COMPLETED": "ended well",
    "OUT_OF_MEMORY": "out of memory",
    "TIMEOUT": "reached its time limit",
    "DEADLINE": "could not end before its --deadline",
    "NODE_FAIL": "lost its node",
    "BOOT_FAIL": "its node did not start",
    "PREEMPTED": "gave way to a job with a higher priority",
    "REQUEUED": "was put back into the queue",
    "CANCELLED": "was cancelled",
    "FAILED": "failed",
}
"""What each state of an ended job means, behind the job or `it`."""

OUTPUT_ERROR = 53  # what slurmstepd gives as the signal of a job whose output could not be opened
NOT_FOUND, NOT_EXECUTABLE, BY_SIGNAL = 127, 126, 128  # exit codes of shells

OF_SHELLS: Dict[int, str] = {
    NOT_FOUND: "which shells give for a command that they do not find",
    NOT_EXECUTABLE: "which shells give for a file that they may not execute",
}


def meaning(state: str, code: str) -> str:
    """How a job ended, as in `ended with exit code 3`.

    >>> meaning("FAILED", "3:0"), meaning("FAILED", "0:11"), meaning("FAILED", "137:0")
    ('ended with exit code 3', 'was killed by signal 11 (SIGSEGV)', 'ended with exit code 137, which shells give for a \
command that signal 9 (SIGKILL) has killed')
    """
    status, number = codes(code)
    if state != "FAILED":
        return STATES.get(state, "ended as %s" % state)
    if number == OUTPUT_ERROR:
        return "could not be started: its output file or its directory could not be opened"
    if number:
        return "was killed by signal %s" % name_of(number)
    if not status:
        return STATES[state]
    told = OF_SHELLS.get(status, "")
    if not told and BY_SIGNAL < status < BY_SIGNAL + signal.NSIG and known(status - BY_SIGNAL):
        told = "which shells give for a command that signal %s has killed" % name_of(status - BY_SIGNAL)
    return "ended with exit code %d%s" % (status, ", " + told if told else "")


def codes(code: str) -> tuple[int, int]:
    """Exit code and signal in Slurm's form; 0 for what it does not say."""
    status, _, number = code.partition(":")
    return number_of(status) or 0, number_of(number) or 0


def known(number: int) -> bool:
    """Whether there is such a signal."""
    return number in {int(one) for one in signal.Signals}


def name_of(number: int) -> str:
    """A signal, with its name if it has one."""
    return "%d (%s)" % (number, signal.Signals(number).name) if known(number) else str(number)
