"""The files of a program that stays on hosts: modules of the agent's and its own, and a few lines to run them."""

from __future__ import annotations

import functools
from importlib import resources as package

RUN = """\
import sys

from slurmfab.{main} import main

sys.exit(main(*sys.argv[1:]))
"""


@functools.cache
def files(main: str, modules: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """The files of one program, for `slurmfab.agent.program.Program`.

    Args:
        main: the module with its `main`, as in `agent.timed_backup`; it takes the words of the command line and returns
            the exit code.
        modules: all modules that it takes, itself included, as in `agent.resource` or `programs.health`.

    Returns:
        Names and texts.
    """
    texts = {f"slurmfab/{name.replace('.', '/')}.py": source(*name.split(".")) for name in modules}
    packages = {f"slurmfab/{name.partition('.')[0]}/__init__.py": "" for name in modules}
    return (("run.py", RUN.format(main=main)), ("slurmfab/__init__.py", ""), *packages.items(), *texts.items())


def source(folder: str, module: str) -> str:
    """The text of a module of ours."""
    return (package.files(f"slurmfab.{folder}") / f"{module}.py").read_text(encoding="utf-8")
