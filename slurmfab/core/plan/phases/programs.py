"""The files of a program that is installed on hosts: modules of slurmfab, and `run.py` to run them."""

from __future__ import annotations

import functools
import itertools
from importlib import resources as package

RUN = """\
import sys

from slurmfab.on_hosts.{main} import main

sys.exit(main(*sys.argv[1:]))
"""
"""The text of `run.py`."""


NODE_STATES = tuple(
    f"agent.{name}"
    for name in (
        "client.commands", "core.differences", "core.failure_reasons", "core.language", "core.record", "core.resource",
        "nodes.states",
    )
)  # fmt: skip
"""The modules of the agent that a program needs to read and change node states."""


@functools.cache
def files(main: str, modules: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """The files of one program, for `slurmfab.on_hosts.agent.files.program.Program`.

    Args:
        main: the module with the function `main`, such as `agent.backup.timed_backup`; `main` takes the arguments of
            the command line and returns the exit code.
        modules: all modules that the program needs, including `main`, such as `agent.core.resource`.

    Returns:
        Path below the program's directory and text of each file.
    """
    texts = {f"slurmfab/on_hosts/{name.replace('.', '/')}.py": source(name) for name in modules}
    folders = {folder for path in texts for folder in itertools.accumulate(path.split("/")[:-1], "{}/{}".format)}
    packages = {f"{folder}/__init__.py": "" for folder in folders}
    return (("run.py", RUN.format(main=main)), *sorted(packages.items()), *texts.items())


def source(name: str) -> str:
    """The source text of a module that runs on hosts, such as `agent.core.resource`."""
    folder, _, module = name.rpartition(".")
    return (package.files(f"slurmfab.on_hosts.{folder}") / f"{module}.py").read_text(encoding="utf-8")
