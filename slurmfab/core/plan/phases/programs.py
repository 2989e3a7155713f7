"""The files of a program that is installed on hosts: modules of slurmfab, and `run.py` to run them."""

from __future__ import annotations

import functools
import itertools

from slurmfab.hosts import payload

RUN = """\
import sys

from slurmfab.on_hosts.{main} import main

sys.exit(main(*sys.argv[1:]))
"""
"""The text of `run.py`."""


@functools.cache
def files(main: str, *by_name: str) -> tuple[tuple[str, str], ...]:
    """Path and text of the files of one program with `main`, such as `agent.backup.timed_backup`.

    That is the module, all that it imports, and `by_name` those that no line of its text tells.
    """
    names = sorted(payload.closure((main, *by_name), payload.ON_HOSTS))
    texts = {
        f"slurmfab/on_hosts/{name.replace('.', '/')}.py": payload.source_of(name, payload.ON_HOSTS) for name in names
    }
    folders = {folder for path in texts for folder in itertools.accumulate(path.split("/")[:-1], "{}/{}".format)}
    packages = {f"{folder}/__init__.py": "" for folder in folders}
    return (("run.py", RUN.format(main=main)), *sorted(packages.items()), *texts.items())
