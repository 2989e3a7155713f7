"""What a `fabfile.py` imports: the tasks, and for `fab` the executor that knows the keys of hosts."""

import os
import sys
from typing import Any

from slurmfab.base import surroundings

FABRIC: Any = getattr(sys.modules.get("fabric.main"), "program", None)
IS_FAB = hasattr(FABRIC, "core")  # Fabric's own program is the one that runs

if IS_FAB:
    # Fabric looks for the fabfile there, or above, and puts its directory first on the search path.
    before = [*sys.path]
    surroundings.shut_out(FABRIC.args["search-root"].value or os.curdir)

    from slurmfab.base import interrupts  # all from here is looked for elsewhere

    interrupts.end_quietly()

from slurmfab.cli import program  # noqa: E402 - what is loaded can be interrupted
from slurmfab.cli.tasks import namespace  # noqa: E402

__all__ = ["namespace"]

if IS_FAB:
    for entry in sorted({*before} - {*sys.path}):
        program.Fabfiles.let_in(entry)
    object.__setattr__(FABRIC.config, "__class__", program.Config)
    FABRIC.config.tasks.executor_class = program.EXECUTOR
    namespace.program = FABRIC
