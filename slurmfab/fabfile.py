"""What a `fabfile.py` imports: the tasks for `fab`, once the command line has been looked through for mistakes."""

import os
import sys

from slurmfab.base import surroundings

FABRIC = sys.modules.get("fabric.main")  # loaded where `fab` is the program that runs

if FABRIC is not None and hasattr(FABRIC.program, "core"):
    # Fabric looks for the fabfile there, or above, and puts its directory on the search path.
    surroundings.shut_out(FABRIC.program.args["search-root"].value or os.curdir)
    FABRIC.program.config._set(_file_suffixes=())  # nor settings: a fabric.py would be run, a fabric.yaml can name code

from slurmfab.base import interrupts  # noqa: E402 - all from here is looked for elsewhere

interrupts.end_quietly()

from slurmfab.base.terminal import guard_output  # noqa: E402
from slurmfab.cli.tasks import first_line  # noqa: E402 - what is loaded can be interrupted
from slurmfab.cli.tasks.invoke_tasks import check_words, namespace  # noqa: E402 - what is loaded can be interrupted

__all__ = ["namespace"]


def check_command_line() -> None:
    """Tell what is misspelt on `fab`'s command line, of which Fabric only says that it does not know it, by Exit."""
    if FABRIC is not None and hasattr(FABRIC.program, "core"):
        guard_output()
        check_words(sys.argv[1:], FABRIC.program.initial_context)
        first_line.show(sys.argv[1:])


check_command_line()
