"""The files of a program that is installed on hosts: modules of slurmfab, and `run.py` to run them."""

from __future__ import annotations

import functools
import itertools
import re
from importlib import resources as package

RUN = """\
import sys

from slurmfab.on_hosts.{main} import main

sys.exit(main(*sys.argv[1:]))
"""
"""The text of `run.py`."""

IMPORT = re.compile(r"^ *from slurmfab\.on_hosts\.([\w.]+) import (\([^)]*\)|[^#\n(]*)", re.MULTILINE)
"""An import from a module that runs on hosts, or of such modules. A test compares it with Python's parser."""

ON_HOSTS = package.files("slurmfab.on_hosts")


@functools.cache
def files(main: str, *by_name: str) -> tuple[tuple[str, str], ...]:
    """The files of one program, for `slurmfab.on_hosts.agent.files.program.Program`.

    Args:
        main: the module with the function `main`, such as `agent.backup.timed_backup`; `main` takes the arguments of
            the command line and returns the exit code.
        by_name: modules that it imports by their names, which no line of its text tells.

    Returns:
        Path below the program's directory and text of each file.
    """
    modules, waiting = set[str](), [main, *by_name]
    while waiting:
        name = waiting.pop()
        if name not in modules:
            modules.add(name)
            waiting += imported(name)
    texts = {f"slurmfab/on_hosts/{path_of(name)}": source(name) for name in sorted(modules)}
    folders = {folder for path in texts for folder in itertools.accumulate(path.split("/")[:-1], "{}/{}".format)}
    packages = {f"{folder}/__init__.py": "" for folder in folders}
    return (("run.py", RUN.format(main=main)), *sorted(packages.items()), *texts.items())


@functools.cache
def imported(name: str) -> tuple[str, ...]:
    """The modules that a module imports, of those that run on hosts."""
    found: list[str] = []
    for module, several in IMPORT.findall(source(name)):
        names = re.findall(r"\w+", re.sub(r"\bas \w+|#.*", "", several))
        found += [module] if (ON_HOSTS / path_of(module)).is_file() else [f"{module}.{one}" for one in names]
    return tuple(found)


def source(name: str) -> str:
    """The source text of a module that runs on hosts, such as `agent.core.resource`."""
    return (ON_HOSTS / path_of(name)).read_text(encoding="utf-8")


def path_of(name: str) -> str:
    """The file of a module below the folder of all that runs on hosts."""
    return f"{name.replace('.', '/')}.py"
