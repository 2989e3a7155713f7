"""`slurmfab`, as it starts: nothing from the working directory is loaded, and Ctrl-C ends it with one line."""

from __future__ import annotations

import os
import sys

from slurmfab.base import program_name, surroundings


def main() -> None:
    """Have Invoke read the command line and carry out what it asks for."""
    surroundings.shut_out()
    program_name.FAB = "slurmfab"
    from slurmfab.base import interrupts

    interrupts.end_quietly()
    from slurmfab.cli.program import Program

    try:
        try:
            Program().run()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # a reader of the output who leaves early is no error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
