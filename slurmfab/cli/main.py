"""`slurmfab`, as it starts: what needs no host is answered before Invoke and anything else is loaded."""

from __future__ import annotations

import os
import sys

COMPLETE = "--complete"  # what the scripts of `fab completion` call this program with


def main() -> None:
    """Run the tasks that the command line names, show help, or tell a shell what fits on one."""
    arguments = sys.argv[1:]
    if arguments[:1] == [COMPLETE]:
        from slurmfab.cli.completion import answering

        answering.write(arguments[1:])
        return
    from slurmfab.base import interrupts

    interrupts.end_quietly()
    if not is_answered(arguments):
        from slurmfab.cli.tasks import first_line

        first_line.show(arguments)
        from slurmfab.cli import program

        program.run()


def is_answered(arguments: list[str]) -> bool:
    """Show what the command line asks for, if that is no task that is to be carried out; end where it is wrong."""
    from slurmfab.base.errors import InputError
    from slurmfab.base.terminal import fit, guard_output, write
    from slurmfab.cli.tasks import command_line

    guard_output()
    try:
        answer = command_line.answer(arguments)
        if answer is not None:
            print(answer)  # noqa: T201 - the answer
            sys.stdout.flush()
    except InputError as error:
        write(fit(str(error), sys.stderr), sys.stderr)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return answer is not None
