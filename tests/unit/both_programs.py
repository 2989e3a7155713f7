"""`fab` or `slurmfab`, called many times in one process: `python both_programs.py NAME` reads command lines as JSON."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

FAB, SLURMFAB = "fab", "slurmfab"


class Ended(NamedTuple):
    """How a call ended."""

    code: int
    out: str
    err: str


def call(name: str, lines: list[list[str]], directory: Path, environment: dict[str, str]) -> list[Ended]:
    """How a program ends with each command line, one after the other."""
    done = subprocess.run(
        [sys.executable, __file__, name], input=json.dumps(lines), cwd=directory, env=environment,
        stdout=subprocess.PIPE, text=True, timeout=300, check=True,
    )  # fmt: skip
    return [Ended(*one) for one in json.loads(done.stdout)]


def answer(name: str, lines: list[list[str]]) -> list[Ended]:
    """Carry the command lines out."""
    if name == SLURMFAB:
        from slurmfab.base import program_name

        program_name.FAB = SLURMFAB
        from slurmfab.cli.program import Program

        program = Program()
    else:
        from fabric.main import program
    ended = []
    for words in lines:
        out, err, code = io.StringIO(), io.StringIO(), 0
        sys.modules.pop("slurmfab.fabfile", None)  # which sets Fabric's program up, and each run has new settings
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                program.run([name, *words])
            except SystemExit as end:
                code = int(end.code or 0)
        ended.append(Ended(code, out.getvalue(), err.getvalue()))
    return ended


if __name__ == "__main__":
    found = answer(sys.argv[1], json.load(sys.stdin))
    print(json.dumps(found))  # noqa: T201 - the answer
