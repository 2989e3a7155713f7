"""The name under which this program was called, for messages that recommend a command."""

from __future__ import annotations

import sys
from pathlib import PurePath


def called_as(program: str) -> str:
    """The program's name as a user types it.

    Args:
        program: the first word of the command line, as in `sys.argv[0]`.

    Returns:
        `slurmfab` for that program and for `python -m slurmfab`; `fab` for everything else.

    >>> called_as("/usr/local/bin/slurmfab"), called_as("/usr/local/bin/fab")
    ('slurmfab', 'fab')
    """
    path = PurePath(program)
    is_module = path.name == "__main__.py" and path.parent.name == "slurmfab"
    return "slurmfab" if is_module or path.stem == "slurmfab" else "fab"


FAB = called_as(sys.argv[0] if sys.argv else "")
"""`fab` or `slurmfab`, as this program was called.

Messages use it: f"Run {FAB} deploy." Files on hosts and beside the cluster file say `fab`, whoever wrote them.
"""
