"""The files of a program that is installed on hosts: modules of slurmfab, and `run.py` to run them."""

from __future__ import annotations

import functools
import itertools

from slurmfab.hosts import modules

RUN = """\
import sys

from slurmfab.on_hosts.{main} import main

sys.exit(main(*sys.argv[1:]))
"""
"""The text of `run.py`."""


@functools.cache
def files(main: str, *by_name: str) -> tuple[tuple[str, str], ...]:
    """The files of one program, for `slurmfab.on_hosts.agent.files.program.Program`.

    Args:
        main: the module with the function `main`, such as `agent.backup.timed_backup`; `main` takes the arguments of
            the command line and returns the exit code.
        by_name: modules that it imports by their names, which no line of its text tells.

    Returns:
        Path below the program's directory and text of each file: of these modules, and of all that they import.
    """
    names = sorted(modules.closure((main, *by_name), modules.ON_HOSTS))
    texts = {f"slurmfab/on_hosts/{name.replace('.', '/')}.py": modules.source(name, modules.ON_HOSTS) for name in names}
    folders = {folder for path in texts for folder in itertools.accumulate(path.split("/")[:-1], "{}/{}".format)}
    packages = {f"{folder}/__init__.py": "" for folder in folders}
    return (("run.py", RUN.format(main=main)), *sorted(packages.items()), *texts.items())
