"""The start of all commands for users: which one it is, is its first word."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Callable, Sequence

from slurmfab.on_hosts.programs.user_tools.asking import Silent

HERE = "slurmfab.on_hosts.programs.user_tools"
INTERRUPTED = 130  # the exit code after Ctrl-C, as shells have it


def main(name: str, *words: str) -> int:
    """Run the command, and module here, of this name; its `main`'s exit code, or 1 without Slurm."""
    # Names and comments of others may be in any encoding, and so may the user's terminal.
    if sys.stdout is None:  # the user has closed it: `sstatus >&-`
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the end
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    command: Callable[[Sequence[str]], int] = importlib.import_module("%s.%s" % (HERE, name)).main
    try:
        code = command(words)
        sys.stdout.flush()
    except Silent as silent:
        print("%s: %s" % (name, silent), file=sys.stderr)  # noqa: T201 - this is a command
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read has seen enough, as `head` has; Python would complain about it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code
