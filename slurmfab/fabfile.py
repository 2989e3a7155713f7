"""What a `fabfile.py` imports: the tasks for `fab`, once the command line has been looked through for mistakes."""

from __future__ import annotations

import sys

from slurmfab.base import interrupts

interrupts.end_quietly()

from slurmfab.base.terminal import guard_output  # noqa: E402
from slurmfab.cli.tasks import first_line  # noqa: E402 - what is loaded can be interrupted
from slurmfab.cli.tasks.invoke_tasks import check_words, namespace  # noqa: E402 - what is loaded can be interrupted

__all__ = ["namespace"]


def check_command_line() -> None:
    """Tell what is misspelt on `fab`'s command line, of which Fabric only says that it does not know it, by Exit."""
    fabric = sys.modules.get("fabric.main")  # loaded where `fab` is the program that runs
    if fabric is not None and hasattr(fabric.program, "core"):
        guard_output()
        check_words(sys.argv[1:], fabric.program.initial_context)
        first_line.show(sys.argv[1:])


check_command_line()
