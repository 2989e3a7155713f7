"""The scripts that complete command lines in shells."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from slurmfab.base.errors import InputError
from slurmfab.cli.completion.answering import SHELLS

SHIPPED = Path(__file__).parent / "shipped"


def script(shell: str) -> str:
    """The script for a shell, which asks this slurmfab where it finds none by itself; InputError for other shells."""
    if shell not in SHELLS:
        raise InputError(f"There is no completion for {shell}; there is for {', '.join(SHELLS)}.")
    text = (SHIPPED / f"completion.{shell}").read_text(encoding="utf-8")
    return text.replace("@PROGRAM@", shlex.quote(str(program()))).rstrip("\n")


def program() -> Path:
    """The path of `slurmfab`, which is beside the program that runs or beside its Python."""
    beside = (Path(os.path.abspath(sys.argv[0])), Path(sys.executable))  # noqa: PTH100 - links stay
    found = (path.with_name("slurmfab") for path in beside)
    return next((path for path in found if path.is_file()), Path("slurmfab"))
