"""`slurmfab` in a process of its own for each call, of which none loads it anew: one has loaded it, and forks."""

from __future__ import annotations

import gc
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

from slurmfab.base import program_name

PROGRAM = Path(sys.executable).with_name("slurmfab")
LOADED = (
    "slurmfab.cli.main",
    "slurmfab.cli.program",
    "slurmfab.core.engine.commands",
    "slurmfab.hosts.connection",
)
"""What most calls need; these import the rest."""


class ForkedProgram:
    """The process that has loaded `slurmfab`, which ends with its input."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def call(self, words: tuple[str, ...], directory: Path, environment: dict[str, str]) -> tuple[int, str, str]:
        """Call `slurmfab` with these words and without input.

        Returns:
            the exit code, and what it wrote to standard output and to standard error.
        """
        out, err = directory / ".stdout", directory / ".stderr"
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        request = {"words": words, "cwd": str(directory), "env": environment, "files": [os.devnull, str(out), str(err)]}
        print(json.dumps(request), file=self.process.stdin, flush=True)
        code = int(self.process.stdout.readline())
        said = out.read_text(), err.read_text()
        out.unlink()
        err.unlink()
        return code, *said

    def end(self) -> None:
        """End the process."""
        self.process.communicate(timeout=60)


def become_a_call() -> None:
    """Return in a new process for each request on standard input, which is then what a shell would have started."""
    for line in sys.stdin:
        child = os.fork()
        if not child:
            request = json.loads(line)
            os.chdir(request["cwd"])
            os.environ.clear()
            os.environ.update(request["env"])
            for number, path in enumerate(request["files"]):
                os.dup2(os.open(path, os.O_CREAT | (os.O_WRONLY if number else os.O_RDONLY), 0o600), number)
            sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
            sys.argv[1:] = request["words"]
            return
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)  # noqa: T201 - the answer
    sys.exit()


if __name__ == "__main__":
    sys.argv[0] = str(PROGRAM)
    program_name.FAB = "slurmfab"
    for name in LOADED:
        importlib.import_module(name)
    gc.freeze()  # or each process would look through all of it at its end
    become_a_call()
    sys.exit(sys.modules["slurmfab.cli.main"].main())
