"""What the exit code of a task says, whichever task it is; each task's help says what it means there."""

from __future__ import annotations

from typing import NamedTuple

from slurmfab.base.program_name import FAB

DONE, FAILURE, WRONG_INPUT, LEFT_OUT, SOMETHING_TO_DO, NOT_ALL_CHECKED = range(6)

INTERRUPTED = 130  # as shells count it: 128 and the signal's number


class ExitCode(NamedTuple):
    """An exit code."""

    name: str  # in one or two words
    meaning: str  # what has happened
    to_do: str


EXIT_CODES = {
    DONE: ExitCode("done", "Everything is as wanted, or was shown.", "Nothing."),
    FAILURE: ExitCode(
        "failed",
        "Something failed, was refused because jobs would be harmed, or the controller cannot be reached.",
        "Read the last lines: they say what, where and what to try. Then run the same command again.",
    ),
    WRONG_INPUT: ExitCode(
        "wrong input",
        "The command line, the cluster file or another file of yours is wrong. Nothing was changed.",
        "Correct what the message names, with its line.",
    ),
    LEFT_OUT: ExitCode(
        "hosts left out",
        "Done, but without some hosts: down, hanging, locked, disk full, or broken. They are named.",
        f"Repair them; `{FAB} deploy --retry-failed` continues with those that a deployment left out.",
    ),
    SOMETHING_TO_DO: ExitCode(
        "something to do",
        "Nothing was changed, and something differs from the cluster file.",
        f"Read what differs, then `{FAB} deploy`. In CI this is no failure of `{FAB} plan`.",
    ),
    NOT_ALL_CHECKED: ExitCode(
        "not all checked",
        "Nothing has failed, and some of what was asked could not be checked now, as on a node that is busy or asleep.",
        "Read what was not run, and why; run it again when that is over. With busy nodes a script may take it for 0.",
    ),
    INTERRUPTED: ExitCode(
        "interrupted", "Ctrl-C. Hosts complete the step that they are at.", "Run the same command again to go on."
    ),
}
"""What each exit code says in general."""
