"""`slurmfab`, as it starts: what needs no host is answered before anything else is loaded."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from slurmfab.base import surroundings

if TYPE_CHECKING:
    from slurmfab.cli.tasks.command_line import Call

COMPLETE = "--complete"  # what the scripts of `fab completion` call this program with


def main() -> None:
    """Run the tasks that the command line names, show help, or tell a shell what fits on one."""
    surroundings.shut_out()
    if sys.argv[1:2] == [COMPLETE]:
        from slurmfab.cli.completion import answering

        answering.write(sys.argv[2:])
        return
    from slurmfab.base import interrupts

    interrupts.end_quietly()
    from slurmfab.base.terminal import guard_output
    from slurmfab.cli.tasks import first_line
    from slurmfab.cli.tasks.command_line import task_first

    guard_output()
    arguments = task_first(sys.argv[1:])
    try:
        calls = asked(arguments)
        if calls:
            first_line.show(arguments)
        for call in calls:
            call.task(**call.given)
        sys.stdout.flush()
    except BrokenPipeError:  # a reader of the output who leaves early is no error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def asked(arguments: list[str]) -> list[Call]:
    """The tasks that are to be carried out; what else a command line asks for is shown, and ends where it is wrong."""
    from slurmfab.base.errors import InputError
    from slurmfab.base.terminal import fit
    from slurmfab.cli.tasks import command_line
    from slurmfab.cli.tasks.command import end

    try:
        answer = command_line.answer(arguments)
    except InputError as error:
        end(error.exit_code, fit(str(error), sys.stderr))
    if not isinstance(answer, str):
        return answer
    print(answer)  # noqa: T201 - the answer
    return []
