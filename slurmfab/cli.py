"""`slurmfab`, as it starts: shells that complete a command line are answered before anything else is loaded."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurmfab.completion.takes import Table

COMPLETE = "--complete"
"""What the scripts of `fab completion` call this program with."""


def main() -> None:
    """Run the tasks that the command line names, or tell a shell what fits on one."""
    arguments = sys.argv[1:]
    if arguments[:1] != [COMPLETE]:
        from slurmfab import interrupts

        interrupts.end_quietly()
        from slurmfab import program

        program.run()
        return
    from slurmfab.completion import answering

    answering.write(arguments[1:], make_table)


def make_table() -> Table:
    """What all tasks take; some of them read the command line when they are loaded, and this one is not theirs."""
    del sys.argv[1:]
    from slurmfab.tasks import completion

    return completion.table()
